#include <facula/error.h>

#include <typeinfo>

#include "base/env.h"
#include "base/rethrow.h"

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

namespace base {
namespace {

/// Users' own classes, derived from these, go on unchanged: they may hold more than a message.
template <class E>
[[noreturn]] void throw_longer(const E& error, const std::string& suffix) {
  if (typeid(error) != typeid(E)) throw;
  throw E(error.what() + suffix);
}

}  // namespace

void rethrow_with(const std::string& suffix) {
  try {
    throw;
  } catch (const VariableError&) {
    throw;
  } catch (const ShapeError& error) {
    throw_longer(error, suffix);
  } catch (const DTypeError& error) {
    throw_longer(error, suffix);
  } catch (const DeviceError& error) {
    throw_longer(error, suffix);
  } catch (const ValueError& error) {
    throw_longer(error, suffix);
  } catch (const IndexError& error) {
    throw_longer(error, suffix);
  } catch (const AutogradError& error) {
    throw_longer(error, suffix);
  } catch (const OutOfMemory& error) {
    throw_longer(error, suffix);
  }
}

}  // namespace base

}  // namespace facula
