// A borrowed array, like std::span but also made from an initializer list, so that `view(x, {2, -1})` works.
#pragma once
#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <type_traits>
#include <vector>

namespace tern {

template <class T>
class Span {
 public:
  using value_type = std::remove_const_t<T>;
  using iterator = T*;
  using const_iterator = T*;

  constexpr Span() = default;
  constexpr Span(T* data, size_t size) : data_(data), size_(size) {}
  template <size_t N>
  constexpr Span(T (&array)[N]) : data_(array), size_(N) {}
  // Borrows the list: valid until the end of the full expression, as for any argument; g++ warns of that.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winit-list-lifetime"
#endif
  constexpr Span(std::initializer_list<std::remove_const_t<T>> list) requires std::is_const_v<T>
      : data_(list.begin()), size_(list.size()) {}
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
  template <class C>
  requires requires(C& c) {
    { c.data() } -> std::convertible_to<T*>;
    c.size();
  }
  constexpr Span(C&& c) : data_(c.data()), size_(c.size()) {}

  constexpr T* data() const { return data_; }
  constexpr size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr T& operator[](size_t i) const { return data_[i]; }
  constexpr T* begin() const { return data_; }
  constexpr T* end() const { return data_ + size_; }
  constexpr T& front() const { return data_[0]; }
  constexpr T& back() const { return data_[size_ - 1]; }
  constexpr Span first(size_t n) const { return {data_, n}; }
  constexpr Span drop_front(size_t n) const { return {data_ + n, size_ - n}; }
  std::vector<std::remove_const_t<T>> vec() const { return {begin(), end()}; }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace tern
