// A vector whose first N elements live inside the object: shapes, strides, operand lists.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <ranges>
#include <type_traits>
#include <utility>

namespace facula {

/// Contiguous, so it converts to std::span. Iterators and references are invalidated by growth and,
/// unlike std::vector's, by moving the vector. Elements must be nothrow movable.
template <class T, size_t N>
class SmallVector {
  static_assert(N > 0);
  static_assert(std::is_nothrow_move_constructible_v<T>);

 public:
  using value_type = T;
  using size_type = size_t;
  using difference_type = ptrdiff_t;
  using reference = T&;
  using const_reference = const T&;
  using iterator = T*;
  using const_iterator = const T*;

  // All other constructors delegate to this one, so that the destructor runs if they throw.
  SmallVector() noexcept = default;
  explicit SmallVector(size_t count) : SmallVector() { resize(count); }
  SmallVector(size_t count, const T& value) : SmallVector() { resize(count, value); }
  SmallVector(std::initializer_list<T> values) : SmallVector(values.begin(), values.end()) {}
  template <std::forward_iterator It>
  SmallVector(It first, It last) : SmallVector() {
    append(first, last);
  }
  /// From any range of convertible elements, such as a span or a std::vector.
  template <std::ranges::forward_range R>
  requires(
      !std::is_same_v<std::remove_cvref_t<R>, SmallVector> &&
      std::is_convertible_v<std::ranges::range_reference_t<R>, T>) explicit SmallVector(R&& range)
      : SmallVector(std::ranges::begin(range), std::ranges::end(range)) {}

  SmallVector(const SmallVector& other) : SmallVector(other.begin(), other.end()) {}
  SmallVector(SmallVector&& other) noexcept { take(other); }
  SmallVector& operator=(const SmallVector& other) {
    if (this != &other) assign(other.begin(), other.end());
    return *this;
  }
  SmallVector& operator=(SmallVector&& other) noexcept {
    if (this != &other) {
      destroy();
      take(other);
    }
    return *this;
  }
  SmallVector& operator=(std::initializer_list<T> values) {
    assign(values.begin(), values.end());
    return *this;
  }
  ~SmallVector() { destroy(); }

  T* data() noexcept { return data_; }
  const T* data() const noexcept { return data_; }
  size_t size() const noexcept { return size_; }
  size_t capacity() const noexcept { return capacity_; }
  bool empty() const noexcept { return size_ == 0; }
  bool is_inline() const noexcept { return data_ == inline_data(); }

  T* begin() noexcept { return data_; }
  T* end() noexcept { return data_ + size_; }
  const T* begin() const noexcept { return data_; }
  const T* end() const noexcept { return data_ + size_; }
  auto rbegin() noexcept { return std::reverse_iterator(end()); }
  auto rend() noexcept { return std::reverse_iterator(begin()); }
  auto rbegin() const noexcept { return std::reverse_iterator(end()); }
  auto rend() const noexcept { return std::reverse_iterator(begin()); }

  T& operator[](size_t i) noexcept { return data_[i]; }
  const T& operator[](size_t i) const noexcept { return data_[i]; }
  T& front() noexcept { return data_[0]; }
  const T& front() const noexcept { return data_[0]; }
  T& back() noexcept { return data_[size_ - 1]; }
  const T& back() const noexcept { return data_[size_ - 1]; }

  void reserve(size_t count) {
    if (count > capacity_) reallocate(count);
  }

  void clear() noexcept {
    std::destroy_n(data_, size_);
    size_ = 0;
  }

  void push_back(const T& value) { emplace_back(value); }
  void push_back(T&& value) { emplace_back(std::move(value)); }
  template <class... Args>
  T& emplace_back(Args&&... args) {
    if (size_ == capacity_) [[unlikely]] {
      return grow_and_emplace(std::forward<Args>(args)...);
    }
    T* slot = std::construct_at(data_ + size_, std::forward<Args>(args)...);
    ++size_;
    return *slot;
  }
  void pop_back() noexcept { std::destroy_at(data_ + --size_); }

  void resize(size_t count) {
    shrink_or_reserve(count);
    std::uninitialized_value_construct(data_ + size_, data_ + std::max(count, size_));
    size_ = count;
  }
  void resize(size_t count, const T& value) {
    const T copy = value;  // `value` may be one of our own elements
    shrink_or_reserve(count);
    std::uninitialized_fill(data_ + size_, data_ + std::max(count, size_), copy);
    size_ = count;
  }

  /// Neither `append` nor `assign` may be given parts of this vector itself.
  template <std::forward_iterator It>
  void append(It first, It last) {
    const size_t added = static_cast<size_t>(std::distance(first, last));
    reserve_for(size_ + added);
    std::uninitialized_copy(first, last, data_ + size_);
    size_ += added;
  }
  template <std::forward_iterator It>
  void assign(It first, It last) {
    clear();
    append(first, last);
  }
  void assign(size_t count, const T& value) {
    const T copy = value;
    clear();
    resize(count, copy);
  }

  T* insert(const T* position, T value) {
    const size_t index = static_cast<size_t>(position - data_);
    emplace_back(std::move(value));
    std::rotate(data_ + index, data_ + size_ - 1, data_ + size_);
    return data_ + index;
  }
  T* erase(const T* position) noexcept { return erase(position, position + 1); }
  T* erase(const T* first, const T* last) noexcept {
    T* target = data_ + (first - data_);
    T* new_end = std::move(data_ + (last - data_), end(), target);
    std::destroy(new_end, end());
    size_ = static_cast<size_t>(new_end - data_);
    return target;
  }

  friend bool operator==(const SmallVector& a, const SmallVector& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  T* inline_data() noexcept { return reinterpret_cast<T*>(storage_); }
  const T* inline_data() const noexcept { return reinterpret_cast<const T*>(storage_); }

  void destroy() noexcept {
    std::destroy_n(data_, size_);
    release_heap();
  }
  void release_heap() noexcept {
    if (!is_inline()) std::allocator<T>().deallocate(data_, capacity_);
  }

  /// Takes over the elements of `other`, which is left empty. Own elements must be gone.
  void take(SmallVector& other) noexcept {
    if (other.is_inline()) {
      data_ = inline_data();
      capacity_ = N;
      std::uninitialized_move_n(other.data_, other.size_, data_);
      std::destroy_n(other.data_, other.size_);
    } else {
      data_ = std::exchange(other.data_, other.inline_data());
      capacity_ = std::exchange(other.capacity_, N);
    }
    size_ = std::exchange(other.size_, 0);
  }

  void adopt(T* memory, size_t capacity) noexcept {
    std::uninitialized_move_n(data_, size_, memory);
    std::destroy_n(data_, size_);
    release_heap();
    data_ = memory;
    capacity_ = capacity;
  }
  void reallocate(size_t capacity) { adopt(std::allocator<T>().allocate(capacity), capacity); }
  void reserve_for(size_t count) {
    if (count > capacity_) reallocate(std::max(count, 2 * capacity_));
  }
  void shrink_or_reserve(size_t count) {
    if (count < size_) {
      std::destroy(data_ + count, end());
      size_ = count;
    }
    reserve_for(count);
  }

  template <class... Args>
  [[gnu::noinline]] T& grow_and_emplace(Args&&... args) {
    T value(std::forward<Args>(args)...);  // before the move: arguments may refer to our elements
    reallocate(2 * capacity_);
    T* slot = std::construct_at(data_ + size_, std::move(value));
    ++size_;
    return *slot;
  }

  T* data_ = inline_data();
  size_t size_ = 0;
  size_t capacity_ = N;
  alignas(T) std::byte storage_[N * sizeof(T)];  // NOLINT(*-sizeof-expression): T may be a pointer
};

}  // namespace facula
