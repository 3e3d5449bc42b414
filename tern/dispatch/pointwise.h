// Elementwise operators: broadcasting, type promotion and the way to the kernels' loops, once for all of
// them.
#pragma once
#include "tern/dispatch/op.h"

namespace tern {

namespace kernels {
struct Params;
}
void set_param(kernels::Params& params, int k,
               const Arg& a);  // number k for the loop; None leaves the default

// torch.result_type over the tensors among the arguments: dimensioned tensors outrank zero-dim ones, which
// outrank numbers.
DType result_type(Span<const Tensor> tensors);
// The common size; throws PyTorch's "The size of tensor a (3) must match the size of tensor b (4) at
// non-singleton dimension 1".
Dims broadcast_sizes(Span<const SymInt> a, Span<const SymInt> b);

Shape pointwise_shape(const Op& op, const Arg* args);
// Real inputs of one dtype, and numbers that do not change it: straight to the loop, into a new tensor or
// into `into`. False, with nothing done, when the general way is needed. Precondition: no input is fake.
bool pointwise_fast(const Op& op, const Arg* args, const Tensor* into, Value* results);
// Computes in the promoted type and writes into `out`, casting. Throws '"op" not implemented for 'Bool''.
void pointwise_into(const Op& op, const Arg* args, const Tensor& out);

// '"add_stub" not implemented for 'UInt16'': what a kernel says of a type it does not take.
[[noreturn]] void refuse_dtype(const Op& op, DType d);

// Runs a named loop over tensors, with casts and broadcasting, in the type they promote to: for kernels whose
// loop depends on a string or an option.
void run_loop(const char* loop, Span<const Tensor> inputs, const Tensor& out,
              Span<const Scalar> numbers = {});

// A shape like this tensor's: sizes, dtype and, where it is dense, its order of dimensions.
Shape like(const Tensor& t, DType dtype = DType::undefined);
void copy_elements(const Tensor& from, const Tensor& to);  // casts and broadcasts; real tensors
void fill_elements(const Tensor& t, const Scalar& value);
void resize_output(const Tensor& out, Span<const SymInt> sizes);  // what out= does

}  // namespace tern
