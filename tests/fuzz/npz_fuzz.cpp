// Any bytes given to the npz reader and to what tells formats apart end in arrays whose sizes the
// file justifies, or in an error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include <facula/error.h>

#include "io/arrays/npz.h"
#include "io/file_format.h"
#include "tests/fuzz/zip_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace facula;
  const auto file = io::with_right_checksums(data, size);
  io::recognise(file);
  try {
    const io::NpzReader reader(file, "fuzz");
    std::uint64_t total = 0;
    for (std::size_t i = 0; i < reader.size(); ++i) {
      try {
        const io::NpyFile described = reader.describe(i);
        const Tensor tensor = reader.tensor(i);
        if (described.shape != tensor.sizes().vec()) std::abort();
        total += static_cast<std::uint64_t>(tensor.nbytes());
        if (!tensor.is_contiguous()) std::abort();
      } catch (const DTypeError&) {
      } catch (const ShapeError&) {
      } catch (const IoError&) {
      }
    }
    if (total > 4 * size + (64 << 20)) std::abort();
  } catch (const IoError&) {
  }
  return 0;
}
