#include "io/safetensors/safetensors_header.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include <facula/json_line.h>

#include "base/check.h"
#include "io/bounded.h"

namespace facula::io {
namespace {

using Json = nlohmann::json;

/// Ranks beyond this serve nobody, and a long list of ones is a cheap way to waste memory.
constexpr size_t kMaxRank = 64;

/// A tensor with its description, storage and entry in a StateDict.
uint64_t cost_of_tensor(const std::string& name) { return 680 + 2 * name.size(); }
constexpr uint64_t kDimensionCost = 16;
uint64_t cost_of_metadata(const std::string& key, const std::string& text) {
  return 320 + key.size() + text.size();
}

/// Receives the parser's events and accepts only those the format allows where they occur. No
/// document is built, nesting deeper than the format's own ends at the first bracket, and memory
/// stays proportional to the text.
class HeaderHandler : public nlohmann::json_sax<Json> {
 public:
  HeaderHandler(const std::string& source, MemoryBudget& budget)
      : source_(source), budget_(budget) {}

  SafetensorsHeader take() { return std::move(header_); }

  bool null() override { unexpected("null"); }
  bool boolean(bool) override { unexpected("a boolean"); }
  bool number_integer(int64_t) override { unexpected("a negative number"); }
  bool number_float(double, const std::string&) override {
    unexpected("a number that is not a 64-bit integer");
  }
  bool binary(Json::binary_t&) override { unexpected("binary data"); }

  bool number_unsigned(uint64_t value) override {
    if (where_ == Where::kShape) {
      check<IoError>(value <= std::numeric_limits<int64_t>::max(),
                     "{}: {} has a dimension of {}; the file is damaged or malicious, refuse it",
                     source_, place(), value);
      check<IoError>(tensor().shape.size() < kMaxRank,
                     "{}: {} has more than {} dimensions; the file is damaged or malicious, refuse "
                     "it",
                     source_, place(), kMaxRank);
      budget_.charge(kDimensionCost);
      tensor().shape.push_back(static_cast<int64_t>(value));
    } else if (where_ == Where::kOffsets && offset_count_ < 2) {
      (offset_count_++ == 0 ? tensor().begin : tensor().end) = value;
    } else {
      unexpected("a number");
    }
    return true;
  }

  bool string(std::string& text) override {
    if (where_ == Where::kMetadata) {
      budget_.charge(cost_of_metadata(key_, text));
      const bool inserted = header_.metadata.emplace(key_, std::move(text)).second;
      if (!inserted) unexpected("a repeated key");
    } else if (where_ == Where::kTensor && key_ == "dtype") {
      tensor().dtype = std::move(text);
    } else {
      unexpected("a string");
    }
    return true;
  }

  bool start_object(size_t) override {
    if (where_ == Where::kOutside) {
      where_ = Where::kTop;
    } else if (where_ == Where::kTop && key_ == kSafetensorsMetadataKey) {
      if (std::exchange(has_metadata_, true)) unexpected("a repeated key");
      where_ = Where::kMetadata;
    } else if (where_ == Where::kTop) {
      budget_.charge(cost_of_tensor(key_));
      header_.tensors.emplace_back().name = key_;
      has_dtype_ = has_shape_ = has_offsets_ = false;
      where_ = Where::kTensor;
    } else {
      unexpected("an object");
    }
    return true;
  }

  bool key(std::string& key) override {
    key_ = std::move(key);
    if (where_ == Where::kTensor) {
      bool* seen = key_ == "dtype"          ? &has_dtype_
                   : key_ == "shape"        ? &has_shape_
                   : key_ == "data_offsets" ? &has_offsets_
                                            : nullptr;
      if (!seen) unexpected("an unknown key");
      if (std::exchange(*seen, true)) unexpected("a repeated key");
    }
    return true;
  }

  bool end_object() override {
    if (where_ == Where::kTensor) {
      check<IoError>(has_dtype_ && has_shape_ && has_offsets_,
                     "{}: tensor {} lacks one of dtype, shape, data_offsets; the file is damaged, "
                     "get it again",
                     source_, quote_name(tensor().name));
    }
    where_ = where_ == Where::kTop ? Where::kOutside : Where::kTop;
    return true;
  }

  bool start_array(size_t) override {
    if (where_ == Where::kTensor && key_ == "shape") {
      where_ = Where::kShape;
    } else if (where_ == Where::kTensor && key_ == "data_offsets") {
      where_ = Where::kOffsets;
      offset_count_ = 0;
    } else {
      unexpected("an array");
    }
    return true;
  }

  bool end_array() override {
    if (where_ == Where::kOffsets && offset_count_ != 2) unexpected("fewer than two numbers");
    where_ = Where::kTensor;
    return true;
  }

  bool parse_error(size_t position, const std::string&, const Json::exception&) override {
    // The parser's own message quotes the text, which may be long and is not to be trusted.
    fail<IoError>(
        "{}: the safetensors header is not valid JSON near byte {}; the file is damaged or "
        "of another format, check it",
        source_, position);
  }

 private:
  enum class Where { kOutside, kTop, kMetadata, kTensor, kShape, kOffsets };

  SafetensorsHeaderTensor& tensor() { return header_.tensors.back(); }

  std::string place() {
    switch (where_) {
      case Where::kOutside: return "the safetensors header";
      case Where::kTop:
      case Where::kMetadata: return "the safetensors header at " + quote_name(key_);
      default: return "tensor " + quote_name(tensor().name) + " at " + quote_name(key_);
    }
  }

  [[noreturn]] void unexpected(std::string_view what) {
    fail<IoError>(
        "{}: {} has {}, which the format does not allow; the file is damaged or of another "
        "format, check it",
        source_, place(), what);
  }

  const std::string& source_;
  MemoryBudget& budget_;
  SafetensorsHeader header_;
  Where where_ = Where::kOutside;
  std::string key_;
  int offset_count_ = 0;
  bool has_metadata_ = false;
  bool has_dtype_ = false;
  bool has_shape_ = false;
  bool has_offsets_ = false;
};

std::string encode(std::string_view text) {
  try {
    return Json(text).dump();
  } catch (const Json::exception&) {
    fail<ValueError>("safetensors: {} is not UTF-8; choose another name or metadata text",
                     quote_name(text));
  }
}

}  // namespace

uint64_t safetensors_cost(const SafetensorsHeader& header) {
  uint64_t cost = 0;
  for (const auto& tensor : header.tensors)
    cost += cost_of_tensor(tensor.name) + kDimensionCost * tensor.shape.size();
  for (const auto& [key, text] : header.metadata) cost += cost_of_metadata(key, text);
  return cost;
}

SafetensorsHeader parse_safetensors_header(std::span<const uint8_t> json, const std::string& source,
                                           MemoryBudget& budget) {
  // The parser skips a byte order mark and takes a NUL for the end of the text, whatever follows.
  constexpr uint8_t kByteOrderMark = 0xef;
  const bool marked = !json.empty() && json[0] == kByteOrderMark;
  check<IoError>(!marked && std::find(json.begin(), json.end(), 0) == json.end(),
                 "{}: the safetensors header contains a byte order mark or a NUL; the file is "
                 "damaged or of another format, check it",
                 source);
  HeaderHandler handler(source, budget);
  Json::sax_parse(json.begin(), json.end(), &handler);
  return handler.take();
}

std::string format_safetensors_header(const SafetensorsHeader& header) {
  std::string json = "{";
  if (!header.metadata.empty()) {
    for (const auto& [key, text] : header.metadata) {
      json += json.size() == 1 ? encode(kSafetensorsMetadataKey) + ":{" : ",";
      json += encode(key) + ":" + encode(text);
    }
    json += '}';
  }
  for (const auto& tensor : header.tensors) {
    if (json.size() > 1) json += ',';
    json += fmt::format("{}:{{\"dtype\":{},\"shape\":{},\"data_offsets\":[{},{}]}}",
                        encode(tensor.name), encode(tensor.dtype), Json(tensor.shape).dump(),
                        tensor.begin, tensor.end);
  }
  return json + "}";
}

}  // namespace facula::io
