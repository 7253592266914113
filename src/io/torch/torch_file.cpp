#include "io/torch/torch_file.h"

#include <facula/torch_file.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "core/tensor_impl.h"
#include "io/archives/zip.h"
#include "io/booleans.h"
#include "io/bounded.h"
#include "io/file.h"
#include "io/torch/pickle.h"
#include "io/torch/torch_tree.h"

namespace facula::io {
namespace {

using ByteSpan = std::span<const uint8_t>;

// Beside the mapped file itself, memory goes to the pickle where it is deflated, to its values, and
// to names and structure; when those of the pickle are gone, to tensors and their elements. At any
// time it stays below three times the file and this, and so with the mapping below four times the
// file and 64 MiB.
constexpr uint64_t kFree = uint64_t{56} << 20;
/// Deflated elements alone may take twice the file and this.
constexpr uint64_t kFreeForElements = uint64_t{16} << 20;
/// What load() makes of a tensor and of a storage, without the elements.
constexpr uint64_t kLoadedTensorCost = 280;
constexpr uint64_t kLoadedStorageCost = 120;

/// The first thing in a file of the legacy format: an integer of ten bytes.
constexpr std::array<uint8_t, 10> kLegacyMagic = {0x6c, 0xfc, 0x9c, 0x46, 0xf9,
                                                  0x20, 0x6a, 0xa8, 0x50, 0x19};
constexpr int64_t kLegacyProtocol = 1001;

bool allow_nothing(std::string_view) { return false; }

/// The folder in the archive that holds everything; torch.save names it after the file.
std::string find_folder(const ZipReader& zip, const std::string& source) {
  constexpr std::string_view kPickle = "/data.pkl";
  const std::string* found = nullptr;
  for (const ZipMember& member : zip.members()) {
    if (!member.name.ends_with(kPickle)) continue;
    if (member.name.find('/') != member.name.size() - kPickle.size()) continue;
    check<IoError>(!found,
                   "{}: two pickles could describe the content; the archive is malicious, "
                   "refuse it",
                   source);
    found = &member.name;
  }
  check<IoError>(found != nullptr,
                 "{}: a zip archive without a data.pkl in its folder: not one of torch.save; check "
                 "that it is the file you mean",
                 source);
  return found->substr(0, found->size() - kPickle.size() + 1);
}

void check_byte_order(const ZipReader& zip, const std::string& folder, const std::string& source) {
  constexpr uint64_t kLongest = 16;
  const ZipMember* member = zip.find(folder + "byteorder");
  if (!member) return;
  const auto bytes = zip.read(*member, kLongest);
  check<IoError>(
      std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()) == "little",
      "{}: saved on a machine with big-endian numbers; save it anew on a little-endian "
      "one",
      source);
}

bool is_torchscript(const ZipReader& zip, const std::string& folder) {
  return zip.find(folder + "constants.pkl") ||
         std::ranges::any_of(zip.members(), [&](const ZipMember& member) {
           return member.name.starts_with(folder + "code/");
         });
}

}  // namespace

const char* name_of(TorchFormat format) {
  constexpr const char* kNames[] = {"zip", "legacy", "TorchScript"};
  return kNames[static_cast<int>(format)];
}

struct TorchFileReader::Contents {
  std::optional<MappedFile> file;
  std::string source;
  TorchFormat format = TorchFormat::zip;
  std::optional<ZipReader> zip;
  TorchTree tree;
  uint64_t tree_cost = 0;  // bytes charged for it
  std::vector<std::string> globals;
  // Where each storage lies, in the archive or in the legacy file.
  std::vector<const ZipMember*> members;
  std::vector<ByteSpan> spans;
  std::vector<bool> holds_booleans;
  std::vector<Tensor> loaded;  // the bytes of storages that were read

  void parse(ByteSpan bytes);
  void parse_zip(ByteSpan bytes, MemoryBudget& budget);
  void parse_legacy(ByteSpan bytes, MemoryBudget& budget);
  void charge_load(uint64_t available) const;
  void describe(const Pickle& pickle, MemoryBudget& budget);
  void find_members(const std::string& folder, uint64_t file_size);
  void find_legacy_storages(const Pickle& keys, ByteSpan bytes);
  const Tensor& storage(size_t index);
};

void TorchFileReader::Contents::parse(ByteSpan bytes) {
  const uint64_t available = kFree + 3 * bytes.size();
  MemoryBudget budget(available, source);
  is_zip(bytes) ? parse_zip(bytes, budget) : parse_legacy(bytes, budget);
  charge_load(available - tree_cost);
  loaded.resize(tree.storages.size());
  holds_booleans.resize(tree.storages.size());
  for (const TorchTensor& tensor : tree.tensors) {
    if (tensor.facula_dtype == kBool) holds_booleans[tensor.storage] = true;
  }
}

void TorchFileReader::Contents::describe(const Pickle& pickle, MemoryBudget& budget) {
  const bool script = format == TorchFormat::torchscript;
  const uint64_t before = budget.left();
  tree = build_torch_tree(pickle, source, script ? TorchContent::tensors : TorchContent::everything,
                          budget);
  tree_cost = before - budget.left();
  globals = pickle.globals();
}

/// Refuses files of which load() would take too much memory.
void TorchFileReader::Contents::charge_load(uint64_t available) const {
  MemoryBudget budget(available, source);
  budget.charge(tree.tensors.size() * kLoadedTensorCost);
  for (const TorchStorage& storage : tree.storages) {
    budget.charge(kLoadedStorageCost);
    budget.charge(storage.bytes);
  }
}

void TorchFileReader::Contents::parse_zip(ByteSpan bytes, MemoryBudget& budget) {
  zip.emplace(bytes, source);
  const std::string folder = find_folder(*zip, source);
  check_byte_order(*zip, folder, source);
  const bool script = is_torchscript(*zip, folder);
  format = script ? TorchFormat::torchscript : TorchFormat::zip;
  const ZipMember& member = *zip->find(folder + "data.pkl");
  std::vector<uint8_t> inflated;
  if (member.deflated) {
    budget.charge(member.size);
    inflated = zip->read(member, member.size);
  }
  const ByteSpan text = member.deflated ? ByteSpan(inflated) : zip->view(member);
  const Pickle pickle(text, source, script ? is_allowed_in_torchscript : is_allowed_in_torch_save,
                      budget);
  check<IoError>(pickle.size() == text.size(),
                 "{}: {} bytes follow the pickle; the file is damaged or malicious, refuse it",
                 source, text.size() - pickle.size());
  describe(pickle, budget);
  find_members(folder, bytes.size());
}

void TorchFileReader::Contents::find_members(const std::string& folder, uint64_t file_size) {
  uint64_t deflated = 0;
  for (const TorchStorage& storage : tree.storages) {
    const ZipMember* member = zip->find(folder + "data/" + storage.key);
    check<IoError>(member && member->size == storage.bytes,
                   "{}: the storage {} of {} bytes is {} in the archive; the file is damaged, get "
                   "it again",
                   source, quote_name(storage.key), storage.bytes,
                   member ? fmt::format("one of {} bytes", member->size) : "not");
    if (member->deflated) deflated += member->size;
    check<IoError>(deflated <= kFreeForElements + 2 * file_size,
                   "{}: the archive's members are packed to a small part of their size; if you "
                   "trust it, pack it anew without compression, as torch.save does",
                   source);
    members.push_back(member);
  }
}

void TorchFileReader::Contents::parse_legacy(ByteSpan bytes, MemoryBudget& budget) {
  format = TorchFormat::legacy;
  ByteSpan rest = bytes;
  const auto next = [&](Pickle::Allowed allowed) {
    Pickle pickle(rest, source, allowed, budget);
    rest = rest.subspan(pickle.size());
    return pickle;
  };
  const std::string_view magic(reinterpret_cast<const char*>(kLegacyMagic.data()),
                               kLegacyMagic.size());
  const Pickle first = next(allow_nothing);
  check<IoError>(
      first.root().is(PickleKind::big_integer) && first.root().data() == magic,
      "{}: not a file of torch.save: neither a zip archive nor one of the legacy format; "
      "check that it is the file you mean",
      source);
  const Pickle protocol = next(allow_nothing);
  check<IoError>(
      protocol.root().is(PickleKind::integer) && protocol.root().integer == kLegacyProtocol,
      "{}: an unknown version of torch.save's legacy format; save it anew", source);
  const Pickle system = next(allow_nothing);
  if (system.root().is(PickleKind::dict)) {
    const auto items = system.items(system.root());
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      const bool order = items[i].is(PickleKind::text) && items[i].data() == "little_endian";
      check<IoError>(!order || items[i + 1].integer == 1,
                     "{}: saved on a machine with big-endian numbers; save it anew on a "
                     "little-endian one",
                     source);
    }
  }
  describe(next(is_allowed_in_torch_save), budget);
  const Pickle keys = next(allow_nothing);
  find_legacy_storages(keys, rest);
}

/// The storages follow in the order of their keys: the number of elements, then those.
void TorchFileReader::Contents::find_legacy_storages(const Pickle& keys, ByteSpan bytes) {
  check<IoError>(keys.root().is(PickleKind::list),
                 "{}: the list of storages is missing; the file is damaged, get it again", source);
  spans.resize(tree.storages.size());
  std::vector<bool> found(tree.storages.size());
  std::unordered_map<std::string_view, size_t> index;
  for (size_t i = 0; i < tree.storages.size(); ++i) index.emplace(tree.storages[i].key, i);
  BoundedReader reader(bytes, source);
  for (const PickleValue& key : keys.items(keys.root())) {
    const auto known = key.is(PickleKind::text) ? index.find(key.data()) : index.end();
    check<IoError>(known != index.end() && !found[known->second],
                   "{}: a storage is listed that no tensor uses, or listed twice; the file is "
                   "damaged, get it again",
                   source);
    const TorchStorage& storage = tree.storages[known->second];
    const uint64_t expected = storage.bytes / storage.element_size;
    const uint64_t elements = reader.u64_le("the size of a storage");
    check<IoError>(elements == expected,
                   "{}: the storage {} has {} elements, its tensors need {}; the file is damaged, "
                   "get it again",
                   source, quote_name(storage.key), elements, expected);
    found[known->second] = true;
    spans[known->second] = reader.take(storage.bytes, "a storage");
  }
  check<IoError>(std::ranges::find(found, false) == found.end() && reader.remaining() == 0,
                 "{}: a storage is missing, or {} bytes follow the last one; the file is damaged, "
                 "get it again",
                 source, reader.remaining());
}

/// The bytes of a storage, read once.
const Tensor& TorchFileReader::Contents::storage(size_t index) {
  Tensor& bytes = loaded[index];
  if (bytes.defined()) return bytes;
  const TorchStorage& description = tree.storages[index];
  Tensor read = empty({static_cast<int64_t>(description.bytes)}, kUInt8);
  const std::span<uint8_t> target(static_cast<uint8_t*>(read.raw_data()), description.bytes);
  if (zip) {
    zip->read_into(*members[index], target);
  } else if (!target.empty()) {
    std::memcpy(target.data(), spans[index].data(), target.size());
  }
  if (holds_booleans[index]) make_booleans(target);
  return bytes = std::move(read);
}

TorchFileReader::TorchFileReader(const std::string& path) : contents_(new Contents) {
  contents_->file.emplace(path);
  contents_->source = path;
  contents_->parse(contents_->file->bytes());
}

TorchFileReader::TorchFileReader(ByteSpan file, const std::string& source)
    : contents_(new Contents) {
  contents_->source = source;
  contents_->parse(file);
}

TorchFileReader::TorchFileReader(TorchFileReader&& other) noexcept = default;
TorchFileReader& TorchFileReader::operator=(TorchFileReader&& other) noexcept = default;
TorchFileReader::~TorchFileReader() = default;

TorchFormat TorchFileReader::format() const { return contents_->format; }
const std::deque<TorchTensor>& TorchFileReader::tensors() const { return contents_->tree.tensors; }
const std::deque<TorchStorage>& TorchFileReader::storages() const {
  return contents_->tree.storages;
}
const StateDict& TorchFileReader::structure() const { return contents_->tree.structure; }
const std::vector<std::string>& TorchFileReader::globals() const { return contents_->globals; }

Tensor TorchFileReader::tensor(size_t index) {
  const TorchTensor& description = contents_->tree.tensors.at(index);
  check<DTypeError>(description.facula_dtype.has_value(),
                    "{}: tensor {} has dtype {}, which Facula lacks; convert it before saving",
                    contents_->source, quote_name(description.name), description.dtype);
  check<ShapeError>(description.shape.size() <= kMaxDims,
                    "{}: tensor {} has {} dimensions, Facula's have at most {}; reshape it before "
                    "saving",
                    contents_->source, quote_name(description.name), description.shape.size(),
                    kMaxDims);
  const Tensor& bytes = contents_->storage(description.storage);
  Tensor tensor = alias(*bytes.impl(), description.shape, description.strides, 0);
  TensorImpl& impl = *tensor.impl();
  impl.dtype = *description.facula_dtype;
  impl.offset = static_cast<int64_t>(description.offset);
  impl.data += description.offset * size_of(impl.dtype);
  return tensor;
}

StateDict TorchFileReader::load() {
  const auto& tensors = contents_->tree.tensors;
  std::vector<size_t> last_use(contents_->loaded.size());
  for (size_t i = 0; i < tensors.size(); ++i) last_use[tensors[i].storage] = i;
  StateDict state = std::move(contents_->tree.structure);
  for (size_t i = 0; i < tensors.size(); ++i) {
    state.set(tensors[i].name, tensor(i));
    if (last_use[tensors[i].storage] == i) contents_->loaded[tensors[i].storage] = Tensor();
  }
  return state;
}

bool is_torch_file(ByteSpan file) {
  constexpr size_t kStart = 32;
  const ByteSpan start = file.first(std::min(file.size(), kStart));
  if (std::search(start.begin(), start.end(), kLegacyMagic.begin(), kLegacyMagic.end()) !=
      start.end()) {
    return true;
  }
  if (!is_zip(file)) return false;
  try {
    find_folder(ZipReader(file, "archive"), "archive");
    return true;
  } catch (const IoError&) {
    return false;
  }
}

}  // namespace facula::io

namespace facula {

StateDict load_torch(const std::string& path) { return io::TorchFileReader(path).load(); }

}  // namespace facula
