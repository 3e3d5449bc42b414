// What an operator's way to ONNX is made of: a rule in the table (tern/ops/*/*.ops) or a function over a
// Call.
//
// The rules' language. An `onnx` line is `Op(argument, ..., attribute=value, ...) if condition`; the first
// line whose condition holds is used.
//   argument    a nested call; a schema argument by its name; a number; a list in brackets; None
//               A Tensor becomes its value. A number of the rule or a Scalar becomes a constant of the dtype
//               of the first tensor in the same call. int, SymInt and lists become int64 constants (a single
//               int has no dimension). None, and an empty list of dims, leaves the input out.
//   attribute   a number, "text", a list, a schema argument by its name (a bool is 0 or 1), or a type: BOOL
//   INT64 FLOAT ...
//               None leaves it out.
//   condition   comparisons (== != < <= > >=) of constants and schema arguments, joined by `and`, `or`,
//   `not`; `x == None`;
//               is_none(x) is_bool(x) is_integer(x) is_float(x) is_complex(x) of a tensor's dtype; rank(x);
//               opset; "text"
//   domain      my.domain::Op(x) for operators that are not ONNX's.
// For @pointwise operators tensors are cast to the promoted dtype first; elsewhere the first tensor is cast
// to the result's dtype where the ONNX operator keeps its input's. A result of another dtype than the IR says
// is cast at the end.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tern/ir/graph.h"
#include "tern/onnx/model.h"

namespace tern::onnx {

class Driver;

// A value of the ONNX graph that is being written.
struct Ref {
  std::string name = {};  // empty: an input that is left out
  DType dtype = DType::undefined;
  int rank = -1;  // -1: unknown
  explicit operator bool() const { return !name.empty(); }
};

// A size: known now, or computed by the graph (int64, of no or one dimension).
struct Size {
  int64_t value = 0;
  Ref ref = {};
  bool is_static() const { return ref.name.empty(); }
};

using Inputs = std::vector<Ref>;
using Attributes = std::vector<Attribute>;

// One call that is being lowered. Arguments are counted in schema order; reading one that must be a constant
// and is not refuses the call.
class Call {
 public:
  Call(Driver& driver, const ir::Node& node) : driver_(driver), node_(node) {}

  const ir::Node& node() const { return node_; }
  int opset() const;

  size_t size() const { return node_.inputs().size(); }
  bool is_none(size_t i) const;
  bool is_constant(size_t i) const;
  Ref tensor(size_t i);                // a number becomes a constant of its own dtype
  std::vector<Ref> tensors(size_t i);  // of a list; None entries are empty
  int64_t integer(size_t i) const;
  double number(size_t i) const;
  bool flag(size_t i) const;
  std::string text(size_t i) const;
  std::vector<int64_t> ints(size_t i) const;  // a single int is a list of one
  Scalar scalar(size_t i) const;
  Size extent(size_t i);                            // SymInt
  std::vector<Size> extents(size_t i);              // SymInt[]
  DType dtype_argument(size_t i) const;             // ScalarType?; undefined for None
  const ir::Type* type(size_t i) const;             // of a tensor argument; may know nothing
  int64_t rank(size_t i);                           // refuses where it is not known
  std::optional<int64_t> dim(size_t i, int64_t d);  // where it is static
  int64_t axis(size_t i, size_t tensor);  // an int argument, counted from the front of that tensor's dims

  const ir::Type* result_type(size_t k = 0) const;
  DType dtype() const;  // of the first result; undefined if unknown
  std::vector<Size> result_extents(
      size_t k = 0);  // the result's sizes as the IR knows them; refuses where it does not

  // The dtype of the result is the first input's unless given; Casts, comparisons, Shape, ... know their own.
  Ref emit(std::string_view op, Inputs inputs, Attributes attributes = {}, DType dtype = DType::undefined);
  std::vector<Ref> emit_many(std::string_view op, Inputs inputs, Attributes attributes, size_t outputs);
  Ref cast(const Ref& value, DType dtype);  // itself where it already is
  Ref constant(const Tensor& value);
  Ref constant(Span<const int64_t> values);                             // one dimension, int64
  Ref constant(const Scalar& value, DType dtype, bool vector = false);  // no dimension, or one of size one
  Ref shape(const Ref& value);                                          // int64
  Ref size_of(const Ref& value, int64_t d);                             // int64[1]
  Ref join(Span<const Size> sizes);                                     // int64, one dimension
  // As Reshape's second input: one dynamic size becomes -1. A size of 0 needs allowzero: see reshape().
  Ref reshape(const Ref& value, std::vector<Size> sizes);
  Ref as_vector(const Size& size);  // int64[1]
  Ref as_scalar(const Size& size);  // int64
  Ref squeeze(const Ref& value, std::vector<int64_t> axes);
  Ref unsqueeze(const Ref& value, std::vector<int64_t> axes);
  Ref transpose(const Ref& value, std::vector<int64_t> perm);

  void set(const Ref& value, size_t k = 0);
  void set_list(std::vector<Ref> values, size_t k = 0);  // a Tensor[] result
  void set_size(const Size& value, size_t k = 0);
  [[noreturn]] void refuse(std::string_view why) const;  // not_supported

 private:
  friend class Driver;
  Driver& driver_;
  const ir::Node& node_;
};

struct Lowering {
  std::string_view op;  // "aten::convolution", with the overload: "aten::slice.Tensor"
  void (*lower)(Call& call);
};

// One table a family, in tern/ops/<family>/onnx.cpp; lowerings.cpp names them all.
Span<const Lowering> conv_lowerings();
Span<const Lowering> pool_lowerings();
Span<const Lowering> norm_lowerings();
Span<const Lowering> view_lowerings();
Span<const Lowering> index_lowerings();
Span<const Lowering> join_lowerings();
Span<const Lowering> linear_lowerings();
Span<const Lowering> reduce_lowerings();
Span<const Lowering> creation_lowerings();
Span<const Lowering> arithmetic_lowerings();
Span<const Lowering> activation_lowerings();
Span<const Lowering> attention_lowerings();
Span<const Lowering> sort_lowerings();
Span<const Lowering> copy_lowerings();
Span<const Lowering> rnn_lowerings();
Span<const Lowering> quant_lowerings();
Span<const Lowering> embedding_bag_lowerings();
Span<const Lowering> complex_lowerings();  // of operators that read or give complex numbers
const Lowering* find_lowering(std::string_view qualified);
const Lowering* find_complex_lowering(std::string_view qualified);
bool can_lower(const Op& op);  // a rule or a function exists

}  // namespace tern::onnx
