#include <facula/safetensors.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "base/thread_pool.h"
#include "io/booleans.h"
#include "io/bounded.h"
#include "io/safetensors/safetensors.h"
#include "io/state_entry.h"
#include "io/streamed_copy.h"
#include "runtime/deferred.h"

namespace facula {
namespace {

using io::SafetensorsEntry;
using Reader = std::shared_ptr<const io::SafetensorsReader>;

DType dtype_of_entry(const SafetensorsEntry& entry, const std::string& path) {
  const auto* known = std::ranges::find(io::kSafetensorsDTypes, entry.dtype);
  check<DTypeError>(known != std::end(io::kSafetensorsDTypes),
                    "{}: tensor {} has dtype {}, which Facula lacks; convert it before saving",
                    path, io::quote_name(entry.name), entry.dtype);
  check<ShapeError>(entry.shape.size() <= kMaxDims,
                    "{}: tensor {} has {} dimensions, a tensor has {} at most; reshape it before "
                    "saving",
                    path, io::quote_name(entry.name), entry.shape.size(), kMaxDims);
  return static_cast<DType>(known - std::begin(io::kSafetensorsDTypes));
}

/// A tensor over the mapping, which it keeps alive.
Tensor mapped_tensor(const Reader& reader, const SafetensorsEntry& entry, DType dtype) {
  // The mapping is writable, though nobody writes through the reader.
  auto* data = const_cast<std::uint8_t*>(entry.data.data());
  return from_blob(
      data, entry.shape, dtype, [](void* owner) { delete static_cast<Reader*>(owner); },
      new Reader(reader));
}

Tensor copied_tensor(std::span<const std::uint8_t> data, IntList shape, DType dtype) {
  Tensor tensor = empty(shape, dtype);
  if (!data.empty()) std::memcpy(tensor.raw_data(), data.data(), data.size());
  io::make_booleans(tensor);
  return tensor;
}

bool can_be_mapped(const SafetensorsEntry& entry, DType dtype) {
  return dtype != kBool && !entry.data.empty() &&
         reinterpret_cast<std::uintptr_t>(entry.data.data()) % size_of(dtype) == 0;
}

/// Fills `tensors` with the data of `entries`, which lies end to end, by all threads.
void copy_data(const std::vector<SafetensorsEntry>& entries, const std::vector<Tensor>& tensors) {
  if (entries.empty()) return;
  constexpr std::size_t kSlice = std::size_t{1} << 20;
  const auto end_of = [](const SafetensorsEntry& entry) {
    return entry.data.data() + entry.data.size();
  };
  const std::uint8_t* const begin = entries.front().data.data();
  const auto total = static_cast<std::size_t>(end_of(entries.back()) - begin);
  const auto slices = static_cast<std::int64_t>((total + kSlice - 1) / kSlice);
  base::parallel_for(slices, [&](std::int64_t slice) {
    const std::uint8_t* at = begin + static_cast<std::size_t>(slice) * kSlice;
    const std::uint8_t* const end = std::min(at + kSlice, begin + total);
    // From the entry in whose data the slice begins.
    for (auto entry = std::ranges::upper_bound(entries, at, {}, end_of); at < end; ++entry) {
      const auto index = static_cast<std::size_t>(entry - entries.begin());
      const std::uint8_t* const stop = std::min(end_of(*entry), end);
      io::streamed_copy(
          static_cast<std::uint8_t*>(tensors[index].raw_data()) + (at - entry->data.data()), at,
          static_cast<std::size_t>(stop - at));
      at = stop;
    }
  });
}

/// What a SafetensorsFile has, unless another has taken it over.
template <class Impl>
Impl& present(Impl* impl, const char* what) {
  check<ValueError>(impl != nullptr, "SafetensorsFile::{}: the file was moved away", what);
  return *impl;
}

}  // namespace

Tensor io::tensor_over(const std::shared_ptr<const SafetensorsReader>& reader,
                       const SafetensorsEntry& entry, const std::string& path) {
  const DType dtype = dtype_of_entry(entry, path);
  return can_be_mapped(entry, dtype) ? mapped_tensor(reader, entry, dtype)
                                     : copied_tensor(entry.data, entry.shape, dtype);
}

SafetensorsEntry io::entry_of(const std::string& name, const Tensor& tensor) {
  return {.name = name,
          .dtype = std::string(kSafetensorsDTypes[static_cast<int>(tensor.dtype())]),
          .shape = tensor.sizes().vec(),
          .data = {reinterpret_cast<const std::uint8_t*>(runtime::elements_to_read(tensor)),
                   static_cast<std::size_t>(tensor.nbytes())}};
}

struct SafetensorsFile::Impl {
  explicit Impl(const std::string& file)
      : path(file),
        reader(std::make_shared<const io::SafetensorsReader>(file, io::Mapping::copy_on_write)),
        tensors(reader->entries().size()) {}

  std::string path;
  Reader reader;
  std::mutex mutex;
  std::vector<Tensor> tensors;  // as the reader's entries; undefined until asked for

  const SafetensorsEntry& at(std::string_view name) const {
    const SafetensorsEntry* entry = reader->find(name);
    check<ValueError>(entry != nullptr, "{}: there is no tensor {}; names() lists all {}", path,
                      io::quote_name(name), reader->entries().size());
    return *entry;
  }

  Tensor tensor(const SafetensorsEntry& entry) {
    const auto index = static_cast<std::size_t>(&entry - reader->entries().data());
    const std::lock_guard lock(mutex);
    Tensor& made = tensors[index];
    if (!made.defined()) made = io::tensor_over(reader, entry, path);
    return made.detach();
  }
};

SafetensorsFile::SafetensorsFile(const std::string& path) : impl_(new Impl(path)) {}

SafetensorsFile::SafetensorsFile(SafetensorsFile&& other) noexcept
    : impl_(std::exchange(other.impl_, nullptr)) {}

SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&& other) noexcept {
  std::swap(impl_, other.impl_);
  return *this;
}

SafetensorsFile::~SafetensorsFile() { delete impl_; }

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  for (const auto& entry : present(impl_, "names").reader->entries()) names.push_back(entry.name);
  return names;
}

bool SafetensorsFile::contains(std::string_view name) const {
  return present(impl_, "contains").reader->find(name) != nullptr;
}

TensorInfo SafetensorsFile::info(std::string_view name) const {
  const SafetensorsEntry& entry = present(impl_, "info").at(name);
  return {entry.name, entry.dtype, entry.shape, entry.data.size()};
}

Tensor SafetensorsFile::tensor(std::string_view name) const {
  Impl& impl = present(impl_, "tensor");
  return impl.tensor(impl.at(name));
}

Tensor SafetensorsFile::slice(std::string_view name, std::int64_t begin, std::int64_t end) const {
  Impl& impl = present(impl_, "slice");
  const SafetensorsEntry& entry = impl.at(name);
  const DType dtype = dtype_of_entry(entry, impl.path);
  check<IndexError>(
      !entry.shape.empty() && begin >= 0 && begin <= end && end <= entry.shape[0],
      "{}: no entries [{}, {}) of tensor {} of shape [{}]; the first dimension limits them",
      impl.path, begin, end, io::quote_name(name), fmt::join(entry.shape, ", "));
  if (can_be_mapped(entry, dtype)) return impl.tensor(entry).narrow(0, begin, end - begin);
  std::vector<std::int64_t> shape = entry.shape;
  shape[0] = end - begin;
  const std::size_t row =
      entry.data.size() / static_cast<std::size_t>(std::max(entry.shape[0], std::int64_t{1}));
  return copied_tensor(entry.data.subspan(static_cast<std::size_t>(begin) * row,
                                          static_cast<std::size_t>(end - begin) * row),
                       shape, dtype);
}

StateDict SafetensorsFile::state_dict() const {
  Impl& impl = present(impl_, "state_dict");
  StateDict state;
  for (const auto& entry : impl.reader->entries())
    io::add_entry(state, entry.name, impl.tensor(entry), impl.path);
  return state;
}

const SafetensorsMetadata& SafetensorsFile::metadata() const {
  return present(impl_, "metadata").reader->metadata();
}

void save_safetensors(const StateDict& state, const std::string& path,
                      const SafetensorsMetadata& metadata) {
  std::vector<Tensor> dense;  // keeps the bytes alive until they are written
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, value] : state.flat()) {
    const auto* tensor = value->get_if<Tensor>();
    check<ValueError>(tensor != nullptr && tensor->defined(),
                      "save_safetensors: '{}' is {}, the format holds tensors "
                      "only; leave it out",
                      name, tensor ? "an undefined tensor" : value->kind_name());
    const Tensor& values = dense.emplace_back(tensor->detach().cpu().contiguous());
    entries.push_back(io::entry_of(name, values));
  }
  io::write_safetensors(path, entries, metadata);
}

StateDict load_safetensors(const std::string& path) {
  std::vector<std::string> names;
  std::vector<Tensor> tensors;
  {
    const io::SafetensorsReader reader(path);
    const auto& entries = reader.entries();
    names.reserve(entries.size());
    tensors.reserve(entries.size());
    for (const auto& entry : entries) {
      names.push_back(entry.name);
      tensors.push_back(empty(entry.shape, dtype_of_entry(entry, path)));
    }
    copy_data(entries, tensors);
  }  // the tree takes the place of the file's description
  StateDict state;
  for (std::size_t i = 0; i < names.size(); ++i) {
    io::make_booleans(tensors[i]);
    io::add_entry(state, names[i], std::move(tensors[i]), path);
  }
  return state;
}

}  // namespace facula
