// A vector of movable values that keeps up to N of them in place: for lists that are nearly always short and
// are made on every call.
#pragma once
#include <cstddef>
#include <new>
#include <utility>

namespace tern {

template <class T, size_t N>
class Few {
 public:
  using value_type = T;

  Few() = default;
  explicit Few(size_t n) { resize(n); }
  // Not of an initializer_list, whose items can only be copied.
  Few(T a) { emplace_back(std::move(a)); }
  template <class... More>
  Few(T a, T b, More&&... more) {
    reserve(2 + sizeof...(more));
    emplace_back(std::move(a));
    emplace_back(std::move(b));
    (emplace_back(std::forward<More>(more)), ...);
  }
  Few(const Few& o) {
    reserve(o.size_);
    for (const T& item : o) ::new (static_cast<void*>(data_ + size_++)) T(item);
  }
  Few(Few&& o) noexcept { steal(o); }
  Few& operator=(const Few& o) {
    if (this != &o) *this = Few(o);
    return *this;
  }
  Few& operator=(Few&& o) noexcept {
    if (this != &o) {
      release();
      steal(o);
    }
    return *this;
  }
  ~Few() { release(); }

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
  const T& front() const { return data_[0]; }
  T& back() { return data_[size_ - 1]; }
  const T& back() const { return data_[size_ - 1]; }

  void reserve(size_t n) {
    if (n > capacity_) grow(n);
  }
  template <class... A>
  T& emplace_back(A&&... args) {
    if (size_ == capacity_) {
      T item(std::forward<A>(args)...);  // may refer to what moves
      grow(size_ + 1);
      return *::new (static_cast<void*>(data_ + size_++)) T(std::move(item));
    }
    return *::new (static_cast<void*>(data_ + size_++)) T(std::forward<A>(args)...);
  }
  void push_back(const T& item) { emplace_back(item); }
  void push_back(T&& item) { emplace_back(std::move(item)); }
  void pop_back() { data_[--size_].~T(); }
  void resize(size_t n) {
    reserve(n);
    while (size_ < n) ::new (static_cast<void*>(data_ + size_++)) T();
    while (size_ > n) pop_back();
  }
  void clear() { resize(0); }

 private:
  T* place() { return reinterpret_cast<T*>(bytes_); }
  void release() {
    for (size_t i = size_; i-- > 0;) data_[i].~T();
    if (data_ != place()) ::operator delete(data_, std::align_val_t(alignof(T)));
  }
  void steal(Few& o) {
    if (o.data_ == o.place()) {
      data_ = place();
      capacity_ = N;
      size_ = o.size_;
      for (size_t i = 0; i < size_; ++i) {
        ::new (static_cast<void*>(data_ + i)) T(std::move(o.data_[i]));
        o.data_[i].~T();
      }
    } else {
      data_ = std::exchange(o.data_, o.place());
      capacity_ = std::exchange(o.capacity_, N);
      size_ = o.size_;
    }
    o.size_ = 0;
  }
  void grow(size_t n) {
    size_t bigger = n > 2 * capacity_ ? n : 2 * capacity_;
    if (bigger > static_cast<size_t>(-1) / 2 / sizeof(T)) throw std::bad_alloc();
    T* memory = static_cast<T*>(::operator new(bigger * sizeof(T), std::align_val_t(alignof(T))));
    for (size_t i = 0; i < size_; ++i) {
      ::new (static_cast<void*>(memory + i)) T(std::move(data_[i]));
      data_[i].~T();
    }
    if (data_ != place()) ::operator delete(data_, std::align_val_t(alignof(T)));
    data_ = memory;
    capacity_ = bigger;
  }

  T* data_ = reinterpret_cast<T*>(bytes_);
  size_t size_ = 0;
  size_t capacity_ = N;
  alignas(T) unsigned char bytes_[N * sizeof(T)];
};

}  // namespace tern
