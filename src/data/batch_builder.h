// Joining samples into the tensors of a batch.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <facula/data/sample.h>

namespace facula::data {

/// Has a place for each of n samples. Several threads may fill it, in slices: slice s has the
/// places after those of slice s - 1, which one thread fills in ascending order.
class BatchBuilder {
 public:
  static constexpr std::int64_t kMostSlices = 16;

  BatchBuilder(std::int64_t samples, bool pin) : samples_(samples), pin_(pin) {}

  /// Writes a sample into place i. The one with the least i decides what all look like, whatever
  /// the number of threads: others wait for it, so the slices before must have been begun. Throws
  /// ShapeError, DTypeError or ValueError for a sample that differs.
  void place(std::int64_t slice, std::int64_t i, const Sample& sample);
  /// Nothing comes any more from a slice, none of whose samples may have been placed.
  void end_slice(std::int64_t slice);

  /// The batch, without the places in `missing` (ascending). Undefined fields if all are.
  Batch finish(const std::vector<std::int64_t>& missing = {});

 private:
  /// One field of all samples.
  struct Column {
    std::string name;
    std::size_t position = 0;
    std::size_t kind = 0;  // which alternative of Value
    std::int64_t dim = 0, sizes[kMaxDims] = {};
    DType dtype = kFloat32;
    bool channels_inside = false;  // of a 3-d tensor, as images have them
    Tensor tensor;
    std::byte* data = nullptr;
    std::int64_t bytes = 0;  // of one sample
  };

  static constexpr std::uint32_t kLaidOut = std::uint32_t{1} << 31;

  /// Until it is this slice's turn to lay out, or done. Returns true if it is its turn.
  bool wait_for_turn(std::int64_t slice) const;
  void lay_out(const Sample& first);
  /// As messages call it: by its name, or its place if it has none.
  static std::string label_of(const Column& column);
  Column column_for(const Sample::Field& field, std::size_t position) const;
  void write(Column& column, std::int64_t i, const Value& value);

  std::int64_t samples_;
  bool pin_;
  std::atomic<std::uint32_t> state_{0};  // a bit for each slice that has ended, and kLaidOut
  std::vector<Column> columns_;
};

}  // namespace facula::data
