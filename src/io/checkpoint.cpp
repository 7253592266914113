#include "io/checkpoint.h"

#include <facula/checkpoint.h>

#include <fmt/ranges.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>

#include "base/check.h"
#include "io/booleans.h"
#include "io/bounded.h"
#include "io/safetensors/safetensors.h"
#include "io/state_json.h"

namespace facula {
namespace {

// Keys and values of the metadata.
constexpr const char* kFormatKey = "format";
constexpr const char* kFormat = "facula-checkpoint";
constexpr const char* kVersionKey = "version";
constexpr const char* kVersion = "1";
constexpr const char* kStateKey = "state";
constexpr const char* kChecksumKey = "checksum";  // of the state's text

std::string hex(std::uint64_t checksum) { return fmt::format("{:016x}", checksum); }

/// XXH3-64 of the bytes, seeded with dtype and shape: a shape that was changed is damage, too.
std::string checksum_of(const io::SafetensorsEntry& entry) {
  const std::string kind = fmt::format("{}[{}]", entry.dtype, fmt::join(entry.shape, ","));
  return hex(XXH3_64bits_withSeed(entry.data.data(), entry.data.size(),
                                  XXH3_64bits(kind.data(), kind.size())));
}

std::string checksum_of(const std::string& text) {
  return hex(XXH3_64bits(text.data(), text.size()));
}

Tensor copy_of(const io::SafetensorsEntry& entry, const std::string& path) {
  const auto* dtype = std::ranges::find(io::kSafetensorsDTypes, entry.dtype);
  check<IoError>(dtype != std::end(io::kSafetensorsDTypes),
                 "{}: tensor {} has dtype {}, which Facula lacks", path, io::quote_name(entry.name),
                 entry.dtype);
  Tensor tensor = empty(entry.shape, static_cast<DType>(dtype - io::kSafetensorsDTypes));
  if (!entry.data.empty()) std::memcpy(tensor.raw_data(), entry.data.data(), entry.data.size());
  io::make_booleans(tensor);
  return tensor;
}

const std::string& text_of(const io::SafetensorsReader& file, const char* key) {
  static const std::string& nothing = *new std::string;
  const auto found = file.metadata().find(key);
  return found == file.metadata().end() ? nothing : found->second;
}

/// The state in the metadata of a checkpoint of the right version, undamaged.
const std::string& checked_state(const io::SafetensorsReader& file, const std::string& path) {
  const auto text = [&](const char* key) -> const std::string& { return text_of(file, key); };
  check<IoError>(io::is_checkpoint(file),
                 "{}: this safetensors file is no checkpoint; read it with load_safetensors", path);
  check<IoError>(text(kVersionKey) == kVersion,
                 "{}: version {} of the checkpoint format, this Facula reads {}; use the Facula "
                 "that wrote it",
                 path, io::quote_name(text(kVersionKey)), kVersion);
  check<IoError>(checksum_of(text(kStateKey)) == text(kChecksumKey),
                 "{}: the checkpoint is damaged: the checksum of its numbers and texts is not {}",
                 path, io::quote_name(text(kChecksumKey)));
  return text(kStateKey);
}

/// The whole state, with tensors as `make` makes them of those whose checksums are right.
StateDict read_state(const io::SafetensorsReader& file, const std::string& path,
                     FunctionRef<Tensor(const io::SafetensorsEntry&)> make) {
  std::size_t used = 0;
  StateDict state = io::parse_state_json(
      checked_state(file, path), path, [&](const std::string& name, const std::string& checksum) {
        const io::SafetensorsEntry* entry = file.find(name);
        check<IoError>(entry != nullptr, "{}: the checkpoint is damaged: tensor {} is missing",
                       path, io::quote_name(name));
        check<IoError>(checksum_of(*entry) == checksum,
                       "{}: the checkpoint is damaged: tensor {} does not have the checksum {}",
                       path, io::quote_name(name), io::quote_name(checksum));
        ++used;
        return make(*entry);
      });
  check<IoError>(used == file.entries().size(),
                 "{}: the checkpoint is damaged: it has {} tensors, its state names {}", path,
                 file.entries().size(), used);
  return state;
}

}  // namespace

bool io::is_checkpoint(const SafetensorsReader& file) {
  return text_of(file, kFormatKey) == kFormat;
}

StateDict io::describe_checkpoint(const SafetensorsReader& file, const std::string& path) {
  return read_state(file, path, [](const SafetensorsEntry&) { return Tensor(); });
}

StateDict io::map_checkpoint(const std::string& path) {
  const auto file = std::make_shared<const SafetensorsReader>(path, Mapping::copy_on_write);
  return read_state(*file, path,
                    [&](const SafetensorsEntry& entry) { return tensor_over(file, entry, path); });
}

void save_checkpoint(const StateDict& state, const std::string& path) {
  std::vector<Tensor> dense;  // keeps the bytes alive until they are written
  std::vector<io::SafetensorsEntry> entries;
  const std::string json =
      io::format_state_json(state, [&](const std::string& name, const Tensor& tensor) {
        // What has its bytes at hand, as a snapshot does, needs no memory that may be lacking.
        const bool ready = tensor.device() == kCPU && tensor.is_contiguous();
        const Tensor& values =
            ready ? tensor : dense.emplace_back(tensor.detach().cpu().contiguous());
        entries.push_back(io::entry_of(name, values));
        return checksum_of(entries.back());
      });
  io::write_safetensors(path, entries,
                        {{kFormatKey, kFormat},
                         {kVersionKey, kVersion},
                         {kStateKey, json},
                         {kChecksumKey, checksum_of(json)}});
}

StateDict load_checkpoint(const std::string& path) {
  const io::SafetensorsReader file(path);
  return read_state(file, path,
                    [&](const io::SafetensorsEntry& entry) { return copy_of(entry, path); });
}

}  // namespace facula
