#include "io/safetensors/safetensors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <tuple>

#include "base/check.h"
#include "io/atomic_file.h"
#include "io/bounded.h"
#include "io/safetensors/safetensors_header.h"

namespace facula::io {
namespace {

constexpr size_t kHeaderAlignment = 8;

struct DTypeBits {
  std::string_view name;
  uint64_t bits;
};

constexpr DTypeBits kDTypes[] = {
    {"BOOL", 8}, {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
    {"I8", 8},   {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"I16", 16},
    {"U16", 16}, {"F16", 16},    {"BF16", 16},   {"I32", 32},    {"U32", 32},
    {"F32", 32}, {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64},
};

/// Size of one element; 0 for an unknown dtype.
uint64_t element_bits(std::string_view dtype) {
  const auto* found = std::find_if(std::begin(kDTypes), std::end(kDTypes),
                                   [&](const DTypeBits& known) { return known.name == dtype; });
  return found == std::end(kDTypes) ? 0 : found->bits;
}

/// Bytes of a tensor; nothing if that overflows or is not a whole number. Zero dimensions count as
/// ones in the overflow check, because strides are computed from the other dimensions all the same.
std::optional<uint64_t> byte_size(uint64_t bits, std::span<const int64_t> shape) {
  bool empty = false;
  for (const int64_t dim : shape) {
    empty |= dim == 0;
    const auto factor = static_cast<uint64_t>(std::max<int64_t>(dim, 1));
    if (__builtin_mul_overflow(bits, factor, &bits)) return std::nullopt;
  }
  if (empty) return 0;
  return bits % 8 == 0 ? std::optional(bits / 8) : std::nullopt;
}

/// Checks one tensor whose data must start at `expected_begin`.
void check_tensor(const SafetensorsHeaderTensor& tensor, uint64_t expected_begin,
                  const std::string& source) {
  const uint64_t bits = element_bits(tensor.dtype);
  check<IoError>(bits != 0,
                 "{}: tensor {} has the unknown dtype {}; convert the file to a known one such as "
                 "F32",
                 source, quote_name(tensor.name), quote_name(tensor.dtype));
  check<IoError>(
      tensor.begin == expected_begin && tensor.begin <= tensor.end,
      "{}: tensor {} has data_offsets [{}, {}], expected a start of {}: data must have no "
      "holes or overlaps; the file is damaged, get it again",
      source, quote_name(tensor.name), tensor.begin, tensor.end, expected_begin);
  const auto size = byte_size(bits, tensor.shape);
  check<IoError>(
      size == tensor.end - tensor.begin,
      "{}: tensor {} of dtype {} and shape [{}] has {} bytes of data, which does not fit; "
      "the file is damaged, get it again",
      source, quote_name(tensor.name), tensor.dtype, fmt::join(tensor.shape, ", "),
      tensor.end - tensor.begin);
}

/// Throws ValueError unless the entry can be written.
void check_entry(const SafetensorsEntry& entry) {
  const std::string name = quote_name(entry.name);
  const uint64_t bits = element_bits(entry.dtype);
  check<ValueError>(bits != 0, "write_safetensors: tensor {} has the unknown dtype {}; convert it",
                    name, quote_name(entry.dtype));
  check<ValueError>(entry.name != kSafetensorsMetadataKey,
                    "write_safetensors: the name {} is reserved; rename the tensor", name);
  const bool negative =
      std::any_of(entry.shape.begin(), entry.shape.end(), [](int64_t dim) { return dim < 0; });
  check<ValueError>(!negative && byte_size(bits, entry.shape) == entry.data.size(),
                    "write_safetensors: tensor {} of dtype {} and shape [{}] has {} bytes of data, "
                    "which does not fit; pass contiguous data of that shape",
                    name, entry.dtype, fmt::join(entry.shape, ", "), entry.data.size());
}

/// The entries in the order of their data.
std::vector<const SafetensorsEntry*> layout_order(std::span<const SafetensorsEntry> entries) {
  std::vector<const SafetensorsEntry*> order;
  order.reserve(entries.size());
  for (const auto& entry : entries) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    const uint64_t a_bits = element_bits(a->dtype);
    const uint64_t b_bits = element_bits(b->dtype);
    return std::tie(b_bits, a->name) < std::tie(a_bits, b->name);
  });
  return order;
}

void check_unique_names(std::span<const SafetensorsEntry> entries) {
  std::vector<std::string_view> names;
  names.reserve(entries.size());
  for (const auto& entry : entries) names.push_back(entry.name);
  std::sort(names.begin(), names.end());
  const auto repeated = std::adjacent_find(names.begin(), names.end());
  if (repeated == names.end()) return;
  fail<ValueError>("write_safetensors: two tensors are called {}; rename one",
                   quote_name(*repeated));
}

/// The first part of the file: length and padded header.
std::string format_prefix(const SafetensorsHeader& header) {
  std::string json = format_safetensors_header(header);
  const size_t aligned = (json.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment;
  json.append(aligned - json.size(), ' ');
  check<ValueError>(aligned <= kMaxSafetensorsHeader,
                    "write_safetensors: the header takes {} bytes, the format allows {}; write "
                    "fewer tensors or less metadata",
                    aligned, kMaxSafetensorsHeader);
  std::string prefix;
  for (int shift = 0; shift < 64; shift += 8) prefix += static_cast<char>(aligned >> shift & 0xff);
  return prefix + json;
}

}  // namespace

SafetensorsReader::SafetensorsReader(const std::string& path, Mapping mapping)
    : file_(std::in_place, path, mapping) {
  parse(file_->bytes(), path);
}

SafetensorsReader::SafetensorsReader(std::span<const uint8_t> file, const std::string& source) {
  parse(file, source);
}

void SafetensorsReader::parse(std::span<const uint8_t> file, const std::string& source) {
  BoundedReader reader(file, source);
  const uint64_t header_size = reader.u64_le("the length of the safetensors header");
  check<IoError>(
      header_size <= kMaxSafetensorsHeader,
      "{}: a safetensors header of {} bytes, the format allows {}; the file is damaged or "
      "of another format, check it",
      source, header_size, kMaxSafetensorsHeader);
  MemoryBudget budget(safetensors_budget(file.size()), source);
  auto header =
      parse_safetensors_header(reader.take(header_size, "the safetensors header"), source, budget);
  auto& tensors = header.tensors;
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });

  entries_.reserve(tensors.size());
  uint64_t end = 0;
  for (auto& tensor : tensors) {
    check_tensor(tensor, end, source);
    end = tensor.end;
    const auto data = reader.take(tensor.end - tensor.begin, quote_name(tensor.name));
    entries_.push_back(
        {std::move(tensor.name), std::move(tensor.dtype), std::move(tensor.shape), data});
  }
  check<IoError>(reader.remaining() == 0,
                 "{}: {} bytes follow the last tensor; the file is damaged, get it again", source,
                 reader.remaining());
  metadata_ = std::move(header.metadata);

  by_name_.resize(entries_.size());
  std::iota(by_name_.begin(), by_name_.end(), size_t{0});
  const auto name = [&](size_t i) -> const std::string& { return entries_[i].name; };
  std::ranges::sort(by_name_, {}, name);
  const auto repeated = std::ranges::adjacent_find(by_name_, {}, name);
  if (repeated == by_name_.end()) return;
  fail<IoError>("{}: two tensors are called {}; the file is damaged or malicious, refuse it",
                source, quote_name(name(*repeated)));
}

const SafetensorsEntry* SafetensorsReader::find(std::string_view name) const {
  const auto found = std::partition_point(by_name_.begin(), by_name_.end(),
                                          [&](size_t i) { return entries_[i].name < name; });
  if (found == by_name_.end() || entries_[*found].name != name) return nullptr;
  return &entries_[*found];
}

void write_safetensors(const std::string& path, std::span<const SafetensorsEntry> entries,
                       const SafetensorsMetadata& metadata) {
  for (const auto& entry : entries) check_entry(entry);
  check_unique_names(entries);
  const auto order = layout_order(entries);
  SafetensorsHeader header{.tensors = {}, .metadata = metadata};
  uint64_t end = 0;
  for (const auto* entry : order) {
    const uint64_t begin = end;
    end += entry->data.size();
    header.tensors.push_back({entry->name, entry->dtype, entry->shape, begin, end});
  }
  const std::string prefix = format_prefix(header);
  check<ValueError>(safetensors_cost(header) <= safetensors_budget(prefix.size() + end),
                    "write_safetensors: {} tensors in {} bytes would take more memory than a file "
                    "of that size is given when it is read; join tiny ones",
                    header.tensors.size(), prefix.size() + end);
  AtomicFile file(path);
  file.write(prefix);
  for (const auto* entry : order) file.write(entry->data);
  file.commit();
}

}  // namespace facula::io
