// Positions of the greatest or least elements of rows and columns, for argmax and argmin.
#pragma once

#include "backends/cpu/kernels/kernel_names.h"

namespace facula::cpu {

/// Columns that are compared together, at most.
constexpr std::int64_t kExtremeColumns = 1024;

/// Where the first of the extreme elements is, or the first NaN if there is one. Rows or columns of
/// x begin x_step elements apart, and the positions go place_step apart. With `ask`, memory that
/// comes in order is asked for ahead.
template <class T>
struct ExtremeLoops {
  /// Of `rows` rows of n > 0 neighbours.
  void (*rows)(const T* x, std::int64_t x_step, std::int64_t rows, std::int64_t n,
               std::int64_t* places, std::int64_t place_step, bool ask);
  /// Of n columns, at most kExtremeColumns, of `rows` > 0 elements.
  void (*columns)(const T* x, std::int64_t x_step, std::int64_t rows, std::int64_t n,
                  std::int64_t* places, std::int64_t place_step, bool ask);
};

template <class T>
struct ExtremeLoopsOf {
  ExtremeLoops<T> greatest, least;
};

/// Masks are read as bytes.
struct ExtremeKernels : ExtremeLoopsOf<float>,
                        ExtremeLoopsOf<double>,
                        ExtremeLoopsOf<std::int32_t>,
                        ExtremeLoopsOf<std::int64_t>,
                        ExtremeLoopsOf<std::uint8_t> {};

}  // namespace facula::cpu

FACULA_DECLARE_KERNELS(ExtremeKernels, extreme)
