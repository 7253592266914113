// Methods of Tensor that are no ops: metadata, elements, conversion.
#include <facula/tensor.h>

#include <cmath>

#include "base/check.h"
#include "core/number_range.h"
#include "core/tensor_impl.h"
#include "ops/attrs/index_add.h"
#include "ops/attrs/scatter.h"
#include "ops/attrs/scatter_add.h"
#include "ops/schema/alpha.h"
#include "ops/schema/in_call.h"
#include "ops/schema/shape.h"
#include "runtime/deferred.h"
#include "runtime/dispatch.h"
#include "runtime/mode.h"
#include "runtime/recorded_write.h"

namespace facula {
namespace {

const TensorImpl& require(const TensorImpl* impl, const char* what) {
  check<ValueError>(impl != nullptr, "{}: the tensor is undefined (a default-constructed handle)",
                    what);
  return *impl;
}

}  // namespace

int Tensor::dim() const { return require(impl_, "dim").dim; }
IntList Tensor::sizes() const { return require(impl_, "sizes").size_list(); }
IntList Tensor::strides() const { return require(impl_, "strides").stride_list(); }
std::int64_t Tensor::numel() const { return require(impl_, "numel").numel; }
DType Tensor::dtype() const { return require(impl_, "dtype").dtype; }
Device Tensor::device() const { return require(impl_, "device").device; }
std::int64_t Tensor::storage_offset() const { return require(impl_, "storage_offset").offset; }
bool Tensor::is_view() const { return require(impl_, "is_view").has(TensorImpl::kIsView); }

std::int64_t Tensor::size(std::int64_t d) const {
  const TensorImpl& impl = require(impl_, "size");
  check<IndexError>(impl.dim > 0, "size: a 0-d tensor has no dimension {}", d);
  return impl.sizes[wrap_dim(d, impl.dim, "size")];
}

std::int64_t Tensor::stride(std::int64_t d) const {
  const TensorImpl& impl = require(impl_, "stride");
  check<IndexError>(impl.dim > 0, "stride: a 0-d tensor has no dimension {}", d);
  return impl.strides[wrap_dim(d, impl.dim, "stride")];
}

bool Tensor::is_contiguous(MemoryFormat format) const {
  const TensorImpl& impl = require(impl_, "is_contiguous");
  if (format == kPreserve) return is_dense(impl);
  return facula::is_contiguous(impl, format);
}

MemoryFormat Tensor::suggest_memory_format() const {
  const TensorImpl& impl = require(impl_, "suggest_memory_format");
  const bool channels_last = impl.dim == 4 && !impl.has(TensorImpl::kIsContiguous) &&
                             facula::is_contiguous(impl, kChannelsLast);
  return channels_last ? kChannelsLast : kContiguous;
}

std::uint32_t Tensor::version() const {
  const TensorImpl& impl = require(impl_, "version");
  return impl.storage ? impl.storage->version : 0;
}

// --- Elements ------------------------------------------------------------------------------------

namespace {

/// The address of the elements, for somebody who may change them.
void* expose(const Tensor& tensor) {
  const TensorImpl& impl = *tensor.impl();
  runtime::settle(tensor);
  runtime::settle_readers(impl.storage);
  if (impl.storage) impl.storage->expose();
  return impl.data;
}

}  // namespace

void* Tensor::raw_data() const {
  const TensorImpl& impl = require(impl_, "raw_data");
  check<DeviceError>(!impl.device.is_null() || impl.numel == 0,
                     "raw_data: a tensor on the null device has no elements");
  return expose(*this);
}

void* Tensor::checked_data(DType expected) const {
  const TensorImpl& impl = require(impl_, "data_ptr");
  check<DTypeError>(impl.dtype == expected,
                    "data_ptr: asked for {} elements of a {} tensor; convert with to() first",
                    name_of(expected), name_of(impl.dtype));
  check<DeviceError>(impl.device.is_cpu(), "data_ptr: the tensor is on {}; copy it with cpu()",
                     impl.device);
  return expose(*this);
}

Scalar Tensor::item_scalar() const {
  const TensorImpl& impl = require(impl_, "item");
  check<ShapeError>(impl.numel == 1,
                    "item: a tensor of size {} has {} elements, not one; index or reduce it first",
                    impl.size_list(), impl.numel);
  const Tensor host = cpu();
  runtime::settle(host);
  const TensorImpl& on_host = *host.impl();
  switch (impl.dtype) {
    case kFloat32: return *on_host.typed<float>();
    case kFloat64: return *on_host.typed<double>();
    case kInt32: return *on_host.typed<std::int32_t>();
    case kInt64: return *on_host.typed<std::int64_t>();
    case kUInt8: return *on_host.typed<std::uint8_t>();
    case kBool: return *on_host.typed<bool>();
    case kInt8: return *on_host.typed<std::int8_t>();
    case kInt16: return *on_host.typed<std::int16_t>();
    default: return host.detach().to(kFloat32).item_scalar();
  }
}

std::int64_t detail::checked_integer(Scalar value, std::int64_t least, std::int64_t most,
                                     DType dtype) {
  const bool fits_int64 = fits(value, kInt64);
  const std::int64_t integer = fits_int64 ? value.to_int() : 0;
  check<ValueError>(fits_int64 && integer >= least && integer <= most,
                    "item: the {} value {} is no integer from {} to {}; ask for item<double>() or "
                    "a wider type",
                    name_of(dtype), value, least, most);
  return integer;
}

void Tensor::copy_out(void* destination, DType dtype) const {
  runtime::ModeGuard no_grad(runtime::kNoGrad);
  const Tensor source = cpu();
  from_blob(destination, source.sizes(), dtype).copy_(source);
}

// --- Conversion ----------------------------------------------------------------------------------

namespace {

const char* format_name(MemoryFormat format) {
  switch (format) {
    case kChannelsLast: return "channels_last";
    case kContiguous: return "contiguous";
    case kPreserve: return "preserve";
  }
  return "";
}

}  // namespace

Tensor Tensor::to(DType target, bool, bool copy) const {
  if (require(impl_, "to").dtype == target && !copy) return *this;
  return facula::to_copy(*this, target);
}

Tensor Tensor::to(Device target, bool non_blocking, bool copy) const {
  return to(target, require(impl_, "to").dtype, non_blocking, copy);
}

Tensor Tensor::to(Device target, DType target_dtype, bool non_blocking, bool copy) const {
  if (target == require(impl_, "to").device) return to(target_dtype, non_blocking, copy);
  const Tensor source = to(target_dtype);
  check<AutogradError>(!source.requires_grad() || runtime::tl_mode & runtime::kNoGrad,
                       "to: moving a tensor that requires grad from {} to {} is not recorded; move "
                       "it before requires_grad_() and before computing with it, or move detach()",
                       device(), target);
  check<DeviceError>(!device().is_null(),
                     "to: a tensor on the null device has no elements to move");
  return in_call("to", sizes(), [&] {
    const TensorImpl& from = *source.impl();
    const Dims strides = is_dense(from) ? Dims(source.strides()) : dense_strides_like(from);
    Tensor moved = new_strided(sizes(), strides, target_dtype, target);
    if (target.is_null()) return moved;
    return moved.copy_(source, non_blocking);
  });
}

Tensor Tensor::contiguous(MemoryFormat format) const {
  if (is_contiguous(format)) return *this;
  return facula::to_copy(*this, std::nullopt, format_name(format));
}

// --- Writing -------------------------------------------------------------------------------------

namespace {

/// Writes `source` (broadcast, converted) over `self` for the op `name`, which errors name.
const Tensor& write(const Tensor& self, const Tensor& source, const char* name) {
  check<ValueError>(self.defined() && source.defined(), "{}: an operand is an undefined tensor",
                    name);
  const bool fits = source.dim() == 0 || source.sizes() == self.sizes() ||
                    broadcast_sizes(self.sizes(), source.sizes(), name) == self.sizes();
  check<ShapeError>(fits, "{}: elements of size {} cannot be broadcast to the written tensor's {}",
                    name, source.sizes(), self.sizes());
  runtime::check_in_place(self, name);
  const bool recording =
      !(runtime::tl_mode & runtime::kNoGrad) && (self.requires_grad() || source.requires_grad());
  std::optional<runtime::RecordedWrite> recorded_write;
  Tensor recorded;
  if (recording) {
    recorded_write.emplace(self, name);
    if (source.requires_grad()) recorded = recorded_write->copy_of(source);
  }
  in_call(name, {&self, &source}, [&] {
    runtime::ModeGuard no_grad(runtime::kNoGrad);
    facula::write_(self, source);
  });
  if (recording) recorded_write->continue_with(recorded);
  return self;
}

/// The same for the result of an op that reads `self`.
template <class F>
const Tensor& write_result(const Tensor& self, const char* name, F op) {
  return write(self, in_call(name, {&self}, op), name);
}

}  // namespace

const Tensor& Tensor::copy_(const Tensor& source, bool) const {
  return write(*this, source, "copy_");
}

const Tensor& Tensor::fill_(Scalar value) const {
  check_fits(value, require(impl_, "fill_").dtype, "fill_");
  return write(*this, runtime::wrapped_number(value, *this), "fill_");
}

const Tensor& Tensor::zero_() const {
  require(impl_, "zero_");
  return write(*this, runtime::wrapped_number(0, *this), "zero_");
}

const Tensor& Tensor::masked_fill_(const Tensor& mask, Scalar value) const {
  if (impl_ && fits(value, impl_->dtype) && mask.defined() && mask.dtype() == kBool) {
    const Tensor number = runtime::wrapped_number(value, *this);
    if (runtime::dispatch_over(*this, OpId::where, {&mask, &number, this}, nullptr)) return *this;
  }
  return write_result(*this, "masked_fill_",
                      [&] { return facula::masked_fill(*this, mask, value); });
}

const Tensor& Tensor::add_(const Tensor& other, Scalar alpha) const {
  require(impl_, "add_");
  return add_(ops::scaled_operand(*this, other, alpha, "add_"));
}

const Tensor& Tensor::sub_(const Tensor& other, Scalar alpha) const {
  require(impl_, "sub_");
  return sub_(ops::scaled_operand(*this, other, alpha, "sub_"));
}

const Tensor& Tensor::gelu_(std::string_view approximate) const {
  require(impl_, "gelu_");
  runtime::check_in_place(*this, "gelu_");
  if (approximate == "tanh") return gelu_tanh_();
  check<ValueError>(approximate == "none", "gelu_: approximate is \"{}\", expected none or tanh",
                    approximate);
  return gelu_erf_();
}

const Tensor& Tensor::logical_not_() const {
  if (runtime::dispatch_over(*this, OpId::logical_not, {this}, nullptr)) return *this;
  return write_result(*this, "logical_not_", [&] { return facula::logical_not(*this); });
}

// Backward through these keeps none of the values that are overwritten.

const Tensor& Tensor::scatter_(std::int64_t dim, const Tensor& index, const Tensor& src) const {
  const ops::scatter_attrs attrs{dim};
  if (runtime::dispatch_over(*this, OpId::scatter, {this, &index, &src}, &attrs)) return *this;
  return write_result(*this, "scatter_", [&] { return facula::scatter(*this, dim, index, src); });
}

const Tensor& Tensor::scatter_add_(std::int64_t dim, const Tensor& index, const Tensor& src) const {
  const ops::scatter_add_attrs attrs{dim};
  if (runtime::dispatch_over(*this, OpId::scatter_add, {this, &index, &src}, &attrs)) return *this;
  return write_result(*this, "scatter_add_",
                      [&] { return facula::scatter_add(*this, dim, index, src); });
}

const Tensor& Tensor::index_add_(std::int64_t dim, const Tensor& index, const Tensor& source,
                                 double alpha) const {
  const ops::index_add_attrs attrs{dim, alpha};
  if (runtime::dispatch_over(*this, OpId::index_add, {this, &index, &source}, &attrs)) return *this;
  return write_result(*this, "index_add_",
                      [&] { return facula::index_add(*this, dim, index, source, alpha); });
}

}  // namespace facula
