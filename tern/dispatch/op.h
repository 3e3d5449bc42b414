// Op: an operator as the house sees it: one row with its schema, its functions and its relatives.
#pragma once
#include "tern/base/counter.h"
#include "tern/base/few.h"
#include "tern/base/function.h"
#include "tern/dispatch/schema.h"
#include "tern/tensor/arg.h"

namespace tern {

// What a shape rule says about one output.
struct Shape {
  Dims sizes;
  DType dtype = kFloat;
  Dims strides = {};  // empty: row-major
  Device device = kCPU;

  Shape() = default;
  Shape(Dims s, DType d) : sizes(std::move(s)), dtype(d) {}
  Shape(Span<const SymInt> s, DType d) : sizes(s), dtype(d) {}
  Shape(Dims s, DType d, Dims st) : sizes(std::move(s)), dtype(d), strides(std::move(st)) {}
};
using Shapes = Few<Shape, 3>;

// The outputs a kernel writes into.
using Out = Span<const Tensor>;

struct Op;
struct GradContext;
struct Definition;
using ShapeFn = Shapes (*)(const Op& op, const Arg* args);
using KernelFn = void (*)(const Op& op, const Arg* args, Out out);
using CallFn = void (*)(const Op& op, const Arg* args, Value* results);  // views, dynamic operators, bodies
using GradFn = void (*)(GradContext& context);
using CheckFn = void (*)(const Arg* args);
using ParamsFn = void (*)(const Arg* args,
                          void* params);  // pointwise: numbers for the loop (kernels::Params)

enum OpFlag : uint32_t {
  op_pointwise = 1,  // the generic rule and engine serve it
  op_float = 2,      // integers become the default float
  op_bool = 4,       // the result is bool
  op_view = 8,       // the result is a view of the first argument
  op_dynamic = 16,   // the kernel allocates: the size depends on the data
  op_core = 32,      // core ATen: run_decompositions keeps it
  op_random = 64,    // draws from a generator: never folded, merged or removed by common-subexpression passes
  op_inplace = 128,  // derived or written: mutates its first argument and returns it
  op_out = 256,      // derived: writes into `out`
  op_composite = 512,    // no kernel: the body expands
  op_no_grad = 1024,     // the result never has history (comparisons, argmax)
  op_user = 2048,        // defined at run time
  op_impure = 4096,      // has an effect besides its results: never removed
  op_same_shape = 8192,  // the rule: one output like the first argument
  op_real = 1 << 14,     // pointwise: a complex input gives a real result (abs, angle)
  op_condition =
      1 << 15,  // pointwise: the first argument is a condition and does not take part in promotion (where)
  op_implicit =
      1 << 17,  // a composite of ATen for which we have a kernel all the same (linear): exports expand it
  op_scalars = 1 << 16,  // pointwise: Scalar arguments take part in promotion as numbers (pow, clamp)
};

// Rows are constinit; the schema is parsed when first asked for.
struct Op {
  const char* text;  // the schema as written, without namespace for aten
  uint32_t flags = 0;
  uint8_t arity = 0;    // schema arguments
  uint8_t results = 1;  // schema returns
  ShapeFn shape = nullptr;
  KernelFn kernel = nullptr;
  CallFn call = nullptr;  // @view and @dynamic: does the whole work
  CallFn body = nullptr;  // decomposition
  GradFn grad = nullptr;
  CallFn inverse = nullptr;  // @view: (base, result, args...) -> new base
  ParamsFn params = nullptr;
  const char* loop = nullptr;         // pointwise: the name kernels::find_loop knows
  CheckFn check = nullptr;            // throws for arguments that no shape rule looks at
  uint32_t dtypes = ~uint32_t{0};     // what the kernel takes: bit i is DType i
  const char* kernel_name = nullptr;  // what PyTorch calls it where it refuses another
  uint32_t apart = 0;                 // arguments of whose memory out= may have all, not a part
  uint32_t disjoint = 0;              // and nothing
  uint64_t saves_args = 0;            // which arguments backward needs whole
  uint64_t saves_meta = 0;            // which it needs only the shape and dtype of
  uint32_t saves_results = 0;
  uint64_t differentiable = 0;     // arguments that have a formula
  const Op* functional = nullptr;  // of an in-place or out variant
  const Op* inplace = nullptr;     // of a functional operator
  const Op* out_variant = nullptr;
  const char* onnx = nullptr;              // lowering rules: lines of "Op(args) if condition"
  const char* where = "";                  // "activation.ops:12"
  const Definition* definition = nullptr;  // of a user's operator

  mutable Published<const Schema> parsed;
  mutable Published<void> loops;  // pointwise: resolved loops by dtype

  const Schema& schema() const {
    const Schema* s = parsed.load();
    return s ? *s : parse();
  }
  bool is(uint32_t flag) const { return flags & flag; }
  bool takes(DType d) const { return d == DType::undefined || (dtypes >> static_cast<unsigned>(d) & 1); }
  Symbol name() const { return schema().name; }
  std::string qualified() const { return schema().qualified(); }

 private:
  const Schema& parse() const;
};

// The table of all operators. Look-ups are hashed and thread-safe.
const Op* find_op(Symbol name, Symbol overload = {});  // "aten::add", "Tensor"; nullptr if absent
const Op* find_op(std::string_view qualified);         // "aten::add.Tensor"
const std::vector<const Op*>& overloads(Symbol name);  // in declaration order; empty if unknown
std::vector<const Op*> all_ops();
const Op& get_op(std::string_view qualified);  // throws not_supported, with the nearest names

// A user's operator: the same Op, filled in at run time and kept for the life of the process. It needs a
// kernel or a body; without a shape rule it cannot be exported, without a gradient it ends history. Throws
// when the name is taken.
struct Definition {
  Function<Shapes(const Arg* args)> shape = {};
  Function<void(const Arg* args, Value* results)> kernel = {};  // allocates its results
  Function<void(const Arg* args, Value* results)> body = {};    // in terms of other operators
  Function<void(GradContext& context)> grad = {};
  std::string onnx = {};  // as in the .ops files: "my.domain::Foo(x)"
};
const Op& define(std::string_view schema, Definition definition);

}  // namespace tern
