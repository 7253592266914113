#include "data/batch_builder.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <thread>

#include "base/check.h"
#include "base/rethrow.h"
#include "data/staging.h"

namespace facula::data {
namespace {

constexpr std::size_t kInteger = 0, kReal = 1, kTensor = 2, kImage = 3;
static_assert(std::is_same_v<std::variant_alternative_t<kImage, Value>, Image>);
constexpr int kYields = 1000;

/// [C, H, W] stored as images are, channels innermost.
bool has_channels_inside(const Tensor& tensor) {
  return tensor.dim() == 3 && !tensor.is_contiguous() && tensor.permute({1, 2, 0}).is_contiguous();
}

const char* kind_name(std::size_t kind) {
  static constexpr const char* kNames[] = {"an integer", "a number", "a tensor", "an image"};
  return kNames[kind];
}

}  // namespace

std::string BatchBuilder::label_of(const Column& column) {
  return column.name.empty() ? fmt::format("field {}", column.position)
                             : fmt::format("field '{}'", column.name);
}

BatchBuilder::Column BatchBuilder::column_for(const Sample::Field& field,
                                              std::size_t position) const {
  Column column;
  column.name = field.name;
  column.position = position;
  column.kind = field.value.index();
  if (column.kind == kInteger) column.dtype = kInt64;
  if (const auto* tensor = std::get_if<Tensor>(&field.value)) {
    check<ValueError>(tensor->defined(), "{} is an undefined tensor", label_of(column));
    column.dtype = tensor->dtype();
    column.dim = tensor->dim();
    check<ShapeError>(column.dim < kMaxDims, "{} has {} dimensions, at most {} can be joined",
                      label_of(column), column.dim, kMaxDims - 1);
    for (std::int64_t d = 0; d < column.dim; ++d) column.sizes[d] = tensor->size(d);
    column.channels_inside = has_channels_inside(*tensor);
  }
  if (const auto* image = std::get_if<Image>(&field.value)) {
    check<ValueError>(image->defined(), "{} is an undefined image", label_of(column));
    column.dtype = image->is_float() ? kFloat32 : kUInt8;
    column.dim = 3;
    column.sizes[0] = image->channels();
    column.sizes[1] = image->height();
    column.sizes[2] = image->width();
    column.channels_inside = true;
  }
  return column;
}

void BatchBuilder::lay_out(const Sample& first) {
  check<ValueError>(first.size() > 0, "the sample has no fields");
  std::vector<Column> columns;
  for (const Sample::Field& field : first.fields()) {
    Column& column = columns.emplace_back(column_for(field, columns.size()));
    std::int64_t sizes[kMaxDims] = {samples_};
    std::copy_n(column.sizes, column.dim, sizes + 1);
    column.tensor =
        batch_memory(IntList(sizes, static_cast<std::size_t>(column.dim) + 1), column.dtype,
                     column.channels_inside ? kChannelsLast : kContiguous, pin_);
    column.data = static_cast<std::byte*>(column.tensor.raw_data());
    column.bytes = column.tensor.nbytes() / samples_;
  }
  columns_ = std::move(columns);
}

bool BatchBuilder::wait_for_turn(std::int64_t slice) const {
  for (int tries = 0;; ++tries) {
    const std::uint32_t state = state_.load(std::memory_order_acquire);
    if (state & kLaidOut) return false;
    if (std::countr_one(state) >= slice) return true;
    // Mostly it takes microseconds: whoever slept meanwhile would wake up much later.
    if (tries < kYields) {
      std::this_thread::yield();
    } else {
      state_.wait(state, std::memory_order_acquire);
    }
  }
}

void BatchBuilder::end_slice(std::int64_t slice) {
  if (state_.load(std::memory_order_relaxed) & kLaidOut) return;  // nobody waits
  state_.fetch_or(std::uint32_t{1} << slice, std::memory_order_release);
  state_.notify_all();
}

void BatchBuilder::place(std::int64_t slice, std::int64_t i, const Sample& sample) {
  if (wait_for_turn(slice)) {
    lay_out(sample);
    state_.fetch_or(kLaidOut, std::memory_order_release);
    state_.notify_all();
  }
  check<ValueError>(sample.size() == columns_.size(),
                    "the sample has {} fields, others of its batch have {}; a batch needs the same "
                    "in all",
                    sample.size(), columns_.size());
  for (std::size_t f = 0; f < columns_.size(); ++f) {
    const Sample::Field& field = sample.fields()[f];
    const std::string& name = columns_[f].name;
    check<ValueError>(field.name == name || field.name.empty() || name.empty(),
                      "field {} is '{}', in others of its batch it is '{}'; give all samples the "
                      "same fields in the same order",
                      f, field.name, name);
    write(columns_[f], i, field.value);
  }
}

void BatchBuilder::write(Column& column, std::int64_t i, const Value& value) {
  // A transform may make a tensor of some images and leave others.
  const bool pixels = value.index() + column.kind == kTensor + kImage;
  check<ValueError>(value.index() == column.kind || pixels,
                    "{} is {}, in others of its batch it is {}", label_of(column),
                    kind_name(value.index()), kind_name(column.kind));
  const IntList expected(column.sizes, static_cast<std::size_t>(column.dim));
  std::byte* place = column.data + i * column.bytes;
  const auto* image_value = std::get_if<Image>(&value);
  if (image_value && column.kind == kTensor) return write(column, i, image_value->tensor());
  switch (value.index()) {
    case kInteger: {
      std::memcpy(place, &std::get<std::int64_t>(value), sizeof(std::int64_t));
      return;
    }
    case kReal: {
      const auto number = static_cast<float>(std::get<double>(value));
      std::memcpy(place, &number, sizeof number);
      return;
    }
    case kTensor: {
      const Tensor& tensor = std::get<Tensor>(value);
      check<ValueError>(tensor.defined(), "{} is an undefined tensor", label_of(column));
      check<DeviceError>(tensor.device().is_cpu(),
                         "{} is on {}; batches are joined in host memory, so keep samples "
                         "there and move whole batches",
                         label_of(column), tensor.device());
      check<DTypeError>(tensor.dtype() == column.dtype,
                        "{} is {}, in others of its batch {}; convert all to one dtype or "
                        "give a collate of your own",
                        label_of(column), name_of(tensor.dtype()), name_of(column.dtype));
      check<ShapeError>(tensor.sizes() == expected,
                        "{} has size {}, in others of its batch {}; bring all to one size "
                        "or give a collate of your own",
                        label_of(column), tensor.sizes(), expected);
      const Tensor rows =
          column.channels_inside ? tensor.permute({1, 2, 0}).contiguous() : tensor.contiguous();
      std::memcpy(place, rows.raw_data(), static_cast<std::size_t>(column.bytes));
      return;
    }
    default: break;
  }
  const Image& image = *image_value;
  check<ShapeError>(image.channels() == column.sizes[0] && image.height() == column.sizes[1] &&
                        image.width() == column.sizes[2] &&
                        image.is_float() == (column.dtype == kFloat32),
                    "{} is an image [{}, {}, {}] of {}, in others of its batch {} of {}; "
                    "resize or crop all to one size or give a collate of your own",
                    label_of(column), image.channels(), image.height(), image.width(),
                    image.is_float() ? "float32" : "uint8", expected, name_of(column.dtype));
  if (image.is_float()) {
    image.write(reinterpret_cast<float*>(place));
  } else {
    image.write(reinterpret_cast<std::uint8_t*>(place));
  }
}

Batch BatchBuilder::finish(const std::vector<std::int64_t>& missing) {
  Batch batch;
  const std::int64_t kept = samples_ - static_cast<std::int64_t>(missing.size());
  if (kept == 0) return batch;
  for (Column& column : columns_) {
    if (!missing.empty()) {
      // Closes the gaps from the front.
      auto next = missing.begin();
      std::int64_t to = 0;
      for (std::int64_t from = 0; from < samples_; ++from) {
        if (next != missing.end() && *next == from) {
          ++next;
          continue;
        }
        if (to != from) {
          std::memmove(column.data + to * column.bytes, column.data + from * column.bytes,
                       static_cast<std::size_t>(column.bytes));
        }
        ++to;
      }
      column.tensor = column.tensor.index({Slice(0, kept)});
    }
    batch.add(std::move(column.name), std::move(column.tensor));
  }
  return batch;
}

Batch collate(std::vector<Sample>& samples) {
  check<ValueError>(!samples.empty(), "collate: there are no samples");
  BatchBuilder builder(static_cast<std::int64_t>(samples.size()), false);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    try {
      builder.place(0, static_cast<std::int64_t>(i), samples[i]);
    } catch (const Error&) {
      base::rethrow_with(fmt::format(" (collate: sample {})", i));
    }
  }
  return builder.finish();
}

}  // namespace facula::data
