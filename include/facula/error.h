// Exceptions thrown by Facula. Every message names the operation, the shapes or file concerned, and
// what to do about it.
#pragma once

#include <stdexcept>
#include <string>

#include <facula/export.h>

namespace facula {

/// Base of all exceptions thrown by this library.
class FACULA_API Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(message) {}
  ~Error() override;
};

#define FACULA_DECLARE_ERROR(Name)                                \
  class FACULA_API Name : public Error {                          \
   public:                                                        \
    explicit Name(const std::string& message) : Error(message) {} \
    ~Name() override;                                             \
  }

/// Sizes, strides or ranks that do not fit together.
FACULA_DECLARE_ERROR(ShapeError);
/// A dtype the operation does not accept.
FACULA_DECLARE_ERROR(DTypeError);
/// Tensors on different or unavailable devices.
FACULA_DECLARE_ERROR(DeviceError);
/// An argument value outside its domain (a probability above 1, an unknown option name, ...).
FACULA_DECLARE_ERROR(ValueError);
/// An index outside its range.
FACULA_DECLARE_ERROR(IndexError);
/// Misuse of automatic differentiation (backward twice, in-place writes to needed values, ...).
FACULA_DECLARE_ERROR(AutogradError);
/// A file or folder that cannot be read or written, or whose content is damaged.
FACULA_DECLARE_ERROR(IoError);
/// An allocation that exceeds what the device can give.
FACULA_DECLARE_ERROR(OutOfMemory);

#undef FACULA_DECLARE_ERROR

}  // namespace facula
