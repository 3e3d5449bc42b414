// The local rewrites that hold whatever comes around them.
#include "tern/ir/rewrite.h"

namespace tern::ir {
namespace {

// x and the result are known to have the same dtype: a number did not promote it.
bool keeps_dtype(const Match& m) {
  DType x = m.type("x")->dtype(), r = m.root.output().type()->dtype();
  return x != DType::undefined && x == r;
}
bool already_that_dtype(const Match& m) {
  DType x = m.type("x")->dtype();
  return x != DType::undefined && m.int_of("d") == static_cast<int64_t>(x);
}
bool same_known_sizes(const Match& m) {
  const Type *x = m.type("x"), *r = m.root.output().type();
  if (!x->is_tensor() || !x->has_sizes() || !r->has_sizes() || x->sizes().size() != r->sizes().size())
    return false;
  for (size_t i = 0; i < x->sizes().size(); ++i)
    if (x->sizes()[i].bits() != r->sizes()[i].bits() || x->sizes()[i].bits() == unknown_dim.bits())
      return false;
  return true;
}
bool rank_known(const Match& m, int64_t& rank) {
  const Type* x = m.type("x");
  if (!x->is_tensor() || !x->has_sizes()) return false;
  rank = static_cast<int64_t>(x->sizes().size());
  return true;
}
// transpose(transpose(x, a, b), c, d) where {a, b} = {c, d}, negative dims counted from the end.
bool same_dims_swapped(const Match& m) {
  int64_t missing = INT64_MIN;
  int64_t a = m.int_of("a", missing), b = m.int_of("b", missing), c = m.int_of("c", missing),
          d = m.int_of("d", missing);
  if (a == missing || b == missing || c == missing || d == missing) return false;
  int64_t rank = 0;
  if (rank_known(m, rank))
    for (int64_t* dim : {&a, &b, &c, &d}) *dim += *dim < 0 ? rank : 0;
  return (a == c && b == d) || (a == d && b == c);
}
bool contiguous_already(const Match& m) {
  const Type* x = m.type("x");
  if (!x->is_tensor() || !x->has_strides()) return false;
  int64_t expected = 1;
  for (size_t i = x->sizes().size(); i-- > 0;) {
    SymInt size = x->sizes()[i], stride = x->strides()[i];
    if (!size.is_int() || size.as_int() < 0 || !stride.is_int() || stride.as_int() != expected) return false;
    expected *= size.as_int();
  }
  return true;
}

constexpr Rule rules[] = {
    {"mul_one", "graph(%x):\n %r = aten::mul.Scalar(%x, 1)\n return (%r)", "graph(%x):\n return (%x)",
     keeps_dtype},
    {"mul_one_tensor", "graph(%x):\n %r = aten::mul.Tensor(%x, 1)\n return (%r)", "graph(%x):\n return (%x)",
     keeps_dtype},
    {"mul_one_float", "graph(%x):\n %r = aten::mul.Tensor(%x, 1.0)\n return (%r)", "graph(%x):\n return (%x)",
     keeps_dtype},
    {"div_one", "graph(%x):\n %r = aten::div.Tensor(%x, 1)\n return (%r)", "graph(%x):\n return (%x)",
     keeps_dtype},
    {"div_one_float", "graph(%x):\n %r = aten::div.Tensor(%x, 1.0)\n return (%r)", "graph(%x):\n return (%x)",
     keeps_dtype},
    {"add_zero", "graph(%x, %alpha):\n %r = aten::add.Tensor(%x, 0, alpha=%alpha)\n return (%r)",
     "graph(%x):\n return (%x)", keeps_dtype},
    {"add_zero_scalar", "graph(%x, %alpha):\n %r = aten::add.Scalar(%x, 0, %alpha)\n return (%r)",
     "graph(%x):\n return (%x)", keeps_dtype},
    {"sub_zero", "graph(%x, %alpha):\n %r = aten::sub.Tensor(%x, 0, alpha=%alpha)\n return (%r)",
     "graph(%x):\n return (%x)", keeps_dtype},
    {"pow_one", "graph(%x):\n %r = aten::pow.Tensor_Scalar(%x, 1)\n return (%r)", "graph(%x):\n return (%x)",
     keeps_dtype},
    {"neg_neg", "graph(%x):\n %n = aten::neg(%x)\n %r = aten::neg(%n)\n return (%r)",
     "graph(%x):\n return (%x)"},
    {"transpose_transpose",
     "graph(%x, %a, %b, %c, %d):\n %t = aten::transpose.int(%x, %a, %b)\n %r = aten::transpose.int(%t, %c, "
     "%d)\n return (%r)",
     "graph(%x):\n return (%x)", same_dims_swapped},
    {"t_t", "graph(%x):\n %t = aten::t(%x)\n %r = aten::t(%t)\n return (%r)", "graph(%x):\n return (%x)"},
    {"view_view",
     "graph(%x, %s : int[], %u : int[]):\n %v = aten::view(%x, %s)\n %r = aten::view(%v, %u)\n return (%r)",
     "graph(%x, %u : int[]):\n %r = aten::view(%x, %u)\n return (%r)"},
    {"reshape_reshape",
     "graph(%x, %s, %u):\n %v = aten::reshape(%x, %s)\n %r = aten::reshape(%v, %u)\n return (%r)",
     "graph(%x, %u : int[]):\n %r = aten::reshape(%x, %u)\n return (%r)"},
    {"view_same", "graph(%x, %s : int[]):\n %r = aten::view(%x, %s)\n return (%r)",
     "graph(%x):\n return (%x)", same_known_sizes},
    {"reshape_same", "graph(%x, %s):\n %r = aten::reshape(%x, %s)\n return (%r)", "graph(%x):\n return (%x)",
     same_known_sizes},
    {"expand_same", "graph(%x, %s, %i):\n %r = aten::expand(%x, %s, implicit=%i)\n return (%r)",
     "graph(%x):\n return (%x)", same_known_sizes},
    {"cast_same", "graph(%x, %d, %n, %f):\n %r = aten::to.dtype(%x, %d, %n, False, %f)\n return (%r)",
     "graph(%x):\n return (%x)", already_that_dtype},
    {"contiguous_same", "graph(%x):\n %r = aten::contiguous(%x, memory_format=0)\n return (%r)",
     "graph(%x):\n return (%x)", contiguous_already},
    {"dropout_eval", "graph(%x, %p):\n %r = aten::dropout(%x, %p, False)\n return (%r)",
     "graph(%x):\n return (%x)"},
    {"feature_dropout_eval", "graph(%x, %p):\n %r = aten::feature_dropout(%x, %p, False)\n return (%r)",
     "graph(%x):\n return (%x)"},
    {"alpha_dropout_eval", "graph(%x, %p):\n %r = aten::alpha_dropout(%x, %p, False)\n return (%r)",
     "graph(%x):\n return (%x)"},
    {"feature_alpha_dropout_eval",
     "graph(%x, %p):\n %r = aten::feature_alpha_dropout(%x, %p, False)\n return (%r)",
     "graph(%x):\n return (%x)"},
    {"slice_all", "graph(%x, %d):\n %r = aten::slice.Tensor(%x, %d, None, None, 1)\n return (%r)",
     "graph(%x):\n return (%x)"},
    {"slice_from_start",
     "graph(%x, %d):\n %r = aten::slice.Tensor(%x, %d, 0, 9223372036854775807, 1)\n return (%r)",
     "graph(%x):\n return (%x)"},
    {"relu_relu", "graph(%x):\n %a = aten::relu(%x)\n %r = aten::relu(%a)\n return (%r)",
     "graph(%x):\n %r = aten::relu(%x)\n return (%r)"},
};

}  // namespace

Span<const Rule> peephole_rules() { return rules; }

bool peephole(Graph& graph, const PassOptions& options) {
  static const RuleSet* set = new RuleSet(rules);
  return set->apply(graph, options) > 0;
}

}  // namespace tern::ir
