#include <facula/json_line.h>
#include <facula/torch_file.h>

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "base/check.h"
#include "core/tensor_impl.h"
#include "io/archives/zip.h"
#include "io/torch/torch_types.h"
#include "runtime/deferred.h"

namespace facula {
namespace {

/// The bytes of one storage that the tensors to be saved use, as far as they have one dtype.
struct StoredRange {
  const std::uint8_t* begin = nullptr;
  const std::uint8_t* end = nullptr;
};

struct NamedTensor {
  std::string name;
  Tensor tensor;
  std::size_t range = 0;
};

/// Writes the few opcodes of protocol 2 that a dictionary of tensors takes.
class PickleText {
 public:
  std::string take() { return std::move(text_); }
  PickleText& op(std::string_view opcodes) {
    text_ += opcodes;
    return *this;
  }
  PickleText& global(std::string_view module, std::string_view name) {
    return op("c").op(module).op("\n").op(name).op("\n");
  }
  PickleText& text(std::string_view value) {
    op("X").little_endian(value.size(), 4);
    return op(value);
  }
  PickleText& integer(std::int64_t value) {
    // BININT has 32 bits, LONG1 as many bytes as it says.
    const bool fits = value <= std::numeric_limits<std::int32_t>::max();
    op(fits ? "J" : "\x8a\x08");
    return little_endian(static_cast<std::uint64_t>(value), fits ? 4 : 8);
  }
  PickleText& integers(IntList values) {
    op("(");
    for (const std::int64_t value : values) integer(value);
    return op("t");
  }

 private:
  PickleText& little_endian(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) text_ += static_cast<char>(value >> (8 * i) & 0xff);
    return *this;
  }

  std::string text_;
};

const std::uint8_t* first_byte(const Tensor& tensor) {
  return reinterpret_cast<const std::uint8_t*>(runtime::elements_to_read(tensor));
}

/// How many elements a tensor reaches over, gaps included.
std::int64_t reach(const Tensor& tensor) {
  if (tensor.numel() == 0) return 0;
  std::int64_t elements = 1;
  for (int d = 0; d < tensor.dim(); ++d) elements += (tensor.size(d) - 1) * tensor.stride(d);
  return elements;
}

std::vector<NamedTensor> collect(const StateDict& state) {
  std::vector<NamedTensor> tensors;
  for (const auto& [name, value] : state.flat()) {
    const auto* tensor = value->get_if<Tensor>();
    check<ValueError>(tensor != nullptr && tensor->defined(),
                      "save_torch: '{}' is {}, only tensors can be saved; leave it out", name,
                      tensor ? "an undefined tensor" : value->kind_name());
    check<ValueError>(is_utf8(name), "save_torch: the name {} is not UTF-8; choose another",
                      json_string(name));
    tensors.push_back({name, tensor->detach().cpu()});
  }
  return tensors;
}

/// Finds the ranges, and tells each tensor its own.
std::vector<StoredRange> find_ranges(std::vector<NamedTensor>& tensors) {
  std::vector<StoredRange> ranges;
  std::unordered_map<const void*, std::size_t> of_storage[kDTypeCount];
  for (NamedTensor& entry : tensors) {
    const auto* begin = first_byte(entry.tensor);
    const auto* end = begin + reach(entry.tensor) * entry.tensor.element_size();
    auto& known = of_storage[static_cast<int>(entry.tensor.dtype())];
    const auto [found, added] = known.try_emplace(entry.tensor.impl()->storage, ranges.size());
    entry.range = found->second;
    if (added) {
      ranges.push_back({begin, end});
    } else if (begin != end) {
      StoredRange& range = ranges[entry.range];
      const bool empty = range.begin == range.end;
      range = {empty ? begin : std::min(range.begin, begin),
               empty ? end : std::max(range.end, end)};
    }
  }
  return ranges;
}

/// What data.pkl says: {name: _rebuild_tensor_v2(storage, offset, size, stride, False,
/// OrderedDict())}.
std::string describe(const std::vector<NamedTensor>& tensors,
                     const std::vector<StoredRange>& ranges) {
  PickleText pickle;
  pickle.op("\x80\x02}(");
  for (const auto& [name, tensor, index] : tensors) {
    const StoredRange& range = ranges[index];
    const auto size = static_cast<std::ptrdiff_t>(tensor.element_size());
    const auto* first = first_byte(tensor);
    pickle.text(name).global("torch._utils", "_rebuild_tensor_v2").op("((").text("storage");
    pickle.global("torch", io::torch_type_of(tensor.dtype()).storage);
    pickle.text(std::to_string(index)).text("cpu").integer((range.end - range.begin) / size);
    pickle.op("tQ").integer(tensor.numel() == 0 ? 0 : (first - range.begin) / size);
    pickle.integers(tensor.sizes()).integers(tensor.strides()).op("\x89");
    pickle.global("collections", "OrderedDict").op(")RtR");
  }
  return pickle.op("u.").take();
}

}  // namespace

void save_torch(const StateDict& state, const std::string& path) {
  std::vector<NamedTensor> tensors = collect(state);
  const std::vector<StoredRange> ranges = find_ranges(tensors);
  io::AtomicFile file(path);
  io::ZipWriter zip(file);
  zip.add("archive/data.pkl", describe(tensors, ranges));
  zip.add("archive/byteorder", "little");
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    zip.add("archive/data/" + std::to_string(i), {ranges[i].begin, ranges[i].end});
  }
  zip.add("archive/version", "3\n");
  zip.finish();
  file.commit();
}

}  // namespace facula
