// Any bytes given to the reader of torch.save's files end in tensors that can be read, or an Error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include <facula/error.h>

#include "io/torch/torch_file.h"
#include "tests/fuzz/zip_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace io = facula::io;
  constexpr int64_t kMostElements = 4096;
  const auto file = io::with_right_checksums(data, size);
  try {
    io::TorchFileReader reader(file, "fuzz");
    for (size_t i = 0; i < reader.tensors().size(); ++i) {
      try {
        const facula::Tensor tensor = reader.tensor(i);
        if (tensor.sizes().vec() != reader.tensors()[i].shape) std::abort();
        // Expanded views may have millions of elements, which would only take time.
        if (tensor.numel() > kMostElements) continue;
        volatile double sink = 0;
        for (const double value : tensor.to(facula::kFloat64).to_vector<double>()) sink = value;
      } catch (const facula::Error&) {
      }
    }
  } catch (const facula::IoError&) {
  }
  return 0;
}
