// The ladder: how a call finds its way through record, autograd, functional, core and fake down to the
// kernel.
#pragma once
#include "tern/dispatch/op.h"

namespace tern {

// The entry. `args` holds one Arg per schema argument; `results` one Value per schema return (at least one).
void call(const Op& op, const Arg* args, Value* results);
Tensor call1(const Op& op, const Arg* args);  // an operator with one tensor result

// What mounts on a rung. A mode sees each call and may pass it on with `descend`.
class Mode {
 public:
  virtual ~Mode() = default;
  virtual void call(const Op& op, const Arg* args, Value* results) = 0;
  // Tensor::size(d) while tracing: the tracer answers with a symbol that stands for the recorded node.
  virtual SymInt size(const Tensor& t, int64_t d, Loc loc);
  // Tensor::item(): under export an unbacked symbol; nullopt lets the data answer.
  virtual std::optional<Scalar> item(const Tensor& t, Loc loc);
  // The size of a result that depends on data (nonzero): under export an unbacked symbol.
  virtual std::optional<SymInt> unknown_size(Loc loc);
  // On the core rung: whether the call of an operator that has only a body comes here, not those of the body.
  virtual bool keeps(const Op& op) const;
  Mode* below = nullptr;  // what was mounted on this rung before
};

// Goes on below `from`: the rung and those above it are passed by until the call returns.
void descend(Rung from, const Op& op, const Arg* args, Value* results);

// Mounts a mode for a scope. Modes on one rung nest: the innermost sees the call first.
class Mount {
 public:
  Mount(Rung rung, Mode& mode, bool record_sizes = false);
  ~Mount();
  Mount(const Mount&) = delete;

 private:
  ThreadState saved_;
};

// Passes rungs by for a scope: Exclude no_record(rung_record).
class Exclude {
 public:
  explicit Exclude(unsigned rungs) : saved_(thread_state.excluded) { thread_state.excluded |= rungs; }
  ~Exclude() { thread_state.excluded = saved_; }
  Exclude(const Exclude&) = delete;

 private:
  uint8_t saved_;
};

// Gradient mode for a scope.
class GradMode {
 public:
  explicit GradMode(bool on) : saved_(thread_state.grad_enabled) { thread_state.grad_enabled = on; }
  ~GradMode() { thread_state.grad_enabled = saved_; }
  GradMode(const GradMode&) = delete;

 private:
  bool saved_;
};
struct NoGrad : GradMode {
  NoGrad() : GradMode(false) {}
};
struct EnableGrad : GradMode {
  EnableGrad() : GradMode(true) {}
};

// Sets where the user is for the calls of a scope; the outermost wins, so that a layer's own calls keep the
// user's line.
class At {
 public:
  explicit At(Loc loc) : saved_(thread_state.loc) {
    if (!thread_state.loc) thread_state.loc = loc;
  }
  ~At() { thread_state.loc = saved_; }
  At(const At&) = delete;

 private:
  Loc saved_;
};

// The module whose forward runs: a chain from the innermost outwards (nn_module_stack).
struct Scope {
  Symbol path;       // "encoder.layers.0"; empty for the root
  Symbol type_name;  // "torch.nn.modules.linear.Linear"
  const void* module = nullptr;
  const Scope* parent = nullptr;
};
class EnterScope {
 public:
  EnterScope(Symbol path, Symbol type_name, const void* module)
      : scope_{path, type_name, module, thread_state.scope} {
    thread_state.scope = &scope_;
  }
  ~EnterScope() { thread_state.scope = scope_.parent; }
  EnterScope(const EnterScope&) = delete;

 private:
  Scope scope_;
};

// Runs the operator with no rung in between: by the shape rule for fake inputs, else by the kernel. An
// operator that has only a body expands it (its calls start again at the top).
void run_kernel(const Op& op, const Arg* args, Value* results);
// What the rule says for these arguments; for views and dynamic operators by doing it on fake tensors.
Shapes shapes_of(const Op& op, const Arg* args);

// Arguments that arrive as Values (interpreter, Python, script): borrows from `values`, fills in defaults,
// turns numbers into tensors where the schema wants tensors, ints into lists for int[2]. Without keywords the
// values may be all arguments in schema order, keyword-only ones included: that is how graphs hold them.
// Throws TypeError naming operator and argument.
class Bound {
 public:
  Bound(const Op& op, Span<const Value> positional, Span<const std::pair<Symbol, Value>> keywords = {});
  Bound(const Bound&) = delete;
  ~Bound();
  const Arg* args() const;

 private:
  struct Room;
  Room* room_;
};
// Whether the values fit the schema, for choosing an overload.
bool matches(const Schema& schema, Span<const Value> positional,
             Span<const std::pair<Symbol, Value>> keywords);
const Op& resolve(Span<const Op* const> candidates, Span<const Value> positional,
                  Span<const std::pair<Symbol, Value>> keywords);

// The rung of meaning. A quantized tensor is met above the kernels: whether an operator has a rule for it
// besides being a view or a composite, and the call (ops/quantized/rung.cpp).
bool has_quantized_rule(const Op& op);
void quantized_call(const Op& op, const Arg* args, Value* results);
// A nested tensor is met above autograd: its rules compute on the buffer and on the parts, which have
// histories of their own. False: no argument is nested, or the call goes on down the ladder
// (ops/nested/rung.cpp).
bool nested_call(const Op& op, const Arg* args, Value* results, uint8_t bits);

// The autograd rung (autograd/autograd.cpp).
void autograd_call(const Op& op, const Arg* args, Value* results);

}  // namespace tern
