#include "backends/cpu/kernels/interleave.h"

#include <utility>

namespace facula::cpu::FACULA_ISA {
namespace {

// Shuffles of bytes are fast within 16 of them.
#if defined(__AVX512F__)
constexpr std::size_t kWidest = 64;
#elif defined(__AVX2__)
constexpr std::size_t kWidest = 32;
#else
constexpr std::size_t kWidest = 16;
#endif
template <class T>
constexpr int kLanes = (sizeof(T) < 4 ? 16 : kWidest) / sizeof(T);

template <class T>
struct Vector {
  typedef T Raw __attribute__((vector_size(kLanes<T> * sizeof(T))));
};
template <class T>
using Raw = typename Vector<T>::Raw;

/// Lane i of the result is lane place(i) of the vectors x and y, one after the other.
template <class T, class Place, int... I>
[[gnu::always_inline]] inline Raw<T> shuffle(const Raw<T>& x, const Raw<T>& y, Place,
                                             std::integer_sequence<int, I...>) {
  constexpr Place place{};
  return __builtin_shufflevector(x, y, place(I)...);
}
template <class T, class Place>
[[gnu::always_inline]] inline Raw<T> shuffle(const Raw<T>& x, const Raw<T>& y, Place place) {
  return shuffle<T>(x, y, place, std::make_integer_sequence<int, kLanes<T>>());
}

/// Channel kChannel of a vector's pixels of three channels.
template <class T, int kChannel>
[[gnu::always_inline]] inline Raw<T> channel_of_three(const Raw<T> (&pixels)[3]) {
  constexpr int n = kLanes<T>;
  const Raw<T> front = shuffle<T>(
      pixels[0], pixels[1], [](int i) { return 3 * i + kChannel < 2 * n ? 3 * i + kChannel : 0; });
  return shuffle<T>(front, pixels[2],
                    [](int i) { return 3 * i + kChannel < 2 * n ? i : 3 * i + kChannel - n; });
}
/// Vector kPart of those pixels.
template <class T, int kPart>
[[gnu::always_inline]] inline Raw<T> part_of_three(const Raw<T> (&channels)[3]) {
  constexpr int n = kLanes<T>;
  const Raw<T> first_two = shuffle<T>(channels[0], channels[1], [](int i) {
    const int place = kPart * n + i;
    return place % 3 % 2 * n + place / 3;
  });
  return shuffle<T>(first_two, channels[2], [](int i) {
    const int place = kPart * n + i;
    return place % 3 < 2 ? i : n + place / 3;
  });
}

/// Every other lane of two vectors, and the rest.
template <class T>
[[gnu::always_inline]] inline void split_pair(Raw<T>& x, Raw<T>& y) {
  const Raw<T> even = shuffle<T>(x, y, [](int i) { return 2 * i; });
  y = shuffle<T>(x, y, [](int i) { return 2 * i + 1; });
  x = even;
}
template <class T>
[[gnu::always_inline]] inline void join_pair(Raw<T>& x, Raw<T>& y) {
  constexpr int n = kLanes<T>;
  const Raw<T> front = shuffle<T>(x, y, [](int i) { return i / 2 + i % 2 * n; });
  y = shuffle<T>(x, y, [](int i) { return n / 2 + i / 2 + i % 2 * n; });
  x = front;
}

template <class T>
[[gnu::always_inline]] inline void split_vectors(Raw<T> (&v)[2]) {
  split_pair<T>(v[0], v[1]);
}
template <class T>
[[gnu::always_inline]] inline void join_vectors(Raw<T> (&v)[2]) {
  join_pair<T>(v[0], v[1]);
}
template <class T>
[[gnu::always_inline]] inline void split_vectors(Raw<T> (&v)[3]) {
  const Raw<T> second = channel_of_three<T, 1>(v), third = channel_of_three<T, 2>(v);
  v[0] = channel_of_three<T, 0>(v);
  v[1] = second;
  v[2] = third;
}
template <class T>
[[gnu::always_inline]] inline void join_vectors(Raw<T> (&v)[3]) {
  const Raw<T> second = part_of_three<T, 1>(v), third = part_of_three<T, 2>(v);
  v[0] = part_of_three<T, 0>(v);
  v[1] = second;
  v[2] = third;
}
template <class T>
[[gnu::always_inline]] inline void split_vectors(Raw<T> (&v)[4]) {
  split_pair<T>(v[0], v[1]);
  split_pair<T>(v[2], v[3]);
  split_pair<T>(v[0], v[2]);  // channels 0 and 2
  split_pair<T>(v[1], v[3]);
}
template <class T>
[[gnu::always_inline]] inline void join_vectors(Raw<T> (&v)[4]) {
  join_pair<T>(v[0], v[2]);
  join_pair<T>(v[1], v[3]);
  join_pair<T>(v[0], v[1]);
  join_pair<T>(v[2], v[3]);
}

template <class T, int kChannels>
void split(const T* pixels, std::int64_t n, T* planes, std::int64_t stride) {
  std::int64_t i = 0;
  for (; i + kLanes<T> <= n; i += kLanes<T>) {
    Raw<T> v[kChannels];
#pragma GCC unroll 4
    for (int c = 0; c < kChannels; ++c) {
      __builtin_memcpy(&v[c], pixels + i * kChannels + c * kLanes<T>, sizeof v[c]);
    }
    split_vectors<T>(v);
#pragma GCC unroll 4
    for (int c = 0; c < kChannels; ++c) {
      __builtin_memcpy(planes + c * stride + i, &v[c], sizeof v[c]);
    }
  }
  for (; i < n; ++i) {
    for (int c = 0; c < kChannels; ++c) planes[c * stride + i] = pixels[i * kChannels + c];
  }
}

template <class T, int kChannels>
void join(const T* planes, std::int64_t stride, std::int64_t n, T* pixels) {
  std::int64_t i = 0;
  for (; i + kLanes<T> <= n; i += kLanes<T>) {
    Raw<T> v[kChannels];
#pragma GCC unroll 4
    for (int c = 0; c < kChannels; ++c) {
      __builtin_memcpy(&v[c], planes + c * stride + i, sizeof v[c]);
    }
    join_vectors<T>(v);
#pragma GCC unroll 4
    for (int c = 0; c < kChannels; ++c) {
      __builtin_memcpy(pixels + i * kChannels + c * kLanes<T>, &v[c], sizeof v[c]);
    }
  }
  for (; i < n; ++i) {
    for (int c = 0; c < kChannels; ++c) pixels[i * kChannels + c] = planes[c * stride + i];
  }
}

template <class T>
void split_any(const T* pixels, std::int64_t channels, std::int64_t n, T* planes,
               std::int64_t stride) {
  channels == 2   ? split<T, 2>(pixels, n, planes, stride)
  : channels == 3 ? split<T, 3>(pixels, n, planes, stride)
                  : split<T, 4>(pixels, n, planes, stride);
}

template <class T>
void join_any(const T* planes, std::int64_t stride, std::int64_t channels, std::int64_t n,
              T* pixels) {
  channels == 2   ? join<T, 2>(planes, stride, n, pixels)
  : channels == 3 ? join<T, 3>(planes, stride, n, pixels)
                  : join<T, 4>(planes, stride, n, pixels);
}

template <class T>
constexpr InterleaveLoops<T> kLoops = {split_any<T>, join_any<T>};

}  // namespace

extern const InterleaveKernels interleave_kernels = {kLoops<std::uint8_t>, kLoops<std::uint16_t>,
                                                     kLoops<std::uint32_t>, kLoops<std::uint64_t>};

}  // namespace facula::cpu::FACULA_ISA
