// A list of ints as an argument: a list, one int that stands for all of them (int[2] in a schema), or None.
#pragma once
#include <optional>

#include "tern/base/small_vector.h"

namespace tern {

class Ints {
 public:
  Ints() = default;
  Ints(std::nullopt_t) {}
  template <class I>
  requires std::is_integral_v<I> Ints(I one)
      : one_(static_cast<int64_t>(one)), size_(1), single_(true), given_(true) {}
  Ints(Span<const int64_t> list) : list_(list.data()), size_(list.size()), given_(true) {}
  // Borrows the list: valid until the end of the full expression, as for any argument.
  Ints(std::initializer_list<int64_t> list) : Ints(Span<const int64_t>(list.begin(), list.size())) {}
  template <size_t N>
  Ints(const SmallVector<int64_t, N>& list) : Ints(Span<const int64_t>(list.data(), list.size())) {}
  Ints(const std::vector<int64_t>& list) : Ints(Span<const int64_t>(list.data(), list.size())) {}

  bool has_value() const { return given_; }
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  const int64_t* data() const { return single_ ? &one_ : list_; }
  const int64_t* begin() const { return data(); }
  const int64_t* end() const { return data() + size_; }
  int64_t operator[](size_t i) const { return data()[i]; }
  Span<const int64_t> span() const { return {data(), size_}; }
  // The i-th of n: a list of one stands for n equal ones.
  int64_t at(size_t i) const { return size_ == 1 ? data()[0] : data()[i]; }

 private:
  const int64_t* list_ = nullptr;
  int64_t one_ = 0;
  size_t size_ = 0;
  bool single_ = false, given_ = false;
};

}  // namespace tern
