// Reference counting inside the object: one pointer per handle, no control block.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace facula {

/// An atomic count of owners, starting at one.
class RefCount {
 public:
  void increment() noexcept { count_.fetch_add(1, std::memory_order_relaxed); }

  /// Gives up one reference; true if it was the last, so that the caller must destroy the object.
  [[nodiscard]] bool decrement() noexcept {
    // A sole owner needs no locked instruction: nobody else holds a reference to copy from, so the
    // count cannot change any more. Acquire sees all that former owners did before they let go.
    if (count_.load(std::memory_order_acquire) == 1) return true;
    return count_.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }

  int32_t value() const noexcept { return count_.load(std::memory_order_relaxed); }
  /// Acquire, because a sole owner may go on to write what former owners have read.
  bool unique() const noexcept { return count_.load(std::memory_order_acquire) == 1; }

 private:
  std::atomic<int32_t> count_{1};
};

/// Base of objects held by IntrusivePtr. Copying an object never copies its count.
class RefCounted {
 public:
  RefCounted() noexcept = default;
  RefCounted(const RefCounted&) noexcept {}
  RefCounted& operator=(const RefCounted&) noexcept { return *this; }

  RefCount& ref_count() const noexcept { return ref_count_; }

 protected:
  ~RefCounted() = default;

 private:
  mutable RefCount ref_count_;
};

/// Shared owner of a T, which derives from RefCounted. The last owner calls `T::destroy(T*)` if T
/// declares that static function (objects from free lists, iterative release), else deletes.
template <class T>
class IntrusivePtr {
 public:
  using element_type = T;

  constexpr IntrusivePtr() noexcept = default;
  constexpr IntrusivePtr(std::nullptr_t) noexcept {}  // NOLINT(google-explicit-constructor)

  /// Takes over the reference that `object` was created with, or that release() gave.
  static IntrusivePtr adopt(T* object) noexcept {
    IntrusivePtr result;
    result.object_ = object;
    return result;
  }
  /// A further owner of `object` (may be null).
  static IntrusivePtr share(T* object) noexcept {
    if (object != nullptr) object->ref_count().increment();
    return adopt(object);
  }

  IntrusivePtr(const IntrusivePtr& other) noexcept : object_(other.object_) {
    if (object_ != nullptr) object_->ref_count().increment();
  }
  IntrusivePtr(IntrusivePtr&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  template <class U>
  requires(std::is_convertible_v<U*, T*> && !std::is_same_v<U, T>)
      IntrusivePtr(IntrusivePtr<U> other)
  noexcept  // NOLINT(google-explicit-constructor)
      : object_(other.release()) {}
  IntrusivePtr& operator=(IntrusivePtr other) noexcept {
    swap(other);
    return *this;
  }
  ~IntrusivePtr() { drop(); }

  T* get() const noexcept { return object_; }
  T& operator*() const noexcept { return *object_; }
  T* operator->() const noexcept { return object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }

  /// Hands the reference to the caller, who must adopt() it later.
  [[nodiscard]] T* release() noexcept { return std::exchange(object_, nullptr); }
  void reset() noexcept { IntrusivePtr().swap(*this); }
  void swap(IntrusivePtr& other) noexcept { std::swap(object_, other.object_); }

  /// Number of owners; 0 for null. Others may change it at any time unless it is 1.
  int32_t use_count() const noexcept { return object_ ? object_->ref_count().value() : 0; }
  bool unique() const noexcept { return object_ != nullptr && object_->ref_count().unique(); }

  friend bool operator==(const IntrusivePtr& a, const IntrusivePtr& b) noexcept {
    return a.object_ == b.object_;
  }
  friend bool operator==(const IntrusivePtr& a, std::nullptr_t) noexcept {
    return a.object_ == nullptr;
  }

 private:
  void drop() noexcept {
    if (object_ == nullptr || !object_->ref_count().decrement()) return;
    if constexpr (requires(T * object) { T::destroy(object); }) {
      T::destroy(object_);
    } else {
      delete object_;
    }
  }

  T* object_ = nullptr;
};

/// A new T with one owner.
template <class T, class... Args>
IntrusivePtr<T> make_intrusive(Args&&... args) {
  return IntrusivePtr<T>::adopt(new T(std::forward<Args>(args)...));
}

}  // namespace facula
