// `facula inspect`: what a file of weights holds, without loading it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>

#include <facula/json_line.h>
#include <facula/model_file.h>

#include "cli/commands.h"

namespace facula::cli {
namespace {

std::string shape_of(const TensorInfo& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.shape, ", "));
}

/// Text of a file, safe for a terminal and not too long for it.
std::string shown(const std::string& text) {
  constexpr std::size_t kLongest = 160;
  const std::string quoted = json_string(text.substr(0, kLongest));
  std::string inner = quoted.substr(1, quoted.size() - 2);
  if (text.size() > kLongest) inner += fmt::format("... ({} characters)", text.size());
  return inner;
}

std::string size_text(std::uint64_t bytes) {
  if (bytes < 10'000) return fmt::format("{} bytes", bytes);
  return bytes < 10'000'000 ? fmt::format("{:.1f} kB", 1e-3 * static_cast<double>(bytes))
                            : fmt::format("{:.1f} MB", 1e-6 * static_cast<double>(bytes));
}

std::uint64_t total_bytes(const ModelFileInfo& info) {
  std::uint64_t total = 0;
  for (const TensorInfo& tensor : info.tensors) total += tensor.bytes;
  return total;
}

/// The parts with commas between them.
template <class Items, class Text>
std::string list_of(const Items& items, const Text& text) {
  std::string joined;
  for (const auto& item : items) {
    if (!joined.empty()) joined += ',';
    joined += text(item);
  }
  return joined;
}

void print_json(const ModelFileInfo& info, const std::string& path) {
  const auto tensor = [](const TensorInfo& t) {
    return JsonLine()
        .add("name", t.name)
        .add("dtype", t.dtype)
        .add("shape", std::span<const std::int64_t>(t.shape))
        .add("bytes", t.bytes)
        .str();
  };
  const auto names = [](const std::vector<std::string>& group) {
    return fmt::format("[{}]", list_of(group, json_string));
  };
  const auto pair = [](const std::pair<std::string, std::string>& entry) {
    return fmt::format("{}:{}", json_string(entry.first), json_string(entry.second));
  };
  const std::string head = JsonLine()
                               .add("file", path)
                               .add("format", info.format)
                               .add("valid", info.refusal.empty())
                               .add("refusal", info.refusal)
                               .add("file_bytes", info.bytes)
                               .add("tensor_bytes", total_bytes(info))
                               .str();
  fmt::print("{},\"tensors\":[{}],\"shared\":[{}],\"metadata\":{{{}}}}}\n",
             head.substr(0, head.size() - 1), list_of(info.tensors, tensor),
             list_of(info.shared, names), list_of(info.metadata, pair));
}

void print_text(const ModelFileInfo& info, const std::string& path) {
  fmt::print("{}: {}, {}, {}\n", path, info.format, size_text(info.bytes),
             info.refusal.empty() ? "valid" : "refused");
  std::size_t name_width = 0, dtype_width = 0, shape_width = 0;
  constexpr std::size_t kWidest = 60;
  for (const TensorInfo& tensor : info.tensors) {
    name_width = std::min(std::max(name_width, shown(tensor.name).size()), kWidest);
    dtype_width = std::max(dtype_width, tensor.dtype.size());
    shape_width = std::min(std::max(shape_width, shape_of(tensor).size()), kWidest);
  }
  for (const TensorInfo& tensor : info.tensors) {
    fmt::print("  {:<{}}  {:<{}}  {:<{}}  {}\n", shown(tensor.name), name_width, tensor.dtype,
               dtype_width, shape_of(tensor), shape_width, size_text(tensor.bytes));
  }
  if (!info.tensors.empty())
    fmt::print("{} tensors, {}\n", info.tensors.size(), size_text(total_bytes(info)));
  for (const auto& group : info.shared) {
    fmt::print("one memory: {}\n", list_of(group, [](const std::string& name) {
                 return fmt::format(" {}", shown(name));
               }));
  }
  for (const auto& [key, text] : info.metadata) fmt::print("{} = {}\n", shown(key), shown(text));
  if (!info.refusal.empty()) fmt::print("refused: {}\n", info.refusal);
}

}  // namespace

int run_inspect(const InspectOptions& options) {
  const ModelFileInfo info = inspect_model_file(options.file);
  options.json ? print_json(info, options.file) : print_text(info, options.file);
  return info.refusal.empty() ? 0 : 1;
}

}  // namespace facula::cli
