// The lists of tensors that an optimizer's step works through, cut into slices.
#pragma once

#include <algorithm>
#include <cmath>

#include "base/divide_up.h"
#include "base/small_vector.h"
#include "base/thread_pool.h"
#include "core/tensor_impl.h"
#include "ops/attrs/adam_step_.h"
#include "ops/attrs/sgd_step_.h"
#include "runtime/op_registry.h"

namespace facula::cpu {

/// All elements of all parameters in one row, so that many small tensors make one slice and a large
/// one makes many. Starts are rounded up to a cache line.
class ParameterRow {
 public:
  static constexpr std::int64_t kSliceElements = 16384;

  explicit ParameterRow(std::span<const Tensor* const> params) {
    std::int64_t end = 0;
    for (const Tensor* param : params) {
      starts_.push_back(end);
      end += (param->numel() + 15) / 16 * 16;
    }
    starts_.push_back(end);
  }

  /// Calls run(tensor index, first element, element count, dtype tag) for all elements, in
  /// parallel.
  template <class F>
  void for_each_run(std::span<const Tensor* const> params, const F& run) const {
    const std::int64_t slices = base::divide_up(starts_.back(), kSliceElements);
    base::parallel_for(slices, [&](std::int64_t slice) {
      const std::int64_t begin = slice * kSliceElements;
      const std::int64_t end = std::min(begin + kSliceElements, starts_.back());
      auto i = static_cast<std::size_t>(std::upper_bound(starts_.begin(), starts_.end(), begin) -
                                        starts_.begin() - 1);
      for (; i < params.size() && starts_[i] < end; ++i) {
        const std::int64_t first = std::max<std::int64_t>(begin - starts_[i], 0);
        const std::int64_t last = std::min(end - starts_[i], params[i]->numel());
        if (first < last) run(i, first, last - first);
      }
    });
  }

 private:
  SmallVector<std::int64_t, 128> starts_;
};

/// The scalars that follow the `lists` list arguments.
inline double step_scalar(const KernelArgs& args, int lists, int position) {
  std::size_t place = static_cast<std::size_t>(position);
  for (int argument = 0; argument < lists; ++argument) place += args.list(argument).size();
  return *args.in(place).impl()->typed<double>();
}

/// Element `first` of entry `i` of a list; null if the list is empty.
template <class T>
T* at(std::span<const Tensor* const> list, std::size_t i, std::int64_t first) {
  return list.empty() ? nullptr : list[i]->impl()->typed<T>() + first;
}

}  // namespace facula::cpu
