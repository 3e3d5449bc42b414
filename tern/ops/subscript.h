// Python's subscripts: x[0, 1:5, ..., mask] is subscript(x, {0, Slice{1, 5}, dots, mask}), and
// x[index] = value is assign(x, {index}, value).
#pragma once
#include <initializer_list>
#include <optional>
#include <vector>

#include "tern/tensor/tensor.h"

namespace tern {

struct Slice {
  std::optional<SymInt> start = {}, stop = {};
  SymInt step = 1;
};
struct Dots {};
constexpr Dots dots;  // "...": as many whole dimensions as are left
struct NewDimension {};
constexpr NewDimension new_dimension;  // None: a dimension of size 1

class Index {
 public:
  enum Kind : uint8_t { number, slice, dots, new_dimension, tensor };
  template <class I>
  requires(std::is_integral_v<I> || std::is_same_v<I, SymInt>) Index(I at) : kind(number), at(at) {}
  Index(Slice s) : kind(slice), range(s) {}
  Index(Dots) : kind(dots) {}
  Index(NewDimension) : kind(new_dimension) {}
  Index(const Tensor& t) : kind(tensor), indices(t) {}

  Kind kind;
  SymInt at = 0;
  Slice range = {};
  Tensor indices = {};
};

// Throws IndexError for too many indices and what is out of range.
Tensor subscript(const Tensor& x, std::initializer_list<Index> indices, Loc loc = Loc::here());
// The value is broadcast; leading dimensions of size 1 that it has too many are dropped.
void assign(const Tensor& x, std::initializer_list<Index> indices, const Operand& value,
            Loc loc = Loc::here());

// Row by row along the first dimension: `for (const Tensor& row : each_row(x))`. A trace keeps the number of
// rows it saw, and warns.
std::vector<Tensor> each_row(const Tensor& x, Loc loc = Loc::here());

}  // namespace tern
