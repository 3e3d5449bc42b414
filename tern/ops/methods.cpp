// Tensor's methods and operators that are operators: each is the free function of the same name.
#include "tern/dispatch/recording.h"
#include "tern/ops.h"
#include "tern/ops/elements.h"

namespace tern {

Tensor Tensor::detach(Loc loc) const { return tern::detach(*this, loc); }
// An integer may go on as a size or an index, which a trace records.
Scalar Tensor::item(Loc loc) const {
  if (!is_integral(dtype())) note_left(*this, "a Python number");
  return tern::item(*this, loc);
}
Scalar Tensor::taken_out(Loc loc) const {
  note_left(*this, is_integral(dtype()) ? "a Python integer"
                   : dtype() == kBool   ? "a Python boolean"
                                        : "a Python float");
  return tern::item(*this, loc);
}

Tensor Tensor::to(DType dtype, bool non_blocking, bool copy, Loc loc) const {
  return tern::to(*this, dtype, non_blocking, copy, {}, loc);
}
Tensor Tensor::to(Device device, Loc loc) const {
  return tern::to(*this, std::nullopt, std::nullopt, device, std::nullopt, false, false, std::nullopt, loc);
}
Tensor Tensor::to(Device device, DType dtype, Loc loc) const {
  return tern::to(*this, device, dtype, false, false, std::nullopt, loc);
}
Tensor Tensor::to(const Tensor& other, Loc loc) const {
  return tern::to(*this, other, false, false, std::nullopt, loc);
}
Tensor Tensor::cpu(Loc loc) const { return to(kCPU, loc); }
Tensor Tensor::clone(Loc loc) const { return tern::clone(*this, std::nullopt, loc); }
Tensor Tensor::contiguous(MemoryFormat format, Loc loc) const { return tern::contiguous(*this, format, loc); }
const Tensor& Tensor::copy_(const Tensor& from, Loc loc) const {
  tern::copy_(*this, from, false, loc);
  return *this;
}
const Tensor& Tensor::fill_(Scalar value, Loc loc) const {
  tern::fill_(*this, value, loc);
  return *this;
}
const Tensor& Tensor::zero_(Loc loc) const {
  tern::zero_(*this, loc);
  return *this;
}

Tensor Tensor::view(Span<const SymInt> sizes, Loc loc) const { return tern::view(*this, sizes, loc); }
Tensor Tensor::reshape(Span<const SymInt> sizes, Loc loc) const { return tern::reshape(*this, sizes, loc); }
Tensor Tensor::flatten(int64_t start, int64_t end, Loc loc) const {
  return tern::flatten(*this, start, end, loc);
}
Tensor Tensor::expand(Span<const SymInt> sizes, Loc loc) const {
  return tern::expand(*this, sizes, false, loc);
}
Tensor Tensor::expand_as(const Tensor& other, Loc loc) const { return tern::expand_as(*this, other, loc); }
Tensor Tensor::permute(Ints dims, Loc loc) const { return tern::permute(*this, dims, loc); }
Tensor Tensor::transpose(int64_t a, int64_t b, Loc loc) const { return tern::transpose(*this, a, b, loc); }
Tensor Tensor::t(Loc loc) const { return tern::t(*this, loc); }
Tensor Tensor::squeeze(Loc loc) const { return tern::squeeze(*this, loc); }
Tensor Tensor::squeeze(int64_t d, Loc loc) const { return tern::squeeze(*this, d, loc); }
Tensor Tensor::unsqueeze(int64_t d, Loc loc) const { return tern::unsqueeze(*this, d, loc); }
Tensor Tensor::select(int64_t d, SymInt index, Loc loc) const { return tern::select(*this, d, index, loc); }
Tensor Tensor::slice(int64_t d, std::optional<SymInt> start, std::optional<SymInt> end, SymInt step,
                     Loc loc) const {
  return tern::slice(*this, d, start, end, step, loc);
}
Tensor Tensor::narrow(int64_t d, SymInt start, SymInt length, Loc loc) const {
  return tern::narrow(*this, d, start, length, loc);
}
Tensor Tensor::index_select(int64_t d, const Tensor& index, Loc loc) const {
  return tern::index_select(*this, d, index, loc);
}
Tensor Tensor::gather(int64_t d, const Tensor& index, Loc loc) const {
  return tern::gather(*this, d, index, false, loc);
}
std::vector<Tensor> Tensor::split(SymInt size, int64_t d, Loc loc) const {
  return tern::split(*this, size, d, loc);
}
std::vector<Tensor> Tensor::chunk(int64_t chunks, int64_t d, Loc loc) const {
  return tern::chunk(*this, chunks, d, loc);
}
std::vector<Tensor> Tensor::unbind(int64_t d, Loc loc) const { return tern::unbind(*this, d, loc); }
Tensor Tensor::operator[](SymInt index) const { return tern::select(*this, 0, index); }

Tensor Tensor::sum(Loc loc) const { return tern::sum(*this, std::nullopt, loc); }
Tensor Tensor::sum(Ints dims, bool keepdim, Loc loc) const {
  return tern::sum(*this, dims, keepdim, std::nullopt, loc);
}
Tensor Tensor::mean(Loc loc) const { return tern::mean(*this, std::nullopt, loc); }
Tensor Tensor::mean(Ints dims, bool keepdim, Loc loc) const {
  return tern::mean(*this, dims, keepdim, std::nullopt, loc);
}
Tensor Tensor::max(Loc loc) const { return tern::max(*this, loc); }
Tensor Tensor::min(Loc loc) const { return tern::min(*this, loc); }
Tensor Tensor::argmax(std::optional<int64_t> d, bool keepdim, Loc loc) const {
  return tern::argmax(*this, d, keepdim, loc);
}
Tensor Tensor::all(Loc loc) const { return tern::all(*this, loc); }
Tensor Tensor::any(Loc loc) const { return tern::any(*this, loc); }
Tensor Tensor::softmax(int64_t d, Loc loc) const { return tern::softmax(*this, d, std::nullopt, loc); }
Tensor Tensor::matmul(const Tensor& other, Loc loc) const { return tern::matmul(*this, other, loc); }
Tensor Tensor::mm(const Tensor& other, Loc loc) const { return tern::mm(*this, other, loc); }
Tensor Tensor::abs(Loc loc) const { return tern::abs(*this, loc); }
Tensor Tensor::neg(Loc loc) const { return tern::neg(*this, loc); }
Tensor Tensor::exp(Loc loc) const { return tern::exp(*this, loc); }
Tensor Tensor::log(Loc loc) const { return tern::log(*this, loc); }
Tensor Tensor::sqrt(Loc loc) const { return tern::sqrt(*this, loc); }
Tensor Tensor::rsqrt(Loc loc) const { return tern::rsqrt(*this, loc); }
Tensor Tensor::sin(Loc loc) const { return tern::sin(*this, loc); }
Tensor Tensor::cos(Loc loc) const { return tern::cos(*this, loc); }
Tensor Tensor::tanh(Loc loc) const { return tern::tanh(*this, loc); }
Tensor Tensor::sigmoid(Loc loc) const { return tern::sigmoid(*this, loc); }
Tensor Tensor::relu(Loc loc) const { return tern::relu(*this, loc); }
Tensor Tensor::pow(Scalar exponent, Loc loc) const { return tern::pow(*this, exponent, loc); }
Tensor Tensor::clamp(std::optional<Scalar> min, std::optional<Scalar> max, Loc loc) const {
  return tern::clamp(*this, min, max, loc);
}
Tensor Tensor::masked_fill(const Tensor& mask, Scalar value, Loc loc) const {
  return tern::masked_fill(*this, mask, value, loc);
}
const Tensor& Tensor::add_(Operand other, Scalar alpha) const {
  tern::add_(*this, other.tensor, alpha, other.loc);
  return *this;
}
const Tensor& Tensor::sub_(Operand other, Scalar alpha) const {
  tern::sub_(*this, other.tensor, alpha, other.loc);
  return *this;
}
const Tensor& Tensor::mul_(Operand other) const {
  tern::mul_(*this, other.tensor, other.loc);
  return *this;
}
const Tensor& Tensor::div_(Operand other) const {
  tern::div_(*this, other.tensor, other.loc);
  return *this;
}
const Tensor& Tensor::relu_(Loc loc) const {
  tern::relu_(*this, loc);
  return *this;
}

Tensor operator+(const Tensor& a, Operand b) { return add(a, b.tensor, 1, b.loc); }
Tensor operator-(const Tensor& a, Operand b) { return sub(a, b.tensor, 1, b.loc); }
Tensor operator*(const Tensor& a, Operand b) { return mul(a, b.tensor, b.loc); }
Tensor operator/(const Tensor& a, Operand b) { return div(a, b.tensor, b.loc); }
Tensor operator+(LeftNumber a, const Tensor& b) { return add(b, wrap_number(a.value), 1, a.loc); }
Tensor operator-(LeftNumber a, const Tensor& b) { return rsub(b, a.value, 1, a.loc); }
Tensor operator*(LeftNumber a, const Tensor& b) { return mul(b, wrap_number(a.value), a.loc); }
Tensor operator/(LeftNumber a, const Tensor& b) {
  return mul(reciprocal(b, a.loc), wrap_number(a.value), a.loc);
}
Tensor operator-(const Tensor& a) { return neg(a); }
// A comparison with a number is the overload for numbers, as in PyTorch; arithmetic takes the number as a
// tensor.
static bool is_number(const Operand& b) { return b.tensor.defined() && b.tensor->wrapped_number; }
Tensor operator==(const Tensor& a, Operand b) {
  return is_number(b) ? eq(a, read_scalar(b.tensor), b.loc) : eq(a, b.tensor, b.loc);
}
Tensor operator!=(const Tensor& a, Operand b) {
  return is_number(b) ? ne(a, read_scalar(b.tensor), b.loc) : ne(a, b.tensor, b.loc);
}
Tensor operator<(const Tensor& a, Operand b) {
  return is_number(b) ? lt(a, read_scalar(b.tensor), b.loc) : lt(a, b.tensor, b.loc);
}
Tensor operator<=(const Tensor& a, Operand b) {
  return is_number(b) ? le(a, read_scalar(b.tensor), b.loc) : le(a, b.tensor, b.loc);
}
Tensor operator>(const Tensor& a, Operand b) {
  return is_number(b) ? gt(a, read_scalar(b.tensor), b.loc) : gt(a, b.tensor, b.loc);
}
Tensor operator>=(const Tensor& a, Operand b) {
  return is_number(b) ? ge(a, read_scalar(b.tensor), b.loc) : ge(a, b.tensor, b.loc);
}

}  // namespace tern
