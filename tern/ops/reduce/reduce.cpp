// Shape rules and kernels of the reductions: which dims go, the type that is added up in, and the call of the
// loop.
#include <cmath>

#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"
#include "tern/kernels/reduce.h"
#include "tern/ops.h"
#include "tern/ops/formulas.h"
#include "tern/ops/reduce.args.h"

namespace tern {
namespace {

using kernels::Reduction;

Shape reduced(const Tensor& self, Ints dims, bool keepdim, DType dtype) {
  return Shape(reduced_sizes(self.sizes(), dim_mask(dims, self.dim()), keepdim), dtype);
}

// The input in the type it is to be reduced in.
Tensor cast_input(const Tensor& self, DType dtype) {
  if (dtype == self.dtype()) return self;
  Tensor t = make_tensor(self.sizes(), dtype);
  copy_elements(self, t);
  return t;
}

void run(Reduction op, const Tensor& self, Ints dims, const Tensor& out, double p = 0,
         const Tensor& mean = {}) {
  if (out.int_numel() == 0) return;
  uint64_t mask = dim_mask(dims, self.dim());
  SmallVector<int64_t, 6> strides(self.dim(), 0);
  bool keepdim = out.dim() == self.dim();
  for (int64_t d = 0, k = 0; d < self.dim(); ++d) {
    bool goes = mask >> d & 1;
    if (!goes) strides[d] = out.int_strides()[keepdim ? d : k];
    k += keepdim || !goes;
  }
  kernels::ReduceShape shape{static_cast<int>(self.dim()), self.int_sizes(), self.int_strides(),
                             strides.data(), mask};
  kernels::reduce(op, shape, self.dtype(), self.data(), out.dtype(), out.data(), p,
                  mean.defined() ? mean.data() : nullptr);
}

DType sum_type(const Tensor& self, std::optional<DType> dtype) {
  return dtype ? *dtype : is_integral(self.dtype(), true) ? kLong : self.dtype();
}

DType mean_type(const Tensor& self, std::optional<DType> dtype) {
  DType d = dtype.value_or(self.dtype());
  if (!is_floating(d) && !is_complex(d)) {
    if (dtype)
      failf(
          "mean(): could not infer output dtype. Optional dtype must be either a floating point or complex "
          "dtype. Got: {}",
          script_name(d));
    failf(
        "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
        "Got: {}",
        script_name(d));
  }
  return d;
}

// Sums: a dtype that was asked for is what the elements are cast to first.
void add_up(Reduction op, const Tensor& self, Ints dims, std::optional<DType> dtype, const Tensor& out) {
  bool widened = is_integral(self.dtype(), true) && out.dtype() == kLong;
  run(op, dtype && !widened ? cast_input(self, *dtype) : self, dims, out);
}

void check_not_empty(const char* name, const Tensor& self, Ints dims) {
  if (self.numel().is_symbolic() || self.numel().as_int() != 0) return;
  if (dims.empty())
    failf(
        "{}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim "
        "with the 'dim' argument.",
        name);
  for (int64_t d : dims)
    if (self.dim() && self.sizes()[wrap_dim(d, self.dim())] == 0)
      failf(ErrorKind::index, "{}(): Expected reduction dim {} to have non-zero size.", name, d);
}

Shapes extreme(const char* name, const Tensor& self, Ints dims, bool keepdim, DType dtype) {
  if (self.is_complex())
    failf(ErrorKind::not_supported, "\"{}\" not implemented for '{}'", name, script_name(self.dtype()));
  check_not_empty(name, self, dims);
  return {reduced(self, dims, keepdim, dtype)};
}

Shapes extreme_with_index(const char* name, const Tensor& self, int64_t dim, bool keepdim) {
  Shapes s = extreme(name, self, dim, keepdim, self.dtype());
  s.emplace_back(s[0].sizes, kLong);
  return s;
}

// No dimension at all: each element is an answer of its own. Other reductions take all dimensions then.
bool by_element(const Tensor& self, Ints dims) { return dims.has_value() && dims.empty() && self.dim() > 0; }

DType truth_type(const Tensor& self) { return self.dtype() == kByte ? kByte : kBool; }

Shapes truth_shape(const Tensor& self, Ints dims, bool keepdim) {
  if (by_element(self, dims)) return {like(self, truth_type(self))};
  return {reduced(self, dims, keepdim, truth_type(self))};
}

// uint8 stays uint8, with 0 and 1.
void truth(Reduction op, const Tensor& self, Ints dims, const Tensor& out) {
  if (by_element(self, dims)) return run_loop("ne", {self, wrap_number(0)}, out);
  if (out.dtype() == kBool) return run(op, self, dims, out);
  Tensor answer = make_tensor(out.sizes(), kBool);
  run(op, self, dims, answer);
  copy_elements(answer, out);
}

double correction_of(const std::optional<Scalar>& correction) {
  return correction ? correction->to_double() : 1;
}

Shape moment(const char* name, const Tensor& self, Ints dims, bool keepdim) {
  if (!self.is_floating_point() && !self.is_complex())
    failf("{} only support floating point and complex dtypes", name);
  return reduced(self, dims, keepdim, to_real(self.dtype()));
}

Shapes moment_and_mean(const char* name, const Tensor& self, Ints dims, bool keepdim) {
  Shape s = moment(name, self, dims, keepdim);
  return {s, Shape(s.sizes, self.dtype())};
}

// One moment and the mean; complex numbers have a mean of another type, which is made apart.
void moments(Reduction both, Reduction one, const Tensor& self, Ints dims, double correction, Out out) {
  if (!self.is_complex()) return run(both, self, dims, out[0], correction, out[1]);
  run(one, self, dims, out[0], correction);
  run(Reduction::mean, self, dims, out[1]);
}

Shapes norm_shape(const char* name, const Tensor& self, const Scalar& p, Ints dims, bool keepdim,
                  std::optional<DType> dtype) {
  if (!self.is_floating_point() && !self.is_complex())
    failf("{}: Expected a floating point or complex tensor as input. Got {}", name,
          script_name(self.dtype()));
  if (dtype && !is_floating(*dtype) && !is_complex(*dtype))
    failf("{}: dtype should be floating point or complex, but got {}", name, script_name(*dtype));
  if (dtype && is_complex(*dtype) != self.is_complex())
    failf("linalg.vector_norm: dtype should be {0} for {0} inputs, but got {1}",
          self.is_complex() ? "complex" : "real", script_name(*dtype));
  if (dtype && promote(self.dtype(), *dtype) != *dtype)
    failf(
        "linalg.vector_norm: the dtype of the input ({}) should be convertible without narrowing to the "
        "specified dtype ({})",
        script_name(self.dtype()), script_name(*dtype));
  double order = p.to_double();
  if (order < 0 || std::isinf(order)) {
    uint64_t mask = dim_mask(dims, self.dim());
    for (int64_t d = 0; d < self.dim(); ++d)
      if ((mask >> d & 1) && self.sizes()[d].is_int() && self.sizes()[d].as_int() == 0)
        failf(
            "{} cannot compute the {} norm on an empty tensor because the operation does not have an "
            "identity",
            name, p.str());
  }
  return {reduced(self, dims, keepdim, to_real(dtype.value_or(self.dtype())))};
}

void norm_into(const Tensor& self, const Scalar& p, Ints dims, std::optional<DType> dtype,
               const Tensor& out) {
  run(Reduction::norm, dtype ? cast_input(self, *dtype) : self, dims, out, p.to_double());
}

void check_scan(const Tensor& self, int64_t dim) { wrap_dim(dim, self.dim()); }

void run_scan(kernels::Scan op, const Tensor& self, int64_t dim, const Tensor& out) {
  if (out.int_numel() == 0) return;
  if (self.dim() == 0) return copy_elements(self, out);
  kernels::scan(op, static_cast<int>(self.dim()), self.int_sizes(),
                static_cast<int>(wrap_dim(dim, self.dim())), self.dtype(), self.data(), self.int_strides(),
                out.dtype(), out.data(), out.int_strides());
}

}  // namespace

Shapes shape_sum(const args::sum& a) { return {reduced(a.self, {}, false, sum_type(a.self, a.dtype))}; }
void kernel_sum(const args::sum& a, Out out) { add_up(Reduction::sum, a.self, {}, a.dtype, out[0]); }
Shapes shape_sum_dim_IntList(const args::sum_dim_IntList& a) {
  return {reduced(a.self, a.dim, a.keepdim, sum_type(a.self, a.dtype))};
}
void kernel_sum_dim_IntList(const args::sum_dim_IntList& a, Out out) {
  add_up(Reduction::sum, a.self, a.dim, a.dtype, out[0]);
}
Shapes shape_mean(const args::mean& a) { return {reduced(a.self, {}, false, mean_type(a.self, a.dtype))}; }
void kernel_mean(const args::mean& a, Out out) { add_up(Reduction::mean, a.self, {}, a.dtype, out[0]); }
Shapes shape_mean_dim(const args::mean_dim& a) {
  return {reduced(a.self, a.dim, a.keepdim, mean_type(a.self, a.dtype))};
}
void kernel_mean_dim(const args::mean_dim& a, Out out) {
  add_up(Reduction::mean, a.self, a.dim, a.dtype, out[0]);
}
Shapes shape_prod(const args::prod& a) { return {reduced(a.self, {}, false, sum_type(a.self, a.dtype))}; }
void kernel_prod(const args::prod& a, Out out) { add_up(Reduction::prod, a.self, {}, a.dtype, out[0]); }
Shapes shape_prod_dim_int(const args::prod_dim_int& a) {
  return {reduced(a.self, a.dim, a.keepdim, sum_type(a.self, a.dtype))};
}
void kernel_prod_dim_int(const args::prod_dim_int& a, Out out) {
  add_up(Reduction::prod, a.self, a.dim, a.dtype, out[0]);
}

Shapes shape_amax(const args::amax& a) { return extreme("amax", a.self, a.dim, a.keepdim, a.self.dtype()); }
void kernel_amax(const args::amax& a, Out out) { run(Reduction::amax, a.self, a.dim, out[0]); }
Shapes shape_amin(const args::amin& a) { return extreme("amin", a.self, a.dim, a.keepdim, a.self.dtype()); }
void kernel_amin(const args::amin& a, Out out) { run(Reduction::amin, a.self, a.dim, out[0]); }
Shapes shape_aminmax(const args::aminmax& a) {
  if (!a.dim && surely_eq(a.self.numel(), 0))
    fail("aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity.");
  Shape s = extreme("aminmax", a.self, dims_of(a.dim), a.keepdim, a.self.dtype())[0];
  return {s, s};
}
void kernel_aminmax(const args::aminmax& a, Out out) {
  run(Reduction::amin, a.self, dims_of(a.dim), out[0]);
  run(Reduction::amax, a.self, dims_of(a.dim), out[1]);
}
Shapes shape_max(const args::max& a) { return extreme("max", a.self, {}, false, a.self.dtype()); }
void kernel_max(const args::max& a, Out out) { run(Reduction::amax, a.self, {}, out[0]); }
Shapes shape_min(const args::min& a) { return extreme("min", a.self, {}, false, a.self.dtype()); }
void kernel_min(const args::min& a, Out out) { run(Reduction::amin, a.self, {}, out[0]); }
Shapes shape_max_dim(const args::max_dim& a) { return extreme_with_index("max", a.self, a.dim, a.keepdim); }
void kernel_max_dim(const args::max_dim& a, Out out) {
  run(Reduction::amax, a.self, a.dim, out[0]);
  run(Reduction::argmax, a.self, a.dim, out[1]);
}
Shapes shape_min_dim(const args::min_dim& a) { return extreme_with_index("min", a.self, a.dim, a.keepdim); }
void kernel_min_dim(const args::min_dim& a, Out out) {
  run(Reduction::amin, a.self, a.dim, out[0]);
  run(Reduction::argmin, a.self, a.dim, out[1]);
}
Shapes shape_argmax(const args::argmax& a) {
  return extreme("argmax", a.self, dims_of(a.dim), a.keepdim, kLong);
}
void kernel_argmax(const args::argmax& a, Out out) { run(Reduction::argmax, a.self, dims_of(a.dim), out[0]); }
Shapes shape_argmin(const args::argmin& a) {
  return extreme("argmin", a.self, dims_of(a.dim), a.keepdim, kLong);
}
void kernel_argmin(const args::argmin& a, Out out) { run(Reduction::argmin, a.self, dims_of(a.dim), out[0]); }

Shapes shape_any(const args::any& a) { return {reduced(a.self, {}, false, truth_type(a.self))}; }
void kernel_any(const args::any& a, Out out) { truth(Reduction::any, a.self, {}, out[0]); }
Shapes shape_any_dim(const args::any_dim& a) {
  return {reduced(a.self, a.dim, a.keepdim, truth_type(a.self))};
}
void kernel_any_dim(const args::any_dim& a, Out out) { truth(Reduction::any, a.self, a.dim, out[0]); }
Shapes shape_any_dims(const args::any_dims& a) { return truth_shape(a.self, a.dim, a.keepdim); }
void kernel_any_dims(const args::any_dims& a, Out out) { truth(Reduction::any, a.self, a.dim, out[0]); }
Shapes shape_all(const args::all& a) { return {reduced(a.self, {}, false, truth_type(a.self))}; }
void kernel_all(const args::all& a, Out out) { truth(Reduction::all, a.self, {}, out[0]); }
Shapes shape_all_dim(const args::all_dim& a) {
  return {reduced(a.self, a.dim, a.keepdim, truth_type(a.self))};
}
void kernel_all_dim(const args::all_dim& a, Out out) { truth(Reduction::all, a.self, a.dim, out[0]); }
Shapes shape_all_dims(const args::all_dims& a) { return truth_shape(a.self, a.dim, a.keepdim); }
void kernel_all_dims(const args::all_dims& a, Out out) { truth(Reduction::all, a.self, a.dim, out[0]); }
Shapes shape_count_nonzero(const args::count_nonzero& a) {
  return {reduced(a.self, dims_of(a.dim), false, kLong)};
}
void kernel_count_nonzero(const args::count_nonzero& a, Out out) {
  run(Reduction::count_nonzero, a.self, dims_of(a.dim), out[0]);
}
Shapes shape_count_nonzero_dim_IntList(const args::count_nonzero_dim_IntList& a) {
  return {reduced(a.self, a.dim, false, kLong)};
}
void kernel_count_nonzero_dim_IntList(const args::count_nonzero_dim_IntList& a, Out out) {
  run(Reduction::count_nonzero, a.self, a.dim, out[0]);
}

Shapes shape_var_correction(const args::var_correction& a) {
  return {moment("var", a.self, a.dim, a.keepdim)};
}
void kernel_var_correction(const args::var_correction& a, Out out) {
  run(Reduction::var, a.self, a.dim, out[0], correction_of(a.correction));
}
Shapes shape_std_correction(const args::std_correction& a) {
  return {moment("std", a.self, a.dim, a.keepdim)};
}
void kernel_std_correction(const args::std_correction& a, Out out) {
  run(Reduction::std_, a.self, a.dim, out[0], correction_of(a.correction));
}
Shapes shape_var_mean_correction(const args::var_mean_correction& a) {
  return moment_and_mean("var_mean", a.self, a.dim, a.keepdim);
}
void kernel_var_mean_correction(const args::var_mean_correction& a, Out out) {
  moments(Reduction::var_mean, Reduction::var, a.self, a.dim, correction_of(a.correction), out);
}
Shapes shape_std_mean_correction(const args::std_mean_correction& a) {
  return moment_and_mean("std_mean", a.self, a.dim, a.keepdim);
}
void kernel_std_mean_correction(const args::std_mean_correction& a, Out out) {
  moments(Reduction::std_mean, Reduction::std_, a.self, a.dim, correction_of(a.correction), out);
}

Shapes shape_linalg_vector_norm(const args::linalg_vector_norm& a) {
  return norm_shape("linalg.vector_norm", a.self, a.ord, a.dim, a.keepdim, a.dtype);
}
void kernel_linalg_vector_norm(const args::linalg_vector_norm& a, Out out) {
  norm_into(a.self, a.ord, a.dim, a.dtype, out[0]);
}
Shapes shape_norm_Scalar(const args::norm_Scalar& a) {
  return norm_shape("norm", a.self, a.p, {}, false, {});
}
void kernel_norm_Scalar(const args::norm_Scalar& a, Out out) { norm_into(a.self, a.p, {}, {}, out[0]); }
Shapes shape_norm_ScalarOpt_dim(const args::norm_ScalarOpt_dim& a) {
  return norm_shape("norm", a.self, a.p.value_or(2), a.dim, a.keepdim, {});
}
void kernel_norm_ScalarOpt_dim(const args::norm_ScalarOpt_dim& a, Out out) {
  norm_into(a.self, a.p.value_or(2), a.dim, {}, out[0]);
}
Shapes shape_norm_ScalarOpt_dim_dtype(const args::norm_ScalarOpt_dim_dtype& a) {
  return norm_shape("norm", a.self, a.p.value_or(2), a.dim, a.keepdim, a.dtype);
}
void kernel_norm_ScalarOpt_dim_dtype(const args::norm_ScalarOpt_dim_dtype& a, Out out) {
  norm_into(a.self, a.p.value_or(2), a.dim, a.dtype, out[0]);
}
Shapes shape_norm_ScalarOpt_dtype(const args::norm_ScalarOpt_dtype& a) {
  return norm_shape("norm", a.self, a.p.value_or(2), {}, false, a.dtype);
}
void kernel_norm_ScalarOpt_dtype(const args::norm_ScalarOpt_dtype& a, Out out) {
  norm_into(a.self, a.p.value_or(2), {}, a.dtype, out[0]);
}
Shapes shape_logsumexp(const args::logsumexp& a) {
  DType d = is_integral(a.self.dtype(), true) ? default_dtype() : a.self.dtype();
  return {reduced(a.self, a.dim, a.keepdim, d)};
}
void kernel_logsumexp(const args::logsumexp& a, Out out) {
  if (a.self.is_complex()) {  // the largest real part comes out of the sum
    NoGrad no_grad;
    Tensor largest = a.self.int_numel() ? amax(select(view_as_real(a.self), -1, 0), a.dim, true) : Tensor();
    if (!largest.defined()) return fill_elements(out[0], Scalar(-INFINITY));
    largest = where(isinf(largest), 0, largest);
    Tensor total = log(sum(exp(a.self - largest), a.dim, true)) + largest;
    return copy_elements(reshape(total, out[0].sizes()), out[0]);
  }
  run(Reduction::logsumexp, cast_input(a.self, out[0].dtype()), a.dim, out[0]);
}

// Into bool nothing is added up; PyTorch fills a tensor without dimensions before it looks at the type.
static bool filled_without_scan(const char* kernel, const Tensor& self, const Tensor& out) {
  if (out.dtype() != kBool) return false;
  if (self.dim() && self.int_numel())
    failf(ErrorKind::not_supported, "\"{}\" not implemented for 'Bool'", kernel);
  copy_elements(self, out);
  return true;
}

Shapes shape_cumsum(const args::cumsum& a) {
  check_scan(a.self, a.dim);
  return {Shape(a.self.sizes(), sum_type(a.self, a.dtype))};
}
void kernel_cumsum(const args::cumsum& a, Out out) {
  if (filled_without_scan("cumsum_out_cpu", a.self, out[0])) return;
  run_scan(kernels::Scan::sum, a.dtype ? cast_input(a.self, *a.dtype) : a.self, a.dim, out[0]);
}
Shapes shape_cumprod(const args::cumprod& a) {
  check_scan(a.self, a.dim);
  return {Shape(a.self.sizes(), sum_type(a.self, a.dtype))};
}
void kernel_cumprod(const args::cumprod& a, Out out) {
  if (filled_without_scan("cumprod_out_cpu", a.self, out[0])) return;
  run_scan(kernels::Scan::prod, a.dtype ? cast_input(a.self, *a.dtype) : a.self, a.dim, out[0]);
}
Shapes shape_logcumsumexp(const args::logcumsumexp& a) {
  check_scan(a.self, a.dim);
  if (!a.self.is_floating_point() && !a.self.is_complex())
    failf(ErrorKind::not_supported, "\"logcumsumexp_out_cpu\" not implemented for '{}'",
          script_name(a.self.dtype()));
  return {Shape(a.self.sizes(), a.self.dtype())};
}
void kernel_logcumsumexp(const args::logcumsumexp& a, Out out) {
  run_scan(kernels::Scan::logsumexp, a.self, a.dim, out[0]);
}

std::tuple<Tensor, Tensor> body_std_mean_correction(const args::std_mean_correction& a) {
  auto [variance, middle] = var_mean(a.self, a.dim, a.correction, a.keepdim);
  return {sqrt(variance), middle};
}

}  // namespace tern
