// Lists of sizes, strides and dimensions.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include <facula/export.h>

namespace facula {

/// Most dimensions a tensor may have.
inline constexpr int kMaxDims = 8;

/// A borrowed list of integers, as functions take sizes, strides and dimensions. A single integer
/// converts to a list of one.
class IntList {
 public:
  constexpr IntList() = default;
  constexpr IntList(const std::int64_t* data, std::size_t count) : data_(data), count_(count) {}
#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winit-list-lifetime"  // a parameter lives as long as its call
#endif
  constexpr IntList(std::initializer_list<std::int64_t> list)
      : data_(list.begin()), count_(list.size()) {}
#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif
  constexpr IntList(std::span<const std::int64_t> list) : data_(list.data()), count_(list.size()) {}
  IntList(const std::vector<std::int64_t>& list) : data_(list.data()), count_(list.size()) {}
  constexpr IntList(const std::int64_t& single) : data_(&single), count_(1) {}
  /// x.sum(true) would take true for dimension 1: flags follow the dimensions, x.sum({}, true).
  template <std::same_as<bool> Flag>
  IntList(Flag) = delete;

  constexpr const std::int64_t* begin() const { return data_; }
  constexpr const std::int64_t* end() const { return data_ + count_; }
  constexpr const std::int64_t* data() const { return data_; }
  constexpr std::size_t size() const { return count_; }
  constexpr bool empty() const { return count_ == 0; }
  constexpr std::int64_t operator[](std::size_t i) const { return data_[i]; }
  std::vector<std::int64_t> vec() const { return {begin(), end()}; }
  /// "[2, 3]"
  FACULA_API std::string str() const;

 private:
  const std::int64_t* data_ = nullptr;
  std::size_t count_ = 0;
};

FACULA_API bool operator==(IntList a, IntList b);

/// An owned list of at most kMaxDims integers without heap memory; trivially copyable.
class Dims {
 public:
  constexpr Dims() = default;
  /// Throws ShapeError for more than kMaxDims entries.
  Dims(IntList list) {
    for (std::int64_t value : list) push_back(value);
  }
  Dims(std::initializer_list<std::int64_t> list) : Dims(IntList(list)) {}
  /// `count` copies of `value`.
  static Dims filled(int count, std::int64_t value) {
    Dims dims;
    for (int i = 0; i < count; ++i) dims.push_back(value);
    return dims;
  }

  void push_back(std::int64_t value) {
    if (count_ == kMaxDims) too_many();
    values_[count_++] = value;
  }
  void resize(int count) {
    if (count > kMaxDims) too_many();
    for (int i = count_; i < count; ++i) values_[i] = 0;
    count_ = static_cast<std::int32_t>(count);
  }
  void insert(int position, std::int64_t value) {
    push_back(0);
    for (int i = count_ - 1; i > position; --i) values_[i] = values_[i - 1];
    values_[position] = value;
  }
  void erase(int position) {
    for (int i = position; i + 1 < count_; ++i) values_[i] = values_[i + 1];
    --count_;
  }

  constexpr int size() const { return count_; }
  constexpr bool empty() const { return count_ == 0; }
  constexpr std::int64_t* begin() { return values_; }
  constexpr std::int64_t* end() { return values_ + count_; }
  constexpr const std::int64_t* begin() const { return values_; }
  constexpr const std::int64_t* end() const { return values_ + count_; }
  constexpr const std::int64_t* data() const { return values_; }
  constexpr std::int64_t& operator[](int i) { return values_[i]; }
  constexpr std::int64_t operator[](int i) const { return values_[i]; }
  constexpr std::int64_t& back() { return values_[count_ - 1]; }
  constexpr operator IntList() const { return {values_, static_cast<std::size_t>(count_)}; }
  std::string str() const { return IntList(*this).str(); }

 private:
  [[noreturn]] FACULA_API static void too_many();

  std::int64_t values_[kMaxDims] = {};
  std::int32_t count_ = 0;
};

}  // namespace facula
