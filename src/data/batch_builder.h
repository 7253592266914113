// Joining samples into the tensors of a batch.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include <facula/data/sample.h>

namespace facula::data {

/// Has a place for each of n samples, which may be filled by several threads in any order.
class BatchBuilder {
 public:
  BatchBuilder(std::int64_t samples, bool pin) : samples_(samples), pin_(pin) {}

  /// Writes a sample into place i. The first one decides what all look like; throws ShapeError,
  /// DTypeError or ValueError for one that differs.
  void place(std::int64_t i, const Sample& sample);

  /// The batch, without the places in `missing` (ascending). Undefined fields if all are.
  Batch finish(const std::vector<std::int64_t>& missing = {});

 private:
  /// One field of all samples.
  struct Column {
    std::string name;
    std::size_t kind = 0;  // which alternative of Value
    std::int64_t dim = 0, sizes[kMaxDims] = {};
    DType dtype = kFloat32;
    bool channels_inside = false;  // of a 3-d tensor, as images have them
    Tensor tensor;
    std::byte* data = nullptr;
    std::int64_t bytes = 0;  // of one sample
  };

  void lay_out(const Sample& first);
  Column column_for(const Sample::Field& field) const;
  void write(Column& column, std::int64_t i, const Value& value);

  std::int64_t samples_;
  bool pin_;
  std::mutex mutex_;
  std::atomic<bool> laid_out_{false};
  std::vector<Column> columns_;
};

}  // namespace facula::data
