#include "io/arrays/npz.h"

#include <facula/json_line.h>
#include <facula/npy.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "io/atomic_file.h"
#include "io/booleans.h"
#include "io/bounded.h"
#include "io/state_entry.h"
#include "runtime/deferred.h"

namespace facula {
namespace {

constexpr std::string_view kSuffix = ".npy";

/// NumPy's names, in the order of DType; it has no bfloat16.
constexpr const char* kDTypeTexts[kDTypeCount] = {"<f4", "<f8", "<i4", "<i8", "|u1",
                                                  "|b1", "<f2", "",    "|i1", "<i2"};

std::string npy_header(const Tensor& tensor, std::string_view name) {
  const std::string_view dtype = kDTypeTexts[static_cast<int>(tensor.dtype())];
  check<DTypeError>(!dtype.empty(),
                    "npy: NumPy has no dtype {} (tensor '{}'); convert it with to()",
                    name_of(tensor.dtype()), name);
  const auto sizes = tensor.sizes().vec();
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}",
                                 dtype, fmt::join(sizes, ", "), sizes.size() == 1 ? "," : "");
  // The elements begin at a multiple of 64 bytes; the text ends in a newline.
  constexpr std::size_t kPrefix = 10, kAlignment = 64;
  const std::size_t length =
      (kPrefix + text.size() + 1 + kAlignment - 1) / kAlignment * kAlignment - kPrefix;
  text.resize(length - 1, ' ');
  std::string header = "\x93NUMPY\x01";
  header += {'\0', static_cast<char>(length & 0xff), static_cast<char>(length >> 8)};
  return header + text + '\n';
}

std::span<const std::uint8_t> bytes_of(const Tensor& tensor) {
  return {reinterpret_cast<const std::uint8_t*>(runtime::elements_to_read(tensor)),
          static_cast<std::size_t>(tensor.nbytes())};
}

void swap_bytes(std::uint8_t* data, std::size_t bytes, std::size_t item_size) {
  for (std::size_t at = 0; at < bytes; at += item_size)
    std::reverse(data + at, data + at + item_size);
}

/// The elements in the order of the file: the shape of an array in Fortran's order is reversed.
Tensor stored_tensor(const io::NpyFile& file, const std::string& source) {
  check<DTypeError>(file.facula_dtype.has_value(),
                    "{}: dtype {}, which Facula lacks; convert it with astype() before saving",
                    source, file.dtype);
  check<ShapeError>(file.shape.size() <= kMaxDims,
                    "{}: {} dimensions, a tensor has {} at most; reshape it before saving", source,
                    file.shape.size(), kMaxDims);
  std::vector<std::int64_t> shape = file.shape;
  if (file.fortran_order) std::reverse(shape.begin(), shape.end());
  Tensor tensor = empty(shape, *file.facula_dtype);
  auto* data = static_cast<std::uint8_t*>(tensor.raw_data());
  if (!file.data.empty()) {
    std::memcpy(data, file.data.data(), file.data.size());
    if (file.big_endian) swap_bytes(data, file.data.size(), file.item_size);
  }
  io::make_booleans(tensor);
  return tensor;
}

Tensor row_major(const Tensor& reversed) {
  std::vector<std::int64_t> order;
  for (std::int64_t d = reversed.dim(); d-- > 0;) order.push_back(d);
  return reversed.permute(order).contiguous();
}

}  // namespace

namespace io {

bool is_npz(const ZipReader& zip) {
  const auto& members = zip.members();
  return std::ranges::all_of(members, [](const ZipMember& member) {
    return member.name.size() > kSuffix.size() && member.name.ends_with(kSuffix);
  });
}

NpzReader::NpzReader(std::span<const std::uint8_t> file, const std::string& source)
    : source_(source), zip_(file, source) {
  check<IoError>(is_npz(zip_),
                 "{}: a zip archive with members other than .npy files, not an npz file; check the "
                 "path",
                 source);
  // Beside the mapped file: all tensors, and what one of them is unpacked to or put in order from.
  constexpr std::uint64_t kFree = 60 << 20;
  std::uint64_t total = 0, largest = 0;
  for (const ZipMember& member : zip_.members()) {
    check<IoError>(!__builtin_add_overflow(total, member.size, &total),
                   "{}: sizes that overflow; the file is malicious, refuse it", source);
    if (member.deflated) largest = std::max(largest, member.size);
  }
  check<IoError>(
      !__builtin_add_overflow(total, largest, &total) && total <= 3 * file.size() + kFree,
      "{}: {} bytes would decompress to {}; if they are what you expect, save them with "
      "numpy.savez instead of savez_compressed",
      source, file.size(), total);
}

std::string NpzReader::name(std::size_t index) const {
  const std::string& name = zip_.members()[index].name;
  return name.substr(0, name.size() - kSuffix.size());
}

std::string NpzReader::source_of(std::size_t index) const {
  return fmt::format("{}: {}", source_, quote_name(zip_.members()[index].name));
}

NpyFile NpzReader::describe(std::size_t index) const {
  const ZipMember& member = zip_.members()[index];
  const std::string source = source_of(index);
  if (!member.deflated) return read_npy(member.packed, source);
  const auto content = zip_.read(member, member.size);
  NpyFile file = read_npy(content, source);
  file.data = {};
  return file;
}

Tensor NpzReader::tensor(std::size_t index) const {
  const ZipMember& member = zip_.members()[index];
  const std::string source = source_of(index);
  bool fortran_order = false;
  // What was unpacked goes before elements are put in order.
  const Tensor stored = [&] {
    const Tensor bytes = empty({static_cast<std::int64_t>(member.size)}, kUInt8);
    const std::span content(static_cast<std::uint8_t*>(bytes.raw_data()), member.size);
    zip_.read_into(member, content);
    const NpyFile file = read_npy(content, source);
    fortran_order = file.fortran_order;
    return stored_tensor(file, source);
  }();
  return fortran_order ? row_major(stored) : stored;
}

Tensor npy_tensor(const NpyFile& file, const std::string& source) {
  const Tensor stored = stored_tensor(file, source);
  return file.fortran_order ? row_major(stored) : stored;
}

}  // namespace io

Tensor load_npy(const std::string& path) {
  const io::MappedFile file(path);
  return io::npy_tensor(io::read_npy(file.bytes(), path), path);
}

StateDict load_npz(const std::string& path) {
  const io::MappedFile file(path);
  const io::NpzReader reader(file.bytes(), path);
  StateDict state;
  for (std::size_t i = 0; i < reader.size(); ++i) {
    io::add_entry(state, reader.name(i), reader.tensor(i), path);
  }
  return state;
}

void save_npy(const Tensor& tensor, const std::string& path) {
  check<ValueError>(tensor.defined(), "save_npy: the tensor for '{}' is undefined", path);
  const Tensor values = tensor.detach().cpu().contiguous();
  const std::string header = npy_header(values, path);
  io::AtomicFile file(path);
  file.write(header);
  file.write(bytes_of(values));
  file.commit();
}

void save_npz(const StateDict& state, const std::string& path) {
  std::vector<std::pair<std::string, Tensor>> arrays;
  for (const auto& [name, value] : state.flat()) {
    const auto* tensor = value->get_if<Tensor>();
    check<ValueError>(tensor != nullptr && tensor->defined(),
                      "save_npz: '{}' is {}, the format holds tensors only; leave it out", name,
                      tensor ? "an undefined tensor" : value->kind_name());
    check<ValueError>(is_utf8(name), "save_npz: the name {} is not UTF-8; choose another",
                      json_string(name));
    check<ValueError>(name.find('\0') == std::string::npos,
                      "save_npz: the name {} has a NUL character, at which readers of zip archives "
                      "end it; choose another",
                      json_string(name));
    // Programs that unpack the archive make paths of the names.
    check<ValueError>(!name.starts_with('/'),
                      "save_npz: the name {} begins with '/', which makes it a path outside the "
                      "archive; choose another",
                      json_string(name));
    arrays.emplace_back(name, tensor->detach().cpu().contiguous());
    npy_header(arrays.back().second, name);  // refuses dtypes before anything is written
  }
  io::AtomicFile file(path);
  io::ZipWriter zip(file);
  for (const auto& [name, values] : arrays) {
    const std::string header = npy_header(values, name);
    std::vector<std::uint8_t> content(header.begin(), header.end());
    const auto bytes = bytes_of(values);
    content.insert(content.end(), bytes.begin(), bytes.end());
    zip.add(name + std::string(kSuffix), content);
  }
  zip.finish();
  file.commit();
}

}  // namespace facula
