// Any bytes given to the CIFAR parser end in whole records with labels in range or an IoError. The
// first byte chooses the kind.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include <facula/error.h>

#include "io/arrays/cifar.h"

using facula::io::CifarKind;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const bool is_100 = data[0] & 1;
  try {
    const auto records = facula::io::parse_cifar(
        {data + 1, size - 1}, is_100 ? CifarKind::kCifar100 : CifarKind::kCifar10, "fuzz");
    if (records.images.size() != records.labels.size() * 3072) std::abort();
    if (*std::max_element(records.labels.begin(), records.labels.end()) >= (is_100 ? 100 : 10))
      std::abort();
  } catch (const facula::IoError&) {
  }
  return 0;
}
