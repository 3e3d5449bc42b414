// Matrix products: which operands a product may read as they lie, the shapes it gives, and the calls of gemm.
#include <complex>

#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"
#include "tern/kernels/gemm.h"
#include "tern/ops.h"
#include "tern/ops/formulas.h"
#include "tern/ops/linear.args.h"

namespace tern {
namespace {

// The last two dims of a tensor as gemm reads them; copied when neither of them is dense.
struct Matrix {
  const Tensor* tensor;
  Tensor copy;
  bool transposed = false;
  int64_t ld = 1;

  explicit Matrix(const Tensor& t) : tensor(&t) {
    int64_t d = t.dim() - 2, rows = t.int_sizes()[d], columns = t.int_sizes()[d + 1];
    int64_t down = t.int_strides()[d], across = t.int_strides()[d + 1];
    if ((across == 1 || columns <= 1) && (rows <= 1 || down >= std::max<int64_t>(columns, 1))) {
      ld = rows <= 1 ? std::max<int64_t>(columns, 1) : down;
    } else if ((down == 1 || rows <= 1) && (columns <= 1 || across >= std::max<int64_t>(rows, 1))) {
      transposed = true;
      ld = columns <= 1 ? std::max<int64_t>(rows, 1) : across;
    } else {
      copy = make_tensor(t.sizes(), t.dtype());
      copy_elements(t, copy);
      tensor = &copy;
      ld = std::max<int64_t>(columns, 1);
    }
  }
  Matrix(const Matrix&) = delete;
};

Tensor wide_copy(const Tensor& t) {
  Tensor copy = make_tensor(t.sizes(), kFloat);
  copy_elements(t, copy);
  return copy;
}

void check_factors(DType d, const Scalar& alpha, const Scalar& beta) {
  if (!is_complex(d) && (alpha.is_complex() || beta.is_complex()))
    failf("value cannot be converted to type {} without overflow", cpp_name(compute_dtype(d)));
}

// out = alpha·(a @ b) + beta·out, all of two dims.
void product(const Tensor& a, const Tensor& b, const Tensor& out, const Scalar& alpha = 1,
             const Scalar& beta = 0) {
  if (out.int_numel() == 0) return;
  int64_t m = a.int_sizes()[0], k = a.int_sizes()[1], n = b.int_sizes()[1];
  check_factors(out.dtype(), alpha, beta);
  if (is_float8(out.dtype())) {  // multiplied in float32, rounded once
    Tensor x = wide_copy(a), y = wide_copy(b), sum = wide_copy(out);
    product(x, y, sum, alpha, beta);
    return copy_elements(sum, out);
  }
  Matrix left(a), right(b);
  if (k == 0 && beta.equals(0)) return fill_elements(out, 0);
  kernels::gemm(out.dtype(), left.transposed, right.transposed, m, n, k, alpha.to_complex(),
                left.tensor->data(), left.ld, right.tensor->data(), right.ld, beta.to_complex(), out.data(),
                std::max<int64_t>(n, 1));
}

void batched_product(const Tensor& a, const Tensor& b, const Tensor& out, const Scalar& alpha = 1,
                     const Scalar& beta = 0) {
  if (out.int_numel() == 0) return;
  check_factors(out.dtype(), alpha, beta);
  int64_t batch = a.int_sizes()[0], m = a.int_sizes()[1], k = a.int_sizes()[2], n = b.int_sizes()[2];
  Matrix left(a), right(b);
  if (k == 0 && beta.equals(0)) return fill_elements(out, 0);
  kernels::gemm_batched(out.dtype(), left.transposed, right.transposed, batch, m, n, k, alpha.to_complex(),
                        left.tensor->data(), left.ld, left.tensor->int_strides()[0], right.tensor->data(),
                        right.ld, right.tensor->int_strides()[0], beta.to_complex(), out.data(),
                        std::max<int64_t>(n, 1), m * n);
}

// The addend in its place, ready to be multiplied by beta.
void place_addend(const Tensor& self, const Scalar& beta, const Tensor& out) {
  if (!beta.equals(0)) copy_elements(self, out);
}

void check_same_type(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype())
    failf("expected m1 and m2 to have the same dtype, but got: {} != {}", cpp_name(a.dtype()),
          cpp_name(b.dtype()));
  if (a.dtype() == kBool) fail(ErrorKind::not_supported, "\"addmm_impl_cpu_\" not implemented for 'Bool'");
}

// The same where something is added to the product.
void check_factor_types(const Tensor& mat1, const Tensor& mat2) {
  if (mat1.dtype() != mat2.dtype())
    failf("mat1 and mat2 must have the same dtype, but got {} and {}", script_name(mat1.dtype()),
          script_name(mat2.dtype()));
}

void check_expands(const Tensor& self, Span<const SymInt> sizes) {
  bool fits = self.dim() <= static_cast<int64_t>(sizes.size());
  for (int64_t d = 1; fits && d <= self.dim(); ++d) {
    SymInt from = self.sizes()[self.dim() - d], to = sizes[sizes.size() - d];
    fits = surely_eq(from, 1) || surely_eq(from, to) || from == to;
  }
  if (!fits)
    failf(
        "The expanded size of the tensor must match the existing size at non-singleton dimensions.  Target "
        "sizes: {}.  "
        "Tensor sizes: {}",
        str(sizes), str(self.sizes()));
}

Dims matrix_shape(const Tensor& a, const Tensor& b) {
  if (a.sizes()[1] != b.sizes()[0])
    failf("mat1 and mat2 shapes cannot be multiplied ({}x{} and {}x{})", a.sizes()[0].str(),
          a.sizes()[1].str(), b.sizes()[0].str(), b.sizes()[1].str());
  check_same_type(a, b);
  return {a.sizes()[0], b.sizes()[1]};
}

Dims batch_shape(const Tensor& a, const Tensor& b) {
  if (a.dim() != 3) fail("batch1 must be a 3D tensor");
  if (b.dim() != 3) fail("batch2 must be a 3D tensor");
  if (a.sizes()[0] != b.sizes()[0] || a.sizes()[2] != b.sizes()[1])
    failf("Expected size for first two dimensions of batch2 tensor to be: [{}, {}] but got: [{}, {}].",
          a.sizes()[0].str(), a.sizes()[2].str(), b.sizes()[0].str(), b.sizes()[1].str());
  if (a.dtype() != b.dtype())
    failf("expected scalar type {} but found {}", script_name(a.dtype()), script_name(b.dtype()));
  check_same_type(a, b);
  return {a.sizes()[0], a.sizes()[1], b.sizes()[2]};
}

void check_matrix_vector(const Tensor& mat, const Tensor& vec) {
  if (mat.dim() != 2 || vec.dim() != 1)
    failf("vector + matrix @ vector expected, got {}, {}, {}", 1, mat.dim(), vec.dim());
  if (mat.sizes()[1] != vec.sizes()[0])
    failf("size mismatch, got input ({}), mat ({}x{}), vec ({})", mat.sizes()[0].str(), mat.sizes()[0].str(),
          mat.sizes()[1].str(), vec.sizes()[0].str());
  check_same_type(mat, vec);
}

// A vector as a matrix of one column or one row.
Tensor column(const Tensor& v) { return v.as_view({v.sizes()[0], 1}, {v.strides()[0], 1}); }
Tensor row(const Tensor& v) {
  return v.as_view({1, v.sizes()[0]}, {v.sizes()[0] * v.strides()[0], v.strides()[0]});
}

}  // namespace

Shapes shape_mm(const args::mm& a) {
  if (a.self.dim() != 2) fail("self must be a matrix");
  if (a.mat2.dim() != 2) fail("mat2 must be a matrix");
  return {Shape(matrix_shape(a.self, a.mat2), a.self.dtype())};
}
void kernel_mm(const args::mm& a, Out out) { product(a.self, a.mat2, out[0]); }

Shapes shape_bmm(const args::bmm& a) { return {Shape(batch_shape(a.self, a.mat2), a.self.dtype())}; }
void kernel_bmm(const args::bmm& a, Out out) { batched_product(a.self, a.mat2, out[0]); }

Shapes shape_addmm(const args::addmm& a) {
  if (a.mat1.dim() != 2) failf("mat1 must be a matrix, got {}-D tensor", a.mat1.dim());
  if (a.mat2.dim() != 2) failf("mat2 must be a matrix, got {}-D tensor", a.mat2.dim());
  check_factor_types(a.mat1, a.mat2);
  Dims sizes = matrix_shape(a.mat1, a.mat2);
  check_expands(a.self, sizes);
  if (a.self.dtype() != a.mat1.dtype())
    failf("self and mat2 must have the same dtype, but got {} and {}", script_name(a.self.dtype()),
          script_name(a.mat2.dtype()));
  return {Shape(sizes, a.mat1.dtype())};
}
void kernel_addmm(const args::addmm& a, Out out) {
  place_addend(a.self, a.beta, out[0]);
  product(a.mat1, a.mat2, out[0], a.alpha, a.beta);
}

Shapes shape_baddbmm(const args::baddbmm& a) {
  Dims sizes = batch_shape(a.batch1, a.batch2);
  check_expands(a.self, sizes);
  if (a.self.dtype() != a.batch1.dtype())
    failf("Input dtypes must be the same, got: input {}, batch1: {}, batch2: {}", script_name(a.self.dtype()),
          script_name(a.batch1.dtype()), script_name(a.batch2.dtype()));
  return {Shape(sizes, a.batch1.dtype())};
}
void kernel_baddbmm(const args::baddbmm& a, Out out) {
  place_addend(a.self, a.beta, out[0]);
  batched_product(a.batch1, a.batch2, out[0], a.alpha, a.beta);
}

Shapes shape_mv(const args::mv& a) {
  check_matrix_vector(a.self, a.vec);
  return {Shape(Dims{a.self.sizes()[0]}, a.self.dtype())};
}
void kernel_mv(const args::mv& a, Out out) { product(a.self, column(a.vec), column(out[0])); }

Shapes shape_addmv(const args::addmv& a) {
  check_matrix_vector(a.mat, a.vec);
  Dims sizes{a.mat.sizes()[0]};
  check_expands(a.self, sizes);
  return {Shape(sizes, a.mat.dtype())};
}
void kernel_addmv(const args::addmv& a, Out out) {
  place_addend(a.self, a.beta, out[0]);
  product(a.mat, column(a.vec), column(out[0]), a.alpha, a.beta);
}

Shapes shape_dot(const args::dot& a) {
  if (a.self.dim() != 1 || a.tensor.dim() != 1)
    failf("1D tensors expected, but got {}D and {}D tensors", a.self.dim(), a.tensor.dim());
  if (a.self.dtype() != a.tensor.dtype())
    failf("dot : expected both vectors to have same dtype, but found {} and {}", script_name(a.self.dtype()),
          script_name(a.tensor.dtype()));
  if (a.self.sizes()[0] != a.tensor.sizes()[0])
    failf(
        "inconsistent tensor size, expected tensor [{}] and src [{}] to have the same number of elements, "
        "but got {} and {} "
        "elements respectively",
        a.self.sizes()[0].str(), a.tensor.sizes()[0].str(), a.self.sizes()[0].str(),
        a.tensor.sizes()[0].str());
  return {Shape(Dims{}, a.self.dtype())};
}
void kernel_dot(const args::dot& a, Out out) {
  product(row(a.self), column(a.tensor), out[0].as_view({1, 1}, {1, 1}));
}

Shapes shape_linear(const args::linear& a) {
  if (a.input.dim() == 0) fail("both arguments to linear need to be at least 1D, but they are 0D and 2D");
  if (a.weight.dim() != 1 && a.weight.dim() != 2)
    failf("linear: weight must be a vector or a matrix, got {}D", a.weight.dim());
  SymInt k = a.input.sizes()[a.input.dim() - 1], inside = a.weight.sizes()[a.weight.dim() - 1];
  if (k != inside) {
    SymInt rows = 1;
    for (int64_t d = 0; d + 1 < a.input.dim(); ++d) rows *= a.input.sizes()[d];
    failf("mat1 and mat2 shapes cannot be multiplied ({}x{} and {}x{})", rows.str(), k.str(), inside.str(),
          a.weight.dim() == 2 ? a.weight.sizes()[0].str() : "1");
  }
  if (a.bias.defined()) check_factor_types(a.input, a.weight);
  check_same_type(a.input, a.weight);
  Dims sizes(a.input.sizes());
  if (a.weight.dim() == 2)
    sizes.back() = a.weight.sizes()[0];
  else
    sizes.pop_back();
  if (a.bias.defined()) {
    check_expands(a.bias, sizes);
    if (a.bias.dtype() != a.input.dtype())
      failf("self and mat2 must have the same dtype, but got {} and {}", script_name(a.bias.dtype()),
            script_name(a.weight.dtype()));
  }
  return {Shape(std::move(sizes), a.input.dtype())};
}
void kernel_linear(const args::linear& a, Out out) {
  Tensor input = a.input;
  if (!input.is_contiguous() && input.dim() != 2) {
    input = make_tensor(a.input.sizes(), a.input.dtype());
    copy_elements(a.input, input);
  }
  int64_t k = input.int_sizes()[input.dim() - 1], n = a.weight.dim() == 2 ? a.weight.int_sizes()[0] : 1;
  int64_t m = n ? out[0].int_numel() / n : 0;
  if (input.dim() != 2) input = input.as_view({m, k}, {std::max<int64_t>(k, 1), 1});
  Tensor weight = a.weight.dim() == 2
                      ? a.weight.as_view({k, n}, {a.weight.strides()[1], a.weight.strides()[0]})
                      : column(a.weight);
  if (a.bias.defined()) copy_elements(a.bias, out[0]);
  product(input, weight, out[0].as_view({m, n}, {std::max<int64_t>(n, 1), 1}), 1, a.bias.defined() ? 1 : 0);
}

}  // namespace tern
