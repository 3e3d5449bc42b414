// Checks, and matrices as LAPACK wants them.
#include "tern/ops/linalg/matrices.h"

#include "tern/base/format.h"
#include "tern/ops.h"
#include "tern/ops/linalg.args.h"

namespace tern {
namespace linalg {

void check_float(const char* api, const Tensor& t) {
  if (!t.is_floating_point() && !t.is_complex())
    failf("{}: Expected a floating point or complex tensor as input. Got {}", api, script_name(t.dtype()));
}
void check_low_precision(const char* api, const Tensor& t) {
  check_float(api, t);
  if (!has_routine(t.dtype()))
    failf("{}: Low precision dtypes not supported. Got {}", api, script_name(t.dtype()));
}
bool has_routine(DType d) { return is_complex(d) ? d != DType::complex32 : d == kFloat || d == kDouble; }
void check_routine(const char* kernel, const Tensor& t) {
  if (!has_routine(t.dtype())) not_implemented_for(kernel, t.dtype());
}
void check_matrix(const char* api, const Tensor& t) {
  if (t.dim() < 2) failf("{}: The input tensor A must have at least 2 dimensions.", api);
}
void check_square(const char* api, const Tensor& t) {
  check_matrix(api, t);
  if (!(t.size(-1) == t.size(-2)))
    failf("{}: A must be batches of square matrices, but they are {} by {} matrices", api, t.size(-2).str(),
          t.size(-1).str());
}

Dims batch_of(const Tensor& t) {
  Dims batch(t.sizes());
  batch.pop_back();
  batch.pop_back();
  return batch;
}
Dims matrix_sizes(Dims batch, SymInt rows, SymInt columns) {
  batch.push_back(rows);
  batch.push_back(columns);
  return batch;
}
Shape by_columns(Dims sizes, DType dtype) {
  size_t n = sizes.size();
  if (n < 2) return Shape(std::move(sizes), dtype);
  Dims turned(sizes);
  std::swap(turned[n - 1], turned[n - 2]);
  Dims strides = contiguous_strides(turned);
  std::swap(strides[n - 1], strides[n - 2]);
  return Shape(std::move(sizes), dtype, std::move(strides));
}
Tensor new_columns(const Dims& batch, int64_t rows, int64_t columns, DType dtype) {
  // The memory of the transposed matrices, seen as the matrices.
  Tensor t = make_tensor(matrix_sizes(batch, columns, rows), dtype);
  Dims sizes(t.sizes()), strides(t.strides());
  size_t n = sizes.size();
  std::swap(sizes[n - 1], sizes[n - 2]);
  std::swap(strides[n - 1], strides[n - 2]);
  return t.as_view(sizes, strides);
}
Tensor columns(const Tensor& t) {
  Tensor copy = new_columns(batch_of(t), t.size(-2).as_int(), t.size(-1).as_int(), t.dtype());
  copy_elements(t, copy);
  return copy;
}
Geometry geometry(const Tensor& t) {
  Geometry g{static_cast<int>(t.size(-2).as_int()), static_cast<int>(t.size(-1).as_int()), 1};
  for (SymInt s : batch_of(t)) g.count *= s.as_int();
  return g;
}

void check_info(const char* api, const Tensor& info, bool is_matrix) {
  if (info.is_fake()) return;
  Tensor codes = row_major(info, kInt);
  const int32_t* p = codes.data_ptr<int32_t>();
  std::string_view name = api;
  auto says = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  for (int64_t i = 0; i < codes.int_numel(); ++i) {
    if (p[i] == 0) continue;
    std::string batch = is_matrix ? ": " : fmt::format(": (Batch element {}): ", i);
    if (p[i] < 0 && says("svd"))
      failf(ErrorKind::linear_algebra,
            "{}{}The algorithm failed to converge because the input matrix contained non-finite values.", api,
            batch);
    if (p[i] < 0)
      failf(
          "{}{}Argument {} has illegal value. Most certainly there is a bug in the implementation calling "
          "the backend "
          "library.",
          api, batch, -p[i]);
    if (says("inv"))
      failf(ErrorKind::linear_algebra,
            "{}{}The diagonal element {} is zero, the inversion could not be completed because the input "
            "matrix is "
            "singular.",
            api, batch, p[i]);
    if (says("solve"))
      failf(ErrorKind::linear_algebra, "{}{}The solver failed because the input matrix is singular.", api,
            batch);
    if (says("cholesky"))
      failf(ErrorKind::linear_algebra,
            "{}{}The factorization could not be completed because the input is not positive-definite (the "
            "leading minor "
            "of order {} is not positive-definite).",
            api, batch, p[i]);
    if (says("eig"))
      failf(
          ErrorKind::linear_algebra,
          "{}{}The algorithm failed to converge because the input matrix is ill-conditioned or has too many "
          "repeated "
          "eigenvalues (error code: {}).",
          api, batch, p[i]);
    if (says("svd"))
      failf(
          ErrorKind::linear_algebra,
          "{}{}The algorithm failed to converge because the input matrix is ill-conditioned or has too many "
          "repeated "
          "singular values (error code: {}).",
          api, batch, p[i]);
    if (says("lstsq"))
      failf(
          ErrorKind::linear_algebra,
          "{}{}The least squares solution could not be computed because the input matrix does not have full "
          "rank "
          "(error code: {}).",
          api, batch, p[i]);
    failf(
        ErrorKind::linear_algebra,
        "{}{}U[{},{}] is zero and using it on lu_solve would result in a division by zero. If you still want "
        "to "
        "perform the factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)",
        api, batch, p[i], p[i]);
  }
}

bool is_vector_case(const Tensor& A, const Tensor& B) {
  if (B.dim() == 1) return true;
  if (A.dim() - 1 != B.dim()) return false;
  for (int64_t d = 0; d < B.dim(); ++d)
    if (!(A.size(d) == B.size(d))) return false;
  return true;
}

}  // namespace linalg

void body__linalg_check_errors(const args::_linalg_check_errors& a) {
  linalg::check_info(std::string(a.api_name).c_str(), a.info, a.is_matrix);
}

}  // namespace tern
