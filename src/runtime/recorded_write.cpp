#include "runtime/recorded_write.h"

#include <algorithm>
#include <numeric>
#include <string_view>

#include <facula/ops.h>

#include "base/check.h"
#include "base/sharded_mutex.h"
#include "core/tensor_impl.h"
#include "ops/attrs/as_strided_copy.h"
#include "ops/attrs/as_strided_scatter.h"
#include "ops/attrs/to_copy.h"
#include "ops/schema/region.h"
#include "runtime/dispatch.h"
#include "runtime/mode.h"

namespace facula::runtime {
namespace {

/// The dimensions in the order in which they follow each other in memory.
Dims memory_order(const TensorImpl& impl) {
  Dims order = Dims::filled(impl.dim, 0);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return impl.strides[a] > impl.strides[b];
  });
  return order;
}

Dims inverse(const Dims& order) {
  Dims places = order;
  for (int d = 0; d < order.size(); ++d) places[static_cast<int>(order[d])] = d;
  return places;
}

/// A dense tensor with its present history, as one that is contiguous: ops that name elements by
/// their number count them in memory.
Tensor in_memory_order(const Tensor& dense) {
  const Tensor present = hooks.before_write(dense, false);
  return dense.is_contiguous() ? present : permute(present, memory_order(*dense.impl()));
}

/// Where the elements of a view are among those of its base.
template <class Attrs>
Attrs place_in(const TensorImpl& base, const TensorImpl& view) {
  return {view.size_list(), view.stride_list(), view.offset - base.offset};
}

/// The tensor, computed already, as the result of the op.
void record(OpId id, std::initializer_list<const Tensor*> inputs, const void* attrs,
            Tensor& result) {
  hooks.record(Call{op(id), inputs.begin(), static_cast<std::uint32_t>(inputs.size()), attrs},
               {&result, 1});
}

/// The history of `base` in which `part`, a view of it, has just been replaced by `values`.
Tensor with_part(const Tensor& base, const TensorImpl& part, const Tensor& values) {
  const auto place = place_in<ops::as_strided_scatter_attrs>(*base.impl(), part);
  const Tensor before = in_memory_order(base);
  Tensor after = alias(*before.impl());
  record(OpId::as_strided_scatter, {&before, &values}, &place, after);
  if (base.is_contiguous()) return after;
  return permute(after, inverse(memory_order(*base.impl())));
}

/// The history of `part`, a view of `base`.
Tensor part_of(const Tensor& base, const TensorImpl& part) {
  const auto place = place_in<ops::as_strided_copy_attrs>(*base.impl(), part);
  const Tensor whole = in_memory_order(base);
  Tensor result = alias(part);
  record(OpId::as_strided_copy, {&whole}, &place, result);
  return result;
}

/// Views taken before have an older history from now on.
void begin_history(const TensorImpl& written) {
  written.storage->histories.add(written.family, written.requires_grad());
}

}  // namespace

RecordedWrite::RecordedWrite(const Tensor& written, const char* op, const char* suffix)
    : written_(written) {
  const TensorImpl& impl = *written.impl();
  // Without another tensor over its elements, a view is as good as a tensor of its own.
  if (!impl.has(TensorImpl::kIsView) || !impl.storage || alone_in_storage(impl)) return;
  base_ = impl.base;
  check<AutogradError>(
      base_.defined() && is_dense(*base_.impl()) &&
          meets_elements_once(impl.size_list(), impl.stride_list()),
      "{}{}: an in-place operation that needs a gradient writes into a view of a custom function's "
      "input or result, or of a tensor with gaps, and others have its elements too; use the "
      "out-of-place operation, or join parts with stack() or cat()",
      op, suffix);
  check<AutogradError>(!is_leaf_with_gradient(*base_.impl()),
                       "{}{}: a view of a leaf tensor that requires grad is changed in place; wrap "
                       "the change in NoGradGuard or use the out-of-place operation",
                       op, suffix);
}

Tensor RecordedWrite::copy_of(const Tensor& source) const {
  const bool alike = source.sizes() == written_.sizes();
  const Tensor whole = alike ? source : source.expand(written_.sizes());
  const ops::to_copy_attrs attrs{written_.dtype(), std::string_view("preserve")};
  Tensor copy = alias(*written_.impl());
  record(OpId::to_copy, {&whole}, &attrs, copy);
  return copy;
}

void RecordedWrite::continue_with(const Tensor& result) const {
  TensorImpl& written = *written_.impl();
  hooks.rebase(written_, result);
  if (!written.storage) return;
  if (!base_.defined()) {
    end_view(written);
    return begin_history(written);
  }
  const Tensor values = result.requires_grad() ? result : alias(written);
  hooks.rebase(base_, with_part(base_, written, values));
  begin_history(*base_.impl());
  set_current(written);
}

bool renew_history(const Tensor& view) {
  TensorImpl& impl = *view.impl();
  const Tensor& base = impl.base;
  if (impl.has(TensorImpl::kUnrecordedView)) return false;
  if (!base.defined() || !is_dense(*base.impl())) return false;
  Tensor old;  // has the history that is replaced, which is not released under the lock
  const std::lock_guard lock(base::sharded_mutex<RecordedWrite>(&impl));
  if (!has_stale_history(impl)) return true;
  if (is_leaf_with_gradient(impl)) return false;
  old = hooks.before_write(view, false);
  const ModeGuard recording(0, kNoGrad | kInference);
  hooks.rebase(view, base.requires_grad() ? part_of(base, impl) : Tensor());
  set_current(impl);
  return true;
}

}  // namespace facula::runtime
