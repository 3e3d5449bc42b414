// A vector of trivially copyable values that keeps up to N of them in place.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <new>
#include <type_traits>

#include "tern/base/span.h"

namespace tern {

template <class T, size_t N = 6>
class SmallVector {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  using value_type = T;
  using iterator = T*;
  using const_iterator = const T*;

  SmallVector() = default;
  explicit SmallVector(size_t n, T value = T{}) { resize(n, value); }
  SmallVector(std::initializer_list<T> list) { assign(list.begin(), list.size()); }
  SmallVector(Span<const T> items) { assign(items.data(), items.size()); }
  SmallVector(const T* data, size_t n) { assign(data, n); }
  SmallVector(const SmallVector& o) { assign(o.data_, o.size_); }
  SmallVector(SmallVector&& o) noexcept { steal(o); }
  SmallVector& operator=(const SmallVector& o) {
    if (this != &o) assign(o.data_, o.size_);
    return *this;
  }
  SmallVector& operator=(SmallVector&& o) noexcept {
    if (this != &o) {
      release();
      steal(o);
    }
    return *this;
  }
  ~SmallVector() { release(); }

  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  T& front() { return data_[0]; }
  T& back() { return data_[size_ - 1]; }
  const T& back() const { return data_[size_ - 1]; }

  void reserve(size_t n) {
    if (n <= capacity_) return;
    size_t bigger = n > 2 * capacity_ ? n : 2 * capacity_;
    if (bigger > SIZE_MAX / 2 / sizeof(T)) throw std::bad_alloc();
    T* memory = static_cast<T*>(std::malloc(bigger * sizeof(T)));
    if (!memory) throw std::bad_alloc();
    std::memcpy(static_cast<void*>(memory), data_, size_ * sizeof(T));
    release();
    data_ = memory;
    capacity_ = bigger;
  }
  void resize(size_t n, T value = T{}) {
    reserve(n);
    for (size_t i = size_; i < n; ++i) data_[i] = value;
    size_ = n;
  }
  void resize_for_overwrite(size_t n) {  // the caller writes every new one
    reserve(n);
    size_ = n;
  }
  void push_back(T value) {
    reserve(size_ + 1);
    data_[size_++] = value;
  }
  void pop_back() { --size_; }
  void clear() { size_ = 0; }
  void insert(size_t at, T value) {
    push_back(value);
    for (size_t i = size_ - 1; i > at; --i) data_[i] = data_[i - 1];
    data_[at] = value;
  }
  void erase(size_t at) {
    for (size_t i = at; i + 1 < size_; ++i) data_[i] = data_[i + 1];
    --size_;
  }
  void assign(const T* from, size_t n) {
    reserve(n);
    // Sizes and strides are a handful: a plain loop is done before a call of memmove has begun.
    for (size_t i = 0; i < n; ++i) {
      data_[i] = from[i];
      __asm__("");  // keeps the loop from being turned into that call
    }
    size_ = n;
  }
  friend bool operator==(const SmallVector& a, const SmallVector& b) {
    if (a.size_ != b.size_) return false;
    for (size_t i = 0; i < a.size_; ++i)
      if (!(a.data_[i] == b.data_[i])) return false;
    return true;
  }

 private:
  void release() {
    if (data_ != place()) std::free(data_);
  }
  void steal(SmallVector& o) {
    if (o.data_ == o.place()) {
      data_ = place();
      capacity_ = N;
      if constexpr (sizeof(T) <= 8 && N <= 8) {
        for (size_t i = 0; i < o.size_; ++i) {
          data_[i] = o.data_[i];
          __asm__("");
        }
      } else {
        std::memcpy(static_cast<void*>(data_), o.data_, o.size_ * sizeof(T));
      }
    } else {
      data_ = o.data_;
      capacity_ = o.capacity_;
      o.data_ = o.place();
      o.capacity_ = N;
    }
    size_ = o.size_;
    o.size_ = 0;
  }
  T* place() { return reinterpret_cast<T*>(bytes_); }
  const T* place() const { return reinterpret_cast<const T*>(bytes_); }

  T* data_ = reinterpret_cast<T*>(bytes_);
  size_t size_ = 0;
  size_t capacity_ = N;
  alignas(T) unsigned char bytes_[N * sizeof(T)];
};

}  // namespace tern
