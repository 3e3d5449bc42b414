// What the linear algebra kernels share: checks, and matrices as LAPACK wants them.
#pragma once
#include <complex>

#include "tern/dispatch/op.h"
#include "tern/dispatch/pointwise.h"
#include "tern/ops/elements.h"

namespace tern::linalg {

template <class F>
void by_dtype(DType d, F&& f) {
  switch (d) {
    case DType::float32:
      return f(float{});
    case DType::float64:
      return f(double{});
    case DType::complex64:
      return f(std::complex<float>{});
    case DType::complex128:
      return f(std::complex<double>{});
    default:
      not_implemented_for("linalg", d);
  }
}

void check_float(const char* api, const Tensor& t);  // "Expected a floating point or complex tensor as input"
void check_matrix(const char* api, const Tensor& t);  // "must have at least 2 dimensions"
void check_square(const char* api, const Tensor& t);
void check_low_precision(const char* api, const Tensor& t);  // half types have no decomposition
bool has_routine(DType d);  // LAPACK knows it: float, double and their complex numbers
void check_routine(const char* kernel, const Tensor& t);  // '"lu_cpu" not implemented for 'Half'' otherwise

Dims batch_of(const Tensor& t);                              // all sizes but the last two
Dims matrix_sizes(Dims batch, SymInt rows, SymInt columns);  // and the last two again
// Results that LAPACK writes: each matrix column by column. One dimension is as it is.
Shape by_columns(Dims sizes, DType dtype);
// A copy of sizes [..., rows, columns] whose matrices are column-major one behind the other.
Tensor columns(const Tensor& t);
Tensor new_columns(const Dims& batch, int64_t rows, int64_t columns, DType dtype);
struct Geometry {
  int rows, columns;
  int64_t count;  // of matrices
};
Geometry geometry(const Tensor& t);
// Throws like _linalg_check_errors.
void check_info(const char* api, const Tensor& info, bool is_matrix);
bool is_vector_case(const Tensor& A, const Tensor& B);  // B holds one vector for each matrix

}  // namespace tern::linalg
