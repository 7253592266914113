// What in-place writes do to the recorded history of tensors that share elements.
#pragma once

#include <facula/tensor.h>

namespace facula::runtime {

/// A write, while recording, that changes the history of `written` and of the tensor which that is
/// a view of.
class RecordedWrite {
 public:
  /// Before anything is written. Throws AutogradError where others over its elements could not
  /// know of the write. Messages begin with `op` and `suffix`.
  explicit RecordedWrite(const Tensor& written, const char* op, const char* suffix = "");

  /// What continue_with() takes where the elements of `source`, which requires grad, are written,
  /// broadcast and converted.
  Tensor copy_of(const Tensor& source) const;

  /// After the write: `written` holds the elements of `result`, or constants if that is undefined.
  void continue_with(const Tensor& result) const;

 private:
  Tensor written_;
  Tensor base_;  ///< undefined if nobody else has the elements
};

/// Gives a view whose elements got another history the present one, that of the same part of its
/// base. False where that is not known: the view was taken without recording, is one of a custom
/// function's input or result, or a leaf with a gradient of its own.
bool renew_history(const Tensor& view);

}  // namespace facula::runtime
