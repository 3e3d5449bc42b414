// The families of builtins and what they share. Internal to this room.
#pragma once
#include "tern/ir/builtins.h"
#include "tern/ir/type.h"

namespace tern::ir {

struct BuiltinEntry {
  std::string_view name;
  Builtin function;
  bool effect = false;
};
Span<const BuiltinEntry> number_builtins();
Span<const BuiltinEntry> tensor_builtins();
Span<const BuiltinEntry> container_builtins();
Span<const BuiltinEntry> text_builtins();

namespace builtin {

using V = tern::Value;
using Args = Span<const V>;

void need(Args in, size_t at_least, size_t at_most, std::string_view what);
[[noreturn]] void unsupported(std::string_view what, Args in);
// A tensor with one element stands for its number.
V number(const V& v);
SymInt integer(const V& v);
double real(const V& v);
bool any_complex(const V& a, const V& b);
bool any_float(const V& a, const V& b);
bool same(const V& a, const V& b);
int order(const V& a, const V& b);  // Python's < for strings and sequences
V add(Args in);
V wrapping_add(Args in);
V wrapping_sub(Args in);
V wrapping_mul(Args in);
V real_floor_quotient(Args in);
V real_remainder(Args in);
V grad_of_tensor(Args in);
// What needs gradients or operators: the room of scripts has them, for this one knows neither.
V gradients(Args in);
V run_backward(Args in);
V retains_grad(Args in);
V output_number(Args in);
V set_data(Args in);
V enter_record_of_tensor(Args in);
V to_dense(Args in);
V old_interpolate(Args in);
V old_upsample(Args in);
V old_upsample_bilinear(Args in);
V old_upsample_nearest(Args in);
std::string tensor_text(const Tensor& t);  // as PyTorch prints it
V device_of_tensor(Args in);
V device_type(Args in);
V device_index(Args in);
V index_in_text(Args in);
V count_in_text(Args in);
V real_power(Args in);
V real_quotient(Args in);
V real_round(Args in);
std::string text_of(const V& v);  // str(v)

}  // namespace builtin
}  // namespace tern::ir
