// Sizes in N dimensions as options take them: one number for all, or one for each; and a convolution's
// padding, which may also be "same" or "valid".
#pragma once
#include <initializer_list>
#include <string>

#include "tern/sym/sym_int.h"
#include "tern/tensor/ints.h"

namespace tern::nn {

[[noreturn]] void wrong_extent(size_t wanted, size_t found);
std::string extent_text(Span<const SymInt> values, bool single);  // "(3, 3)", or "3" when it was one number

template <int N>
class Extent {
 public:
  Extent() = default;  // not given
  template <class I>
  requires std::is_integral_v<I> Extent(I all) : given_(true), single_(true) {
    for (SymInt& v : values_) v = all;
  }
  Extent(std::initializer_list<int64_t> each) : given_(true) {
    if (each.size() != N) wrong_extent(N, each.size());
    int i = 0;
    for (int64_t v : each) values_[i++] = v;
  }

  bool has_value() const { return given_; }
  int64_t operator[](int i) const { return values_[i].as_int(); }
  operator Span<const SymInt>() const { return {values_, given_ ? size_t{N} : 0}; }
  // A SymInt that is an int is that int.
  operator Ints() const {
    return Span<const int64_t>(reinterpret_cast<const int64_t*>(values_), given_ ? N : 0);
  }
  Span<const SymInt> span() const { return *this; }
  Ints ints() const { return *this; }
  std::string str() const { return extent_text(*this, false); }
  std::string short_str() const { return extent_text(*this, single_); }
  bool all(int64_t value) const {
    for (SymInt v : values_)
      if (v.as_int() != value) return false;
    return true;
  }

 private:
  SymInt values_[N] = {};
  bool given_ = false, single_ = false;
};

template <int N>
struct Padding : Extent<N> {
  std::string mode;  // "same", "valid", or empty

  Padding(const char* m) : Extent<N>(0), mode(m) {}
  Padding(const std::string& m) : Extent<N>(0), mode(m) {}
  template <class I>
  requires std::is_integral_v<I> Padding(I all) : Extent<N>(all) {}
  Padding(std::initializer_list<int64_t> each) : Extent<N>(each) {}
};

}  // namespace tern::nn
