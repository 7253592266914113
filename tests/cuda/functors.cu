// Every functor compiled for the device: elementwise ops as one kernel per op and dtype, reductions
// with a tree in shared memory. These loops show what functors compute, they are not fast: each
// call takes its arguments to the device and the results back.
#define FACULA_KERNEL_TU
#pragma nv_diag_suppress 186  // templates compare unsigned numbers with 0
#include "tests/cuda/functors.h"

#include <atomic>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "cpu/functor_headers.inc"

namespace facula::test {
namespace {

using cpu::ReductionLoops;

void check_cuda(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

/// Device memory that a thread keeps from call to call.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { cudaFree(data_); }

  void* reserve(std::size_t bytes) {
    if (bytes > size_) {
      check_cuda(cudaFree(std::exchange(data_, nullptr)));
      size_ = 0;
      check_cuda(cudaMalloc(&data_, bytes));
      size_ = bytes;
    }
    return data_;
  }
  const void* upload(const void* host, std::size_t bytes) {
    void* device = reserve(bytes);
    check_cuda(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice));
    return device;
  }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

std::atomic<std::int64_t> downloads{0};

void download(void* host, const void* device, std::size_t bytes) {
  ++downloads;
  check_cuda(cudaGetLastError());
  check_cuda(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost));
}

/// Copies n elements of `size` bytes each; strides in bytes.
void copy_strided(void* to, std::int64_t to_stride, const void* from, std::int64_t from_stride,
                  std::int64_t n, std::int64_t size) {
  if (to_stride == size && from_stride == size) {
    std::memcpy(to, from, static_cast<std::size_t>(n * size));
    return;
  }
  for (std::int64_t i = 0; i < n; ++i) {
    std::memcpy(static_cast<char*>(to) + i * to_stride,
                static_cast<const char*>(from) + i * from_stride, static_cast<std::size_t>(size));
  }
}

constexpr int kBlock = 256;
constexpr int kMostBlocks = 65535;

int blocks_for(std::int64_t n) {
  const std::int64_t blocks = (n + kBlock - 1) / kBlock;
  return static_cast<int>(blocks < kMostBlocks ? blocks : kMostBlocks);
}

/// The positions of [0, n) that a thread of a one-dimensional grid takes.
template <class Body>
__device__ void for_each_position(std::int64_t n, Body body) {
  const std::int64_t step = std::int64_t{gridDim.x} * kBlock;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kBlock + threadIdx.x; i < n; i += step) body(i);
}

// --- Elementwise ---------------------------------------------------------------------------------

constexpr int kMostInputs = 4;

template <class Functor, class T>
using ElementwiseResult = std::conditional_t<Functor::predicate, bool, T>;

template <class Functor, class T, int I>
using Operand = std::conditional_t<(I < Functor::mask_inputs), bool, T>;

struct Pointers {
  const void* in[kMostInputs];
};

template <class Functor, class T, int... I>
__global__ void elementwise(Functor functor, Pointers pointers, void* out, std::int64_t n,
                            std::integer_sequence<int, I...>) {
  for_each_position(n, [&](std::int64_t i) {
    static_cast<ElementwiseResult<Functor, T>*>(out)[i] =
        functor(static_cast<const Operand<Functor, T, I>*>(pointers.in[I])[i]...);
  });
}

template <class Functor, class Attrs, class T, int... I>
void run_elementwise(const void* attrs, std::int64_t n, char* const* pointers,
                     const std::int64_t* strides, std::integer_sequence<int, I...> inputs) {
  thread_local Buffer out, in[kMostInputs];
  std::vector<char> dense;
  Pointers device = {};
  const std::int64_t sizes[] = {sizeof(Operand<Functor, T, I>)...};
  for (int i : {I...}) {
    dense.resize(static_cast<std::size_t>(n * sizes[i]));
    copy_strided(dense.data(), sizes[i], pointers[i + 1], strides[i + 1], n, sizes[i]);
    device.in[i] = in[i].upload(dense.data(), dense.size());
  }
  Functor functor{};
  if constexpr (std::is_base_of_v<Attrs, Functor>) {
    static_cast<Attrs&>(functor) = *static_cast<const Attrs*>(attrs);
  }
  constexpr std::int64_t kSize = sizeof(ElementwiseResult<Functor, T>);
  void* const result = out.reserve(static_cast<std::size_t>(n * kSize));
  elementwise<Functor, T><<<blocks_for(n), kBlock>>>(functor, device, result, n, inputs);
  dense.resize(static_cast<std::size_t>(n * kSize));
  download(dense.data(), result, dense.size());
  copy_strided(pointers[0], strides[0], dense.data(), kSize, n, kSize);
}

template <class Functor, class Attrs, class T>
constexpr ElementwiseLoop elementwise_loop() {
  if constexpr (Functor::dtypes.contains(dtype_of<T>)) {
    return [](const void* attrs, std::int64_t n, char* const* pointers, const std::int64_t* strides,
              Reach) {
      static_assert(Attrs::tensor_arguments <= kMostInputs);
      run_elementwise<Functor, Attrs, T>(
          attrs, n, pointers, strides, std::make_integer_sequence<int, Attrs::tensor_arguments>{});
    };
  } else {
    return nullptr;
  }
}

// --- Reductions ----------------------------------------------------------------------------------

/// One block for each row of n elements.
template <class Functor, class T, class A>
__global__ void reduce_rows(const T* in, std::int64_t n, A* totals) {
  const Functor f{};
  __shared__ alignas(16) unsigned char memory[kBlock * sizeof(A)];
  A* partial = reinterpret_cast<A*>(memory);
  const T* row = in + blockIdx.x * n;
  A total = f.template identity<A>();
  for (std::int64_t i = threadIdx.x; i < n; i += kBlock) total = f.add(total, row[i]);
  partial[threadIdx.x] = total;
  for (int width = kBlock / 2; width > 0; width /= 2) {
    __syncthreads();
    if (threadIdx.x < width) {
      partial[threadIdx.x] = f.combine(partial[threadIdx.x], partial[threadIdx.x + width]);
    }
  }
  if (threadIdx.x == 0) totals[blockIdx.x] = partial[0];
}

/// One thread for each of n columns.
template <class Functor, class T, class A>
__global__ void reduce_columns(const T* in, std::int64_t rows, std::int64_t n, A* totals) {
  const Functor f{};
  for_each_position(n, [&](std::int64_t i) {
    A total = f.template identity<A>();
    for (std::int64_t r = 0; r < rows; ++r) total = f.add(total, in[r * n + i]);
    totals[i] = total;
  });
}

template <class Functor, class A>
__global__ void combine(A* a, const A* b, std::int64_t n) {
  for_each_position(n, [&](std::int64_t i) { a[i] = Functor{}.combine(a[i], b[i]); });
}

template <class Functor, class A, class Result>
__global__ void finish(const A* totals, std::int64_t n, double count, Result* out) {
  for_each_position(
      n, [&](std::int64_t i) { out[i] = Functor{}.template finish<Result>(totals[i], count); });
}

template <class Functor, class A>
__global__ void identity(A* totals, std::int64_t n) {
  for_each_position(n, [&](std::int64_t i) { totals[i] = Functor{}.template identity<A>(); });
}

template <class Functor, class T>
struct Reduce {
  // Masks are bytes to the accumulators, as on the CPU.
  using E = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;
  using A = Functor::template Accumulator<E>;
  using Wide = std::conditional_t<std::is_floating_point_v<T>, T, std::int64_t>;
  using Result = std::conditional_t<Functor::predicate, bool,
                                    std::conditional_t<Functor::widens_integers, Wide, T>>;

  static Buffer& first() {
    thread_local Buffer buffer;
    return buffer;
  }
  static Buffer& second() {
    thread_local Buffer buffer;
    return buffer;
  }
  static std::size_t bytes_of(std::int64_t n) { return static_cast<std::size_t>(n) * sizeof(A); }

  static void rows(const void* input, std::int64_t rows, std::int64_t row_step, std::int64_t n,
                   std::int64_t stride, bool, void* totals) {
    std::vector<E> dense(static_cast<std::size_t>(rows * n));
    for (std::int64_t r = 0; r < rows; ++r) {
      copy_strided(dense.data() + r * n, sizeof(E), static_cast<const char*>(input) + r * row_step,
                   stride, n, sizeof(E));
    }
    const void* in = first().upload(dense.data(), dense.size() * sizeof(E));
    A* out = static_cast<A*>(second().reserve(bytes_of(rows)));
    reduce_rows<Functor, E, A>
        <<<static_cast<unsigned>(rows), kBlock>>>(static_cast<const E*>(in), n, out);
    download(totals, out, bytes_of(rows));
  }

  static void columns(const void* input, std::int64_t rows, std::int64_t row_stride, std::int64_t n,
                      bool, void* totals) {
    std::vector<E> dense(static_cast<std::size_t>(rows * n));
    copy_strided(dense.data(), n * static_cast<std::int64_t>(sizeof(E)), input, row_stride, rows,
                 n * static_cast<std::int64_t>(sizeof(E)));
    const void* in = first().upload(dense.data(), dense.size() * sizeof(E));
    A* out = static_cast<A*>(second().reserve(bytes_of(n)));
    reduce_columns<Functor, E, A>
        <<<blocks_for(n), kBlock>>>(static_cast<const E*>(in), rows, n, out);
    download(totals, out, bytes_of(n));
  }

  static void combine(void* a, const void* b, std::int64_t n) {
    A* out = static_cast<A*>(first().reserve(bytes_of(n)));
    first().upload(a, bytes_of(n));
    const A* other = static_cast<const A*>(second().upload(b, bytes_of(n)));
    test::combine<Functor, A><<<blocks_for(n), kBlock>>>(out, other, n);
    download(a, out, bytes_of(n));
  }

  static void finish(const void* totals, std::int64_t n, double count, void* out) {
    const A* in = static_cast<const A*>(first().upload(totals, bytes_of(n)));
    const std::size_t bytes = static_cast<std::size_t>(n) * sizeof(Result);
    Result* result = static_cast<Result*>(second().reserve(bytes));
    test::finish<Functor, A, Result><<<blocks_for(n), kBlock>>>(in, n, count, result);
    download(out, result, bytes);
  }

  static void identity(void* totals, std::int64_t n) {
    A* out = static_cast<A*>(first().reserve(bytes_of(n)));
    test::identity<Functor, A><<<blocks_for(n), kBlock>>>(out, n);
    download(totals, out, bytes_of(n));
  }
};

template <class Functor, class T>
constexpr ReductionLoops reduction_loops() {
  if constexpr (Functor::dtypes.contains(dtype_of<T>)) {
    using R = Reduce<Functor, T>;
    return {sizeof(typename R::A), R::rows, R::columns, R::combine, R::finish, R::identity};
  } else {
    return {};
  }
}

}  // namespace

// By DType. Storage-only dtypes have no loops.
#define FACULA_EVERY_DTYPE(loop, ...)                                                           \
  {                                                                                             \
    loop<__VA_ARGS__, float>(), loop<__VA_ARGS__, double>(), loop<__VA_ARGS__, std::int32_t>(), \
        loop<__VA_ARGS__, std::int64_t>(), loop<__VA_ARGS__, std::uint8_t>(),                   \
        loop<__VA_ARGS__, bool>(),                                                              \
  }

#define FACULA_ELEMENTWISE_KERNEL(op) \
  {#op, FACULA_EVERY_DTYPE(elementwise_loop, scalar::op##_functor, ops::op##_attrs)},
const DeviceElementwise kDeviceElementwise[] = {
#include "cpu/kernel_list.inc"
};
const std::size_t kDeviceElementwiseCount = std::size(kDeviceElementwise);

#define FACULA_REDUCTION_KERNEL(op) \
  {#op, FACULA_EVERY_DTYPE(reduction_loops, scalar::op##_reduction)},
const DeviceReduction kDeviceReductions[] = {
#include "cpu/kernel_list.inc"
};
const std::size_t kDeviceReductionCount = std::size(kDeviceReductions);

std::int64_t device_results() { return downloads; }

std::string why_no_gpu() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) return cudaGetErrorString(error);
  return count == 0 ? "no CUDA device" : "";
}

}  // namespace facula::test
