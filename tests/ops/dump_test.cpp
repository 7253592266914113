// Writes every op's example calls with results and gradients, for pytorch_parity_test.py.
#include <gtest/gtest.h>

#include <cstdlib>

#include <fmt/ranges.h>

#include "io/safetensors/safetensors.h"
#include "tests/ops/op_examples.h"

namespace facula::test {
namespace {

/// Collects tensors and, as metadata, one JSON text per call that names them.
class Dump {
 public:
  void add(const ops::DynamicOp& op, std::size_t index, const Sample& sample) {
    const std::string call = fmt::format("{}/{}", op.name, index);
    const Outcome outcome = run_with_gradients(op, sample);
    std::string arguments;
    for (const Argument& argument : sample) {
      if (!arguments.empty()) arguments += ", ";
      arguments += text(argument, call);
    }
    std::string results, gradients;
    for (const Tensor& result : outcome.results) {
      results += (results.empty() ? "" : ", ") + reference(result, call);
    }
    for (const Tensor& gradient : outcome.gradients) {
      gradients += (gradients.empty() ? "" : ", ") + reference(gradient, call);
    }
    metadata_[call] = fmt::format(
        R"({{"arguments": [{}], "results": [{}], "gradients": [{}], "differentiable": {}}})",
        arguments, results, gradients, outcome.gradients.empty() ? "false" : "true");
  }

  void signature(const ops::DynamicOp& op) { metadata_[op.name] = op.signature; }

  void write(const std::string& path) { io::write_safetensors(path, entries_, metadata_); }

 private:
  static const char* format_name(DType dtype) {
    switch (dtype) {
      case kFloat32: return "F32";
      case kFloat64: return "F64";
      case kInt32: return "I32";
      case kInt64: return "I64";
      case kUInt8: return "U8";
      case kBool: return "BOOL";
      case kFloat16: return "F16";
      case kBFloat16: return "BF16";
      case kInt8: return "I8";
      case kInt16: return "I16";
    }
    return "";
  }

  /// Adds the tensor and returns how the JSON refers to it.
  std::string reference(const Tensor& tensor, const std::string& call) {
    if (!tensor.defined()) return "null";
    const std::string name = fmt::format("{}/{}", call, entries_.size());
    Tensor dense = tensor.detach().contiguous();
    kept_.push_back(dense);
    entries_.push_back({name,
                        format_name(dense.dtype()),
                        dense.sizes().vec(),
                        {static_cast<const std::uint8_t*>(dense.raw_data()),
                         static_cast<std::size_t>(dense.nbytes())}});
    return fmt::format(R"({{"tensor": "{}"}})", name);
  }

  std::string text(const Argument& argument, const std::string& call) {
    switch (argument.kind) {
      case Argument::Kind::none: return "null";
      case Argument::Kind::tensor: return reference(argument.tensor, call);
      case Argument::Kind::tensors: {
        std::string list;
        for (const Tensor& tensor : argument.tensors) {
          list += (list.empty() ? "" : ", ") + reference(tensor, call);
        }
        return "[" + list + "]";
      }
      case Argument::Kind::floating: return fmt::format(R"({{"float": "{}"}})", argument.floating);
      case Argument::Kind::integer: return std::to_string(argument.integer);
      case Argument::Kind::boolean: return argument.integer ? "true" : "false";
      case Argument::Kind::integers: return fmt::format("[{}]", fmt::join(argument.integers, ", "));
      case Argument::Kind::dtype:
        return fmt::format(R"({{"dtype": "{}"}})", name_of(argument.dtype));
      case Argument::Kind::string: return fmt::format(R"("{}")", argument.string);
    }
    return "null";
  }

  std::vector<Tensor> kept_;
  std::vector<io::SafetensorsEntry> entries_;
  io::SafetensorsMetadata metadata_;
};

TEST(OpDump, Write) {
  const char* path = std::getenv("FACULA_OP_DUMP");
  if (!path) GTEST_SKIP() << "FACULA_OP_DUMP, the file to write, is not set";
  Dump dump;
  for (const ops::DynamicOp* op : all_ops()) {
    dump.signature(*op);
    std::size_t index = 0;
    for (const Sample& sample : samples_of(*op)) dump.add(*op, index++, sample);
  }
  dump.write(path);
}

}  // namespace
}  // namespace facula::test
