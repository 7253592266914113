// argsort and argtopk. Elements become unsigned keys, each joined with its position into one
// number: these numbers are distinct, so that any way of sorting them keeps equal elements in
// order, and reads memory one place after the other.
#include <algorithm>
#include <bit>
#include <type_traits>
#include <utility>

#include "backends/cpu/lines.h"
#include "backends/cpu/registration.h"
#include "backends/cpu/scratch.h"
#include "ops/attrs/argsort.h"
#include "ops/attrs/argtopk.h"

namespace facula::cpu {
namespace {

using std::int64_t;

using Narrow = std::uint64_t;                 // 32 bits of key above 32 bits of position
using Wide = unsigned __int128;               // 64 above 64
constexpr int64_t kNarrowLines = 0xffffffff;  // the longest ones whose positions fit

template <class Entry>
using KeyOf = std::conditional_t<std::is_same_v<Entry, Narrow>, std::uint32_t, std::uint64_t>;
template <class Entry>
constexpr int kKeyBits = 8 * sizeof(KeyOf<Entry>);

/// An unsigned integer that orders as the elements do: NaN is greatest, -0 equals 0.
template <class T>
auto key_of(T x) {
  using Key = std::conditional_t<sizeof(T) <= 4, std::uint32_t, std::uint64_t>;
  constexpr Key kSign = Key{1} << (8 * sizeof(Key) - 1);
  if constexpr (std::is_floating_point_v<T>) {
    const Key bits = std::bit_cast<Key>(x + T{0});
    const auto sign = static_cast<std::make_signed_t<Key>>(bits) >> (8 * sizeof(Key) - 1);
    const Key nan = x == x ? 0 : ~Key{0};
    return (bits ^ (static_cast<Key>(sign) | kSign)) | nan;  // without branches: a vector at a time
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<Key>(x) ^ kSign;
  } else {
    return static_cast<Key>(x);
  }
}

/// One line of a tensor, as keys whose ascending order is the order wanted.
template <class T>
struct Line {
  using Key = decltype(key_of(T{}));

  Key key(int64_t i) const { return key_of(x[i * stride]) ^ flip; }

  const T* x;
  int64_t stride, size;
  Key flip;  // all ones for descending order
};

template <class Entry>
Entry join(KeyOf<Entry> key, int64_t position) {
  return static_cast<Entry>(key) << kKeyBits<Entry> | static_cast<Entry>(position);
}

template <class Entry>
int64_t position_of(Entry entry) {
  return static_cast<int64_t>(static_cast<KeyOf<Entry>>(entry));
}

/// Sorts n entries whose positions ascend, by one byte of the keys after the other, with `spare` of
/// the same size. Returns which of the two holds the result.
template <class Entry>
Entry* radix_sort(Entry* entries, Entry* spare, int64_t n) {
  constexpr int kBytes = kKeyBits<Entry> / 8;
  const auto byte = [](Entry entry, int i) {
    return static_cast<std::uint8_t>(entry >> (kKeyBits<Entry> + 8 * i));
  };
  int64_t counts[kBytes][256] = {};
  for (int64_t k = 0; k < n; ++k) {
    for (int i = 0; i < kBytes; ++i) ++counts[i][byte(entries[k], i)];
  }
  for (int i = 0; i < kBytes; ++i) {
    int64_t* places = counts[i];
    if (places[byte(entries[0], i)] == n) continue;  // it is the same in all
    int64_t sum = 0;
    for (int value = 0; value < 256; ++value) sum += std::exchange(places[value], sum);
    for (int64_t k = 0; k < n; ++k) spare[places[byte(entries[k], i)]++] = entries[k];
    std::swap(entries, spare);
  }
  return entries;
}

/// All entries of a line in order, in one half of `memory` for 2 * size.
template <class Entry, class T>
const Entry* sorted(const Line<T>& line, Entry* memory) {
  constexpr int64_t kRadix = 256;  // the length from which on counting bytes is faster
  for (int64_t i = 0; i < line.size; ++i) memory[i] = join<Entry>(line.key(i), i);
  if (line.size >= kRadix) return radix_sort(memory, memory + line.size, line.size);
  std::sort(memory, memory + line.size);
  return memory;
}

constexpr int64_t kBlock = 64;  // elements that are compared together

/// Calls look(before), which tells whether an element may come before `limit`: NaN is left to the
/// keys.
template <class T, class Look>
[[gnu::always_inline]] inline void with_order(T limit, bool descending, Look look) {
  descending ? look([=](T own) { return !(own <= limit); })
             : look([=](T own) { return !(own >= limit); });
}

/// Whether one of n elements may.
template <class T>
bool any_before(const T* x, int64_t stride, int64_t n, T limit, bool descending) {
  int any = 0;
  with_order(limit, descending, [&](auto before) {
    if (stride == 1 && n == kBlock) {  // in vectors
      for (int64_t i = 0; i < kBlock; ++i) any |= before(x[i]);
    } else {
      for (int64_t i = 0; i < n; ++i) any |= before(x[i * stride]);
    }
  });
  return any != 0;
}

/// Writes which of n elements may, without branches, and returns how many.
template <class T>
int64_t places_before(const T* x, int64_t stride, int64_t n, T limit, bool descending,
                      std::uint8_t* places) {
  int64_t count = 0;
  with_order(limit, descending, [&](auto before) {
    for (int64_t i = 0; i < n; ++i) {
      places[count] = static_cast<std::uint8_t>(i);
      count += before(x[i * stride]);
    }
  });
  return count;
}

/// The first k entries of a line in order, at the start of `memory` for 2 * k + kBlock. Whatever
/// does not beat the k-th of those so far is passed by; the others are collected, and all but k
/// dropped as often as k have come.
template <class Entry, class T>
const Entry* first(const Line<T>& line, int64_t k, Entry* memory) {
  Entry worst = ~Entry{0};  // of k, once they are `full`
  bool full = false;
  int64_t count = 0;
  const auto add = [&](KeyOf<Entry> key, int64_t i) {
    memory[count] = join<Entry>(key, i);
    count += memory[count] < worst;
  };
  for (int64_t begin = 0; begin < line.size; begin += kBlock) {
    const int64_t n = std::min(kBlock, line.size - begin);
    const T* own = line.x + begin * line.stride;
    const T limit = full ? line.x[position_of(worst) * line.stride] : T{};
    const bool descending = line.flip != 0;
    if (full && !any_before(own, line.stride, n, limit, descending)) continue;
    if (sizeof(T) <= 4 && line.stride == 1 && n == kBlock) {
      KeyOf<Entry> keys[kBlock];  // in vectors
      for (int64_t i = 0; i < kBlock; ++i) keys[i] = key_of(own[i]) ^ line.flip;
      for (int64_t i = 0; i < kBlock; ++i) add(keys[i], begin + i);
    } else if (full) {
      std::uint8_t places[kBlock];
      const int64_t hits = places_before(own, line.stride, n, limit, descending, places);
      for (int64_t i = 0; i < hits; ++i) add(line.key(begin + places[i]), begin + places[i]);
    } else {
      for (int64_t i = begin; i < begin + n; ++i) add(line.key(i), i);
    }
    if (count <= 2 * k) continue;
    std::nth_element(memory, memory + k - 1, memory + count);
    worst = memory[k - 1];
    full = true;
    count = k;
  }
  std::nth_element(memory, memory + k - 1, memory + count);
  std::sort(memory, memory + k);
  return memory;
}

template <class Entry, class T>
void order_lines(const TensorImpl& self, const TensorImpl& out, const Lines& lines, int64_t k,
                 bool descending) {
  const int64_t size = lines.along.size;
  const auto flip = static_cast<typename Line<T>::Key>(descending ? -1 : 0);
  const bool all = k > size / 8;  // selecting fewer is faster than sorting
  // Neighbouring lines share what is fetched from memory; long ones are rather for several threads.
  const int64_t together = size < 4096 && lines.along.a != 1 ? 16 : 1;
  lines.for_each(
      [&](int64_t from, int64_t to, int64_t n) {
        const Scratch<Entry> memory(all ? 2 * size : 2 * k + kBlock);
        for (int64_t column = 0; column < n; ++column) {
          const T* x = self.typed<T>() + from + column * lines.columns.a;
          const Line<T> line{x, lines.along.a, size, flip};
          const Entry* entries = all ? sorted(line, memory.data()) : first(line, k, memory.data());
          auto* y = out.typed<int64_t>() + to + column * lines.columns.b;
          for (int64_t i = 0; i < k; ++i) y[i * lines.along.b] = position_of(entries[i]);
        }
      },
      together);
}

/// Writes where the first k elements of each line stand, in order.
void order(const Tensor& input, const Tensor& result, int64_t dim, int64_t k, bool descending) {
  const TensorImpl& self = *input.impl();
  const TensorImpl& out = *result.impl();
  if (result.numel() == 0) return;
  const Lines lines(self, out, wrap_dim(dim, self.dim, "argsort"), true);
  with_type(self.dtype, [&](auto element) {
    using T = decltype(element);
    if (sizeof(T) <= 4 && lines.along.size <= kNarrowLines) {
      order_lines<Narrow, T>(self, out, lines, k, descending);
    } else {
      order_lines<Wide, T>(self, out, lines, k, descending);
    }
  });
}

void argsort(const KernelArgs& args) {
  const auto& a = args.attrs<ops::argsort_attrs>();
  const Tensor& self = args.in(0);
  order(self, args.out(), a.dim, self.dim() == 0 ? 1 : self.size(a.dim), a.descending);
}

void argtopk(const KernelArgs& args) {
  const auto& a = args.attrs<ops::argtopk_attrs>();
  order(args.in(0), args.out(), a.dim, a.k, a.largest);
}

}  // namespace

void register_sort() {
  add(OpId::argsort, {"lines", nullptr, argsort});
  add(OpId::argtopk, {"lines", nullptr, argtopk});
}

}  // namespace facula::cpu
