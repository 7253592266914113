// Rows of npy arrays that are mapped into memory.
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "base/check.h"
#include "data/loading.h"
#include "io/arrays/npy.h"
#include "io/booleans.h"
#include "io/file.h"

namespace facula::data {
namespace {

/// Copies elements of `item` bytes with the given sizes and strides (in elements) into a dense
/// block, and returns its end.
std::uint8_t* copy_strided(const std::uint8_t* source, std::span<const std::int64_t> sizes,
                           std::span<const std::int64_t> strides, std::int64_t item,
                           std::uint8_t* destination) {
  if (sizes.empty()) {
    std::memcpy(destination, source, static_cast<std::size_t>(item));
    return destination + item;
  }
  for (std::int64_t i = 0; i < sizes[0]; ++i) {
    destination = copy_strided(source + i * strides[0] * item, sizes.subspan(1), strides.subspan(1),
                               item, destination);
  }
  return destination;
}

template <class T>
std::int64_t integer_at(const std::uint8_t* source) {
  T value;
  std::memcpy(&value, source, sizeof value);
  return value;
}

/// One array.
class Column {
 public:
  explicit Column(const std::string& path)
      : file_(path), array_(io::parse_npy(file_.bytes(), path)) {
    const std::size_t rank = array_.shape.size();
    check<ShapeError>(rank >= 1, "{}: an array of no dimensions has no rows; save it as [n, ...]",
                      path);
    check<ShapeError>(rank <= kMaxDims, "{}: an array of {} dimensions, expected at most {}", path,
                      rank, kMaxDims);
    row_sizes_ = std::span(array_.shape).subspan(1);
    row_strides_ = std::span(array_.strides).subspan(1);
    row_shape_.assign(row_sizes_.begin(), row_sizes_.end());
    std::int64_t elements = 1;
    for (const std::int64_t size : row_sizes_) elements *= size;
    // Billions of them would cost the file nothing and a sampler everything.
    check<ShapeError>(elements > 0 || rows() == 0, "{}: {} rows without elements", path, rows());
    dense_ = rows() == 0 || array_.strides[0] == elements;
    row_bytes_ = elements * static_cast<std::int64_t>(size_of(array_.dtype));
    numbers_ = rank == 1 && !is_floating_point(array_.dtype) && array_.dtype != kBool;
  }
  Column(Column&&) = default;

  const std::string& path() const { return file_.path(); }
  std::int64_t rows() const { return array_.shape[0]; }

  Value row(std::int64_t index) const {
    const auto item = static_cast<std::int64_t>(size_of(array_.dtype));
    const std::uint8_t* source = array_.data.data() + index * array_.strides[0] * item;
    if (numbers_) return number_at(source);
    // A copy, so that transforms may write to it; the mapping is read-only.
    Tensor row = empty(row_shape_, array_.dtype);
    auto* const destination = static_cast<std::uint8_t*>(row.raw_data());
    if (dense_) {
      std::memcpy(destination, source, static_cast<std::size_t>(row_bytes_));
    } else {
      copy_strided(source, row_sizes_, row_strides_, item, destination);
    }
    io::make_booleans(row);
    return row;
  }

 private:
  std::int64_t number_at(const std::uint8_t* source) const {
    switch (size_of(array_.dtype)) {
      case 8: return integer_at<std::int64_t>(source);
      case 4: return integer_at<std::int32_t>(source);
      case 2: return integer_at<std::int16_t>(source);
      default: break;
    }
    return array_.dtype == kUInt8 ? integer_at<std::uint8_t>(source)
                                  : integer_at<std::int8_t>(source);
  }

  io::MappedFile file_;
  io::NpyArray array_;
  std::span<const std::int64_t> row_sizes_, row_strides_;
  std::vector<std::int64_t> row_shape_;
  std::int64_t row_bytes_ = 0;
  bool dense_ = true;
  /// Rows of a list of integers are numbers, such as labels.
  bool numbers_ = false;
};

class NpyDataset final : public Loading<Dataset> {
 public:
  explicit NpyDataset(const std::vector<std::string>& paths) {
    check<ValueError>(!paths.empty(), "npy_dataset: no paths; give at least one");
    columns_.reserve(paths.size());
    for (const auto& path : paths) {
      const Column& column = columns_.emplace_back(path);
      check<ShapeError>(column.rows() == columns_[0].rows(),
                        "npy_dataset: {} has {} rows and {} has {}; they do not belong together",
                        path, column.rows(), columns_[0].path(), columns_[0].rows());
    }
  }

  std::int64_t size() const override { return columns_[0].rows(); }
  std::string source(std::int64_t) const override { return columns_[0].path(); }

  void load(std::int64_t index, Sample& sample) const override {
    check_index(index, size(), "npy_dataset");
    auto& fields = sample.fields();
    fields.resize(columns_.size());
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      fields[i].name.clear();
      fields[i].set(columns_[i].row(index));
    }
  }

 private:
  std::vector<Column> columns_;
};

}  // namespace

DatasetPtr npy_dataset(const std::vector<std::string>& paths) {
  return std::make_shared<NpyDataset>(paths);
}

}  // namespace facula::data
