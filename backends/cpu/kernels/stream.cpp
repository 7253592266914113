#include "backends/cpu/kernels/stream.h"

#include "backends/cpu/kernels/stream_line.h"

namespace facula::cpu::FACULA_ISA {
namespace {

void copy_lines(char* to, const char* from, std::int64_t count) {
  for (std::int64_t at = 0; at < count * kLineBytes; at += kLineBytes) {
    stream_line(to + at, from + at);
  }
}

}  // namespace

extern const StreamKernels stream_kernels = {copy_lines};

}  // namespace facula::cpu::FACULA_ISA
