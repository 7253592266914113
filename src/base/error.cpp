#include <facula/error.h>

namespace facula {

// Out-of-line destructors anchor each class's type information in the library.
Error::~Error() = default;
ShapeError::~ShapeError() = default;
DTypeError::~DTypeError() = default;
DeviceError::~DeviceError() = default;
ValueError::~ValueError() = default;
IndexError::~IndexError() = default;
AutogradError::~AutogradError() = default;
IoError::~IoError() = default;
OutOfMemory::~OutOfMemory() = default;

}  // namespace facula
