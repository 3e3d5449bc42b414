// LDL factors of symmetric matrices and the systems solved with them. Only the lower triangle is read.
#include "tern/base/format.h"
#include "tern/kernels/lapack.h"
#include "tern/ops.h"
#include "tern/ops/ldl.args.h"
#include "tern/ops/linalg/matrices.h"
#include "tern/ops/view/geometry.h"

namespace tern {

using namespace linalg;

namespace {

template <class T>
T* matrix_at(const Tensor& t, int64_t i) {
  return static_cast<T*>(t.data()) + i * t.size(-1).as_int() * t.size(-2).as_int();
}
void check_ldl_dtype(const char* api, const char* kernel, const Tensor& t) {
  check_float(api, t);
  if (t.dtype() == kHalf || t.dtype() == kBFloat16) not_implemented_for(kernel, t.dtype());
}
// LAPACK trusts pivots: each names a row, and negative ones come in pairs.
void check_pivots(const int32_t* pivots, int n) {
  for (int k = 0; k < n; ++k) {
    const bool block = pivots[k] < 0;
    const int64_t row = std::abs(static_cast<int64_t>(pivots[k]));
    if (row < 1 || row > n || (block && (k + 1 == n || pivots[k + 1] >= 0 || pivots[k + 1] < -n)))
      fail(
          "torch.linalg.ldl_solve: Expected the pivots that torch.linalg.ldl_factor gives: rows from 1 on, "
          "negative "
          "ones in pairs");
    k += block;
  }
}

}  // namespace

Shapes shape_linalg_ldl_factor_ex(const args::linalg_ldl_factor_ex& a) {
  constexpr const char* api = "torch.linalg.ldl_factor_ex";
  check_matrix(api, a.self);
  check_square(api, a.self);
  check_ldl_dtype(api, "ldl_factor_kernel_cpu", a.self);
  Dims pivots = batch_of(a.self);
  pivots.push_back(a.self.size(-1));
  return {by_columns(Dims(a.self.sizes()), a.self.dtype()), Shape(std::move(pivots), kInt),
          Shape(batch_of(a.self), kInt)};
}
void kernel_linalg_ldl_factor_ex(const args::linalg_ldl_factor_ex& a, Out out) {
  Tensor ld = columns(a.self);
  const Geometry g = geometry(ld);
  linalg::by_dtype(ld.dtype(), [&]<class T>(T) {
    for (int64_t i = 0; i < g.count; ++i) {
      T* matrix = matrix_at<T>(ld, i);
      for (int c = 1; c < g.columns; ++c) std::fill_n(matrix + static_cast<int64_t>(c) * g.rows, c, T(0));
      out[2].data_ptr<int32_t>()[i] =
          g.rows ? kernels::ldl<T>(a.hermitian, g.rows, matrix, out[1].data_ptr<int32_t>() + i * g.rows) : 0;
    }
  });
  copy_elements(ld, out[0]);
  if (a.check_errors) check_info("torch.linalg.ldl_factor_ex", out[2], a.self.dim() == 2);
}
std::tuple<Tensor, Tensor> body_linalg_ldl_factor(const args::linalg_ldl_factor& a) {
  auto [ld, pivots, info] = linalg_ldl_factor_ex(a.self, a.hermitian, false);
  _linalg_check_errors(info, "torch.linalg.ldl_factor", a.self.dim() == 2);
  return {ld, pivots};
}

Shapes shape_linalg_ldl_solve(const args::linalg_ldl_solve& a) {
  constexpr const char* api = "torch.linalg.ldl_solve";
  check_matrix(api, a.LD);
  check_square(api, a.LD);
  check_ldl_dtype(api, "ldl_solve_kernel_cpu", a.LD);
  if (a.B.dim() < 2) failf("{}: The input tensor B must have at least 2 dimensions.", api);
  if (!(a.LD.size(-1) == a.B.size(-2)))
    failf("Incompatible matrix sizes for {}: each A matrix is {} by {} but each b matrix is {} by {}", api,
          a.LD.size(-1).str(), a.LD.size(-1).str(), a.B.size(-2).str(), a.B.size(-1).str());
  if (a.LD.dtype() != a.B.dtype())
    failf("Expected b and A to have the same dtype, but found b of type {} and A of type {} instead.",
          script_name(a.B.dtype()), script_name(a.LD.dtype()));
  if (!is_integral(a.pivots.dtype(), false))
    failf("{}: Expected pivots to be integers. Got {}", api, script_name(a.pivots.dtype()));
  bool same = a.pivots.dim() == a.LD.dim() - 1;
  for (int64_t d = 0; same && d < a.pivots.dim(); ++d) same = a.pivots.size(d) == a.LD.size(d);
  if (!same)
    failf("{}: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape {} instead",
          api, str(a.pivots.sizes()));
  Dims batch = broadcast_sizes(batch_of(a.LD), batch_of(a.B));
  return {by_columns(matrix_sizes(std::move(batch), a.B.size(-2), a.B.size(-1)), a.B.dtype())};
}
void kernel_linalg_ldl_solve(const args::linalg_ldl_solve& a, Out out) {
  if (out[0].int_numel() == 0) return;
  const Dims batch = batch_of(out[0]);
  Dims rows(batch);
  rows.push_back(a.LD.size(-1));
  Tensor ld = columns(expand_view(a.LD, matrix_sizes(batch, a.LD.size(-2), a.LD.size(-1)))),
         x = columns(expand_view(a.B, out[0].sizes())), pivots = row_major(expand_view(a.pivots, rows), kInt);
  const Geometry g = geometry(ld), h = geometry(x);
  linalg::by_dtype(ld.dtype(), [&]<class T>(T) {
    for (int64_t i = 0; i < g.count; ++i) {
      const int32_t* p = pivots.data_ptr<int32_t>() + i * g.rows;
      check_pivots(p, g.rows);
      kernels::ldl_solve<T>(a.hermitian, g.rows, h.columns, matrix_at<T>(ld, i), p, matrix_at<T>(x, i));
    }
  });
  copy_elements(x, out[0]);
}

}  // namespace tern
