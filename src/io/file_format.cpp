#include "io/file_format.h"

#include <algorithm>
#include <cstddef>
#include <string>

namespace facula::io {
namespace {

using namespace std::string_view_literals;

struct Signature {
  size_t offset;
  std::string_view bytes;
  FileFormat format;
};

constexpr std::string_view kConvert =
    "export its weights as safetensors where it was made, and load that";
constexpr std::string_view kUnpack = "unpack it and give a file inside";
constexpr std::string_view kGetAgain = "download it again, from the address of the file itself";

constexpr Signature kSignatures[] = {
    {0, "\x93NUMPY"sv, {FileKind::npy, "npy", ""}},
    {0, "PK\x03\x04"sv, {FileKind::zip, "zip", ""}},
    {0, "PK\x05\x06"sv, {FileKind::zip, "zip", ""}},
    {0, "\x89HDF\r\n\x1a\n"sv, {FileKind::other, "HDF5 (Keras)", kConvert}},
    {0, "GGUF"sv, {FileKind::other, "GGUF", kConvert}},
    {0, "ggml"sv, {FileKind::other, "GGML", kConvert}},
    {4, "TFL3"sv, {FileKind::other, "TensorFlow Lite", kConvert}},
    {4, "PTMF"sv, {FileKind::other, "a PyTorch Mobile flatbuffer", kConvert}},
    {0, "\x1f\x8b"sv, {FileKind::other, "gzip", kUnpack}},
    {0,
     "\xfd"
     "7zXZ\0"sv,
     {FileKind::other, "xz", kUnpack}},
    {0, "7z\xbc\xaf\x27\x1c"sv, {FileKind::other, "7-Zip", kUnpack}},
    {0, "BZh"sv, {FileKind::other, "bzip2", kUnpack}},
    {0, "\x28\xb5\x2f\xfd"sv, {FileKind::other, "Zstandard", kUnpack}},
    {0,
     "sys_info\0"sv,
     {FileKind::other, "torch.save's first format, of 2016",
      "load it in PyTorch and save it anew"}},
    {257, "ustar"sv, {FileKind::other, "a tar archive", kUnpack}},
    {0,
     "version https://git-lfs"sv,
     {FileKind::other, "a Git LFS pointer, not the file itself", "get the file with git lfs pull"}},
    {0, "<!DOCTYPE"sv, {FileKind::other, "a web page", kGetAgain}},
    {0, "<!doctype"sv, {FileKind::other, "a web page", kGetAgain}},
    {0, "<html"sv, {FileKind::other, "a web page", kGetAgain}},
    {0, "\x89PNG"sv, {FileKind::other, "a PNG image", "give a file of weights"}},
    {0, "\xff\xd8\xff"sv, {FileKind::other, "a JPEG image", "give a file of weights"}},
};

bool has_bytes_at(std::span<const uint8_t> file, size_t offset, std::string_view bytes) {
  return file.size() >= offset + bytes.size() &&
         std::equal(bytes.begin(), bytes.end(), file.begin() + static_cast<std::ptrdiff_t>(offset),
                    [](char a, uint8_t b) { return static_cast<uint8_t>(a) == b; });
}

/// The length of a header that is there, then JSON, perhaps after spaces.
bool is_safetensors(std::span<const uint8_t> file) {
  constexpr size_t kLengthBytes = 8;
  if (file.size() < kLengthBytes + 2) return false;
  uint64_t length = 0;
  for (size_t i = kLengthBytes; i-- > 0;) length = length << 8 | file[i];
  const auto header = file.subspan(kLengthBytes);
  if (length < 2 || length > header.size()) return false;
  const auto first = std::ranges::find_if(header.first(static_cast<size_t>(length)), [](uint8_t c) {
    return std::string_view(" \t\r\n").find(static_cast<char>(c)) == std::string_view::npos;
  });
  return first != header.end() && *first == '{';
}

/// A pickle of protocol 2 and up says so; its opcodes cannot look like a protobuf's fields.
bool is_pickle(std::span<const uint8_t> file) {
  return file.size() >= 2 && file[0] == 0x80 && file[1] >= 1 && file[1] <= 5;
}

/// ONNX has no signature. Its first field is the version of the format, a small number, which the
/// producer's name or another field of a model follows.
bool is_onnx(std::span<const uint8_t> file) {
  constexpr uint8_t kVersionField = 0x08, kNewestVersion = 32;
  constexpr std::string_view kNextFields = "\x12\x1a\x22\x28\x32\x3a\x42";
  return file.size() >= 3 && file[0] == kVersionField && file[1] >= 1 &&
         file[1] <= kNewestVersion &&
         kNextFields.find(static_cast<char>(file[2])) != std::string_view::npos;
}

}  // namespace

FileFormat recognise(std::span<const uint8_t> file) {
  if (file.empty()) return {FileKind::other, "an empty file", "get it again"};
  if (is_safetensors(file)) return {FileKind::safetensors, "safetensors", ""};
  for (const Signature& signature : kSignatures) {
    if (has_bytes_at(file, signature.offset, signature.bytes)) return signature.format;
  }
  if (is_pickle(file)) return {FileKind::pickle, "pickle", ""};
  if (is_onnx(file)) return {FileKind::other, "ONNX", kConvert};
  return {FileKind::other, kUnknownFormat,
          "known are safetensors, torch.save, TorchScript, npz and npy; check the file"};
}

}  // namespace facula::io
