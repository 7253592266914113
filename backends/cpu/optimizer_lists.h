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

  /// Calls run(tensor index, first element, element count) for all elements, in parallel.
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

/// Whether something that the step writes lies in memory of another entry of its lists, of which
/// all but the second, the gradients, are written.
inline bool entries_overlap(const KernelArgs& args, int lists) {
  struct Range {
    const std::byte* begin;
    const std::byte* end;
    bool written;
  };
  SmallVector<Range, 128> ranges;
  for (int list = 0; list < lists; ++list) {
    for (const Tensor* entry : args.list(list)) {
      const auto* begin = entry->impl()->typed<std::byte>();
      ranges.push_back({begin, begin + entry->nbytes(), list != 1});
    }
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return std::less<>()(a.begin, b.begin); });
  const std::byte* end = nullptr;
  const std::byte* written_end = nullptr;
  for (const Range& range : ranges) {
    if (std::less<>()(range.begin, range.written ? end : written_end)) return true;
    end = std::max(end, range.end, std::less<>());
    if (range.written) written_end = std::max(written_end, range.end, std::less<>());
  }
  return false;
}

/// Calls run(entry, first element, element count) for all elements of all parameters, in parallel;
/// one parameter after the other where they share memory, as with tensors detached from each other.
template <class F>
void for_each_run(const KernelArgs& args, int lists, const F& run) {
  const auto params = args.list(0);
  if (!entries_overlap(args, lists)) return ParameterRow(params).for_each_run(params, run);
  for (std::size_t i = 0; i < params.size(); ++i) {
    const auto one = params.subspan(i, 1);
    ParameterRow(one).for_each_run(
        one, [&](std::size_t, std::int64_t first, std::int64_t n) { run(i, first, n); });
  }
}

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
