// Compiles every functor for the device: elementwise ops as one kernel per op and dtype, reductions
// with a tree in shared memory. Nothing is run; that it compiles is the test.
#define FACULA_KERNEL_TU
#pragma nv_diag_suppress 186  // templates compare unsigned numbers with 0
#include <cstdint>
#include <type_traits>
#include <utility>

#include "cpu/functor_headers.inc"

namespace facula {
namespace {

constexpr int kBlock = 256;

struct Pointers {
  void* out;
  const void* in[4];
};

template <class Functor, class T, int... I>
__global__ void elementwise(Functor functor, Pointers pointers, std::int64_t n,
                            std::integer_sequence<int, I...>) {
  using Result = std::conditional_t<Functor::predicate, bool, T>;
  const std::int64_t step = std::int64_t{gridDim.x} * kBlock;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kBlock + threadIdx.x; i < n; i += step) {
    static_cast<Result*>(pointers.out)[i] =
        functor(static_cast<const std::conditional_t<(I < Functor::mask_inputs), bool, T>*>(
            pointers.in[I])[i]...);
  }
}

template <class Functor, class T>
__global__ void reduce(const T* in, std::int64_t n, void* out) {
  using A = typename Functor::template Accumulator<T>;
  using Wide = std::conditional_t<std::is_floating_point_v<T>, T, std::int64_t>;
  using Result = std::conditional_t<Functor::predicate, bool,
                                    std::conditional_t<Functor::widens_integers, Wide, T>>;
  const Functor f{};
  __shared__ alignas(16) unsigned char memory[kBlock * sizeof(A)];
  A* partial = reinterpret_cast<A*>(memory);
  A total = f.template identity<A>();
  for (std::int64_t i = threadIdx.x; i < n; i += kBlock) total = f.add(total, in[i]);
  partial[threadIdx.x] = total;
  for (int width = kBlock / 2; width > 0; width /= 2) {
    __syncthreads();
    if (threadIdx.x < width) {
      partial[threadIdx.x] = f.combine(partial[threadIdx.x], partial[threadIdx.x + width]);
    }
  }
  if (threadIdx.x == 0) {
    static_cast<Result*>(out)[blockIdx.x] =
        f.template finish<Result>(partial[0], static_cast<double>(n));
  }
}

template <class Functor, class T, int... I>
const void* address_of(std::integer_sequence<int, I...>) {
  return reinterpret_cast<const void*>(&elementwise<Functor, T, I...>);
}

template <class Functor, int Inputs, class T>
const void* elementwise_kernel() {
  if constexpr (Functor::dtypes.contains(dtype_of<T>)) {
    return address_of<Functor, T>(std::make_integer_sequence<int, Inputs>{});
  } else {
    return nullptr;
  }
}

template <class Functor, class T>
const void* reduction_kernel() {
  if constexpr (Functor::dtypes.contains(dtype_of<T>)) {
    return reinterpret_cast<const void*>(&reduce<Functor, T>);
  } else {
    return nullptr;
  }
}

}  // namespace

#define FACULA_KERNELS(kernel, ...)                                             \
  kernel<__VA_ARGS__, float>(), kernel<__VA_ARGS__, double>(),                  \
      kernel<__VA_ARGS__, std::int32_t>(), kernel<__VA_ARGS__, std::int64_t>(), \
      kernel<__VA_ARGS__, std::uint8_t>(), kernel<__VA_ARGS__, bool>(),
#define FACULA_ELEMENTWISE_KERNEL(op) \
  FACULA_KERNELS(elementwise_kernel, scalar::op##_functor, ops::op##_attrs::tensor_arguments)
#define FACULA_REDUCTION_KERNEL(op) FACULA_KERNELS(reduction_kernel, scalar::op##_reduction)

extern const void* const functor_kernels[];
const void* const functor_kernels[] = {
#include "cpu/kernel_list.inc"
};

}  // namespace facula
