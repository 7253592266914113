// Any bytes given to the reader of torch.save's files end in tensors that can be read, or an Error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include <facula/error.h>

#include "io/torch/torch_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace io = facula::io;
  try {
    io::TorchFileReader reader({data, size}, "fuzz");
    for (size_t i = 0; i < reader.tensors().size(); ++i) {
      try {
        const facula::Tensor tensor = reader.tensor(i);
        if (tensor.sizes().vec() != reader.tensors()[i].shape) std::abort();
        volatile double sink = 0;
        for (const double value : tensor.to(facula::kFloat64).to_vector<double>()) sink = value;
      } catch (const facula::Error&) {
      }
    }
  } catch (const facula::IoError&) {
  }
  return 0;
}
