// The only file that knows LAPACKE and CBLAS.
#include "tern/kernels/lapack.h"

#define lapack_complex_float std::complex<float>
#define lapack_complex_double std::complex<double>
#include <cblas.h>
#include <lapacke.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "tern/kernels/late.h"

namespace tern::kernels {
namespace {

constexpr int kColumns = LAPACK_COL_MAJOR;
int at_least_one(int n) { return std::max(n, 1); }

// A pivot that is not a number is not positive: OpenBLAS goes on, LAPACK says which.
template <class T>
int first_nan(int info, int n, const T* a) {
  const int end = info > 0 ? info - 1 : n;
  for (int i = 0; i < end; ++i)
    if (std::isnan(std::real(a[i + static_cast<int64_t>(i) * n]))) return i + 1;
  return info;
}

// OpenBLAS takes what is multiplied by zero for zero, also infinity and NaN: matrices that hold them go by
// the textbook, column by column.
template <class T>
bool is_finite(int64_t n, const T* a) {
  return std::all_of(a, a + n,
                     [](const T& v) { return std::isfinite(std::real(v)) && std::isfinite(std::imag(v)); });
}

template <class T>
int plain_lu(int m, int n, T* a, int32_t* pivots) {
  auto at = [&](int r, int c) -> T& { return a[r + static_cast<int64_t>(c) * m]; };
  auto size = [](const T& v) { return std::abs(std::real(v)) + std::abs(std::imag(v)); };
  int info = 0;
  for (int k = 0; k < std::min(m, n); ++k) {
    int pivot = k;
    for (int r = k + 1; r < m; ++r)
      if (size(at(r, k)) > size(at(pivot, k))) pivot = r;
    pivots[k] = pivot + 1;
    if (at(pivot, k) == T(0)) {
      if (!info) info = k + 1;
      continue;
    }
    for (int c = 0; c < n && pivot != k; ++c) std::swap(at(k, c), at(pivot, c));
    for (int r = k + 1; r < m; ++r) at(r, k) /= at(k, k);
    for (int c = k + 1; c < n; ++c)
      for (int r = k + 1; r < m; ++r) at(r, c) -= at(r, k) * at(k, c);
  }
  return info;
}

// The lower factor; the upper one is its conjugate transpose. A pivot that is not positive ends it, NaN too.
template <class T>
int plain_cholesky(bool upper, int n, T* a) {
  auto conjugate = [](const T& v) {
    if constexpr (std::is_floating_point_v<T>)
      return v;
    else
      return std::conj(v);
  };
  auto place = [&](int r, int c) -> T& {
    return upper ? a[c + static_cast<int64_t>(r) * n] : a[r + static_cast<int64_t>(c) * n];
  };
  auto get = [&](int r, int c) { return upper ? conjugate(place(r, c)) : place(r, c); };
  for (int k = 0; k < n; ++k) {
    auto pivot = std::real(get(k, k));
    for (int c = 0; c < k; ++c) pivot -= std::norm(get(k, c));
    place(k, k) = pivot > 0 ? std::sqrt(pivot) : pivot;
    if (!(pivot > 0)) return k + 1;
    for (int r = k + 1; r < n; ++r) {
      T v = get(r, k);
      for (int c = 0; c < k; ++c) v -= get(r, c) * conjugate(get(k, c));
      v /= std::sqrt(pivot);
      place(r, k) = upper ? conjugate(v) : v;
    }
  }
  return 0;
}

}  // namespace

template <>
int lu(int m, int n, float* a, int32_t* pivots) {
  if (!is_finite(static_cast<int64_t>(m) * n, a)) return plain_lu(m, n, a, pivots);
  return LAPACK(LAPACKE_sgetrf)(kColumns, m, n, a, at_least_one(m), pivots);
}
template <>
int lu_solve(char trans, int n, int columns, const float* lu, const int32_t* pivots, float* b) {
  return LAPACK(LAPACKE_sgetrs)(kColumns, trans, n, columns, lu, at_least_one(n), pivots, b, at_least_one(n));
}
template <>
int cholesky(bool upper, int n, float* a) {
  if (!is_finite(static_cast<int64_t>(n) * n, a)) return plain_cholesky(upper, n, a);
  return first_nan(LAPACK(LAPACKE_spotrf)(kColumns, upper ? 'U' : 'L', n, a, at_least_one(n)), n, a);
}
template <>
int cholesky_inverse(bool upper, int n, float* a) {
  return LAPACK(LAPACKE_spotri)(kColumns, upper ? 'U' : 'L', n, a, at_least_one(n));
}
template <>
int cholesky_solve(bool upper, int n, int columns, const float* factor, float* b) {
  return LAPACK(LAPACKE_spotrs)(kColumns, upper ? 'U' : 'L', n, columns, factor, at_least_one(n), b,
                                at_least_one(n));
}
template <>
void triangular_solve(bool left, bool upper, bool unit, int m, int n, const float* a, float* b) {
  const float one = 1;
  BLAS(cblas_strsm)
  (CblasColMajor, left ? CblasLeft : CblasRight, upper ? CblasUpper : CblasLower, CblasNoTrans,
   unit ? CblasUnit : CblasNonUnit, m, n, one, a, at_least_one(left ? m : n), b, at_least_one(m));
}
template <>
int qr(int m, int n, float* a, float* tau) {
  return LAPACK(LAPACKE_sgeqrf)(kColumns, m, n, a, at_least_one(m), tau);
}
template <>
int householder_product(int m, int n, int k, float* a, const float* tau) {
  return LAPACK(LAPACKE_sorgqr)(kColumns, m, n, k, a, at_least_one(m), tau);
}
template <>
int multiply_by_q(bool left, bool adjoint, int m, int n, int k, const float* a, int lda, const float* tau,
                  float* c) {
  return LAPACK(LAPACKE_sormqr)(kColumns, left ? 'L' : 'R', adjoint ? 'T' : 'N', m, n, k, a,
                                at_least_one(lda), tau, c, at_least_one(m));
}
template <>
int svd(char job, int m, int n, float* a, float* s, float* u, float* vh) {
  return LAPACK(LAPACKE_sgesdd)(kColumns, job, m, n, a, at_least_one(m), s, u, at_least_one(m), vh,
                                at_least_one(job == 'A' ? n : std::min(m, n)));
}
template <>
int eigh(bool vectors, bool upper, int n, float* a, float* values) {
  return LAPACK(LAPACKE_ssyevd)(kColumns, vectors ? 'V' : 'N', upper ? 'U' : 'L', n, a, at_least_one(n),
                                values);
}
template <>
int least_squares(const char* driver, int m, int n, int columns, float* a, float* b, float rcond, int* rank,
                  float* s) {
  const int ldb = at_least_one(std::max(m, n));
  *rank = std::min(m, n);
  if (!std::strcmp(driver, "gels"))
    return LAPACK(LAPACKE_sgels)(kColumns, 'N', m, n, columns, a, at_least_one(m), b, ldb);
  if (!std::strcmp(driver, "gelsy")) {
    std::vector<lapack_int> order(static_cast<size_t>(at_least_one(n)), 0);
    return LAPACK(LAPACKE_sgelsy)(kColumns, m, n, columns, a, at_least_one(m), b, ldb, order.data(), rcond,
                                  rank);
  }
  if (!std::strcmp(driver, "gelsd"))
    return LAPACK(LAPACKE_sgelsd)(kColumns, m, n, columns, a, at_least_one(m), b, ldb, s, rcond, rank);
  return LAPACK(LAPACKE_sgelss)(kColumns, m, n, columns, a, at_least_one(m), b, ldb, s, rcond, rank);
}
// A real matrix's complex vectors come as pairs of real ones.
template <>
int eig(int n, float* a, std::complex<float>* values, std::complex<float>* vectors) {
  const size_t size = static_cast<size_t>(n);
  std::vector<float> re(size), im(size), v(size * size);
  const int info = LAPACK(LAPACKE_sgeev)(kColumns, 'N', 'V', n, a, at_least_one(n), re.data(), im.data(),
                                         nullptr, 1, v.data(), at_least_one(n));
  for (size_t j = 0; j < size; ++j) values[j] = {re[j], im[j]};
  for (size_t j = 0; j < size; ++j) {
    const bool pair = im[j] > 0 && j + 1 < size;
    for (size_t i = 0; i < size; ++i) {
      vectors[j * size + i] = {v[j * size + i], pair ? v[(j + 1) * size + i] : float(0)};
      if (pair) vectors[(j + 1) * size + i] = std::conj(vectors[j * size + i]);
    }
    if (pair) ++j;
  }
  return info;
}
template <>
int lu(int m, int n, double* a, int32_t* pivots) {
  if (!is_finite(static_cast<int64_t>(m) * n, a)) return plain_lu(m, n, a, pivots);
  return LAPACK(LAPACKE_dgetrf)(kColumns, m, n, a, at_least_one(m), pivots);
}
template <>
int lu_solve(char trans, int n, int columns, const double* lu, const int32_t* pivots, double* b) {
  return LAPACK(LAPACKE_dgetrs)(kColumns, trans, n, columns, lu, at_least_one(n), pivots, b, at_least_one(n));
}
template <>
int cholesky(bool upper, int n, double* a) {
  if (!is_finite(static_cast<int64_t>(n) * n, a)) return plain_cholesky(upper, n, a);
  return first_nan(LAPACK(LAPACKE_dpotrf)(kColumns, upper ? 'U' : 'L', n, a, at_least_one(n)), n, a);
}
template <>
int cholesky_inverse(bool upper, int n, double* a) {
  return LAPACK(LAPACKE_dpotri)(kColumns, upper ? 'U' : 'L', n, a, at_least_one(n));
}
template <>
int cholesky_solve(bool upper, int n, int columns, const double* factor, double* b) {
  return LAPACK(LAPACKE_dpotrs)(kColumns, upper ? 'U' : 'L', n, columns, factor, at_least_one(n), b,
                                at_least_one(n));
}
template <>
void triangular_solve(bool left, bool upper, bool unit, int m, int n, const double* a, double* b) {
  const double one = 1;
  BLAS(cblas_dtrsm)
  (CblasColMajor, left ? CblasLeft : CblasRight, upper ? CblasUpper : CblasLower, CblasNoTrans,
   unit ? CblasUnit : CblasNonUnit, m, n, one, a, at_least_one(left ? m : n), b, at_least_one(m));
}
template <>
int qr(int m, int n, double* a, double* tau) {
  return LAPACK(LAPACKE_dgeqrf)(kColumns, m, n, a, at_least_one(m), tau);
}
template <>
int householder_product(int m, int n, int k, double* a, const double* tau) {
  return LAPACK(LAPACKE_dorgqr)(kColumns, m, n, k, a, at_least_one(m), tau);
}
template <>
int multiply_by_q(bool left, bool adjoint, int m, int n, int k, const double* a, int lda, const double* tau,
                  double* c) {
  return LAPACK(LAPACKE_dormqr)(kColumns, left ? 'L' : 'R', adjoint ? 'T' : 'N', m, n, k, a,
                                at_least_one(lda), tau, c, at_least_one(m));
}
template <>
int svd(char job, int m, int n, double* a, double* s, double* u, double* vh) {
  return LAPACK(LAPACKE_dgesdd)(kColumns, job, m, n, a, at_least_one(m), s, u, at_least_one(m), vh,
                                at_least_one(job == 'A' ? n : std::min(m, n)));
}
template <>
int eigh(bool vectors, bool upper, int n, double* a, double* values) {
  return LAPACK(LAPACKE_dsyevd)(kColumns, vectors ? 'V' : 'N', upper ? 'U' : 'L', n, a, at_least_one(n),
                                values);
}
template <>
int least_squares(const char* driver, int m, int n, int columns, double* a, double* b, double rcond,
                  int* rank, double* s) {
  const int ldb = at_least_one(std::max(m, n));
  *rank = std::min(m, n);
  if (!std::strcmp(driver, "gels"))
    return LAPACK(LAPACKE_dgels)(kColumns, 'N', m, n, columns, a, at_least_one(m), b, ldb);
  if (!std::strcmp(driver, "gelsy")) {
    std::vector<lapack_int> order(static_cast<size_t>(at_least_one(n)), 0);
    return LAPACK(LAPACKE_dgelsy)(kColumns, m, n, columns, a, at_least_one(m), b, ldb, order.data(), rcond,
                                  rank);
  }
  if (!std::strcmp(driver, "gelsd"))
    return LAPACK(LAPACKE_dgelsd)(kColumns, m, n, columns, a, at_least_one(m), b, ldb, s, rcond, rank);
  return LAPACK(LAPACKE_dgelss)(kColumns, m, n, columns, a, at_least_one(m), b, ldb, s, rcond, rank);
}
// A real matrix's complex vectors come as pairs of real ones.
template <>
int eig(int n, double* a, std::complex<double>* values, std::complex<double>* vectors) {
  const size_t size = static_cast<size_t>(n);
  std::vector<double> re(size), im(size), v(size * size);
  const int info = LAPACK(LAPACKE_dgeev)(kColumns, 'N', 'V', n, a, at_least_one(n), re.data(), im.data(),
                                         nullptr, 1, v.data(), at_least_one(n));
  for (size_t j = 0; j < size; ++j) values[j] = {re[j], im[j]};
  for (size_t j = 0; j < size; ++j) {
    const bool pair = im[j] > 0 && j + 1 < size;
    for (size_t i = 0; i < size; ++i) {
      vectors[j * size + i] = {v[j * size + i], pair ? v[(j + 1) * size + i] : double(0)};
      if (pair) vectors[(j + 1) * size + i] = std::conj(vectors[j * size + i]);
    }
    if (pair) ++j;
  }
  return info;
}
template <>
int lu(int m, int n, std::complex<float>* a, int32_t* pivots) {
  if (!is_finite(static_cast<int64_t>(m) * n, a)) return plain_lu(m, n, a, pivots);
  return LAPACK(LAPACKE_cgetrf)(kColumns, m, n, a, at_least_one(m), pivots);
}
template <>
int lu_solve(char trans, int n, int columns, const std::complex<float>* lu, const int32_t* pivots,
             std::complex<float>* b) {
  return LAPACK(LAPACKE_cgetrs)(kColumns, trans, n, columns, lu, at_least_one(n), pivots, b, at_least_one(n));
}
template <>
int cholesky(bool upper, int n, std::complex<float>* a) {
  if (!is_finite(static_cast<int64_t>(n) * n, a)) return plain_cholesky(upper, n, a);
  return first_nan(LAPACK(LAPACKE_cpotrf)(kColumns, upper ? 'U' : 'L', n, a, at_least_one(n)), n, a);
}
template <>
int cholesky_inverse(bool upper, int n, std::complex<float>* a) {
  return LAPACK(LAPACKE_cpotri)(kColumns, upper ? 'U' : 'L', n, a, at_least_one(n));
}
template <>
int cholesky_solve(bool upper, int n, int columns, const std::complex<float>* factor,
                   std::complex<float>* b) {
  return LAPACK(LAPACKE_cpotrs)(kColumns, upper ? 'U' : 'L', n, columns, factor, at_least_one(n), b,
                                at_least_one(n));
}
template <>
void triangular_solve(bool left, bool upper, bool unit, int m, int n, const std::complex<float>* a,
                      std::complex<float>* b) {
  const std::complex<float> one = 1;
  BLAS(cblas_ctrsm)
  (CblasColMajor, left ? CblasLeft : CblasRight, upper ? CblasUpper : CblasLower, CblasNoTrans,
   unit ? CblasUnit : CblasNonUnit, m, n, &one, a, at_least_one(left ? m : n), b, at_least_one(m));
}
template <>
int qr(int m, int n, std::complex<float>* a, std::complex<float>* tau) {
  return LAPACK(LAPACKE_cgeqrf)(kColumns, m, n, a, at_least_one(m), tau);
}
template <>
int householder_product(int m, int n, int k, std::complex<float>* a, const std::complex<float>* tau) {
  return LAPACK(LAPACKE_cungqr)(kColumns, m, n, k, a, at_least_one(m), tau);
}
template <>
int multiply_by_q(bool left, bool adjoint, int m, int n, int k, const std::complex<float>* a, int lda,
                  const std::complex<float>* tau, std::complex<float>* c) {
  return LAPACK(LAPACKE_cunmqr)(kColumns, left ? 'L' : 'R', adjoint ? 'C' : 'N', m, n, k, a,
                                at_least_one(lda), tau, c, at_least_one(m));
}
template <>
int svd(char job, int m, int n, std::complex<float>* a, float* s, std::complex<float>* u,
        std::complex<float>* vh) {
  return LAPACK(LAPACKE_cgesdd)(kColumns, job, m, n, a, at_least_one(m), s, u, at_least_one(m), vh,
                                at_least_one(job == 'A' ? n : std::min(m, n)));
}
template <>
int eigh(bool vectors, bool upper, int n, std::complex<float>* a, float* values) {
  return LAPACK(LAPACKE_cheevd)(kColumns, vectors ? 'V' : 'N', upper ? 'U' : 'L', n, a, at_least_one(n),
                                values);
}
template <>
int least_squares(const char* driver, int m, int n, int columns, std::complex<float>* a,
                  std::complex<float>* b, float rcond, int* rank, float* s) {
  const int ldb = at_least_one(std::max(m, n));
  *rank = std::min(m, n);
  if (!std::strcmp(driver, "gels"))
    return LAPACK(LAPACKE_cgels)(kColumns, 'N', m, n, columns, a, at_least_one(m), b, ldb);
  if (!std::strcmp(driver, "gelsy")) {
    std::vector<lapack_int> order(static_cast<size_t>(at_least_one(n)), 0);
    return LAPACK(LAPACKE_cgelsy)(kColumns, m, n, columns, a, at_least_one(m), b, ldb, order.data(), rcond,
                                  rank);
  }
  if (!std::strcmp(driver, "gelsd"))
    return LAPACK(LAPACKE_cgelsd)(kColumns, m, n, columns, a, at_least_one(m), b, ldb, s, rcond, rank);
  return LAPACK(LAPACKE_cgelss)(kColumns, m, n, columns, a, at_least_one(m), b, ldb, s, rcond, rank);
}
template <>
int eig(int n, std::complex<float>* a, std::complex<float>* values, std::complex<float>* vectors) {
  return LAPACK(LAPACKE_cgeev)(kColumns, 'N', 'V', n, a, at_least_one(n), values, nullptr, 1, vectors,
                               at_least_one(n));
}
template <>
int lu(int m, int n, std::complex<double>* a, int32_t* pivots) {
  if (!is_finite(static_cast<int64_t>(m) * n, a)) return plain_lu(m, n, a, pivots);
  return LAPACK(LAPACKE_zgetrf)(kColumns, m, n, a, at_least_one(m), pivots);
}
template <>
int lu_solve(char trans, int n, int columns, const std::complex<double>* lu, const int32_t* pivots,
             std::complex<double>* b) {
  return LAPACK(LAPACKE_zgetrs)(kColumns, trans, n, columns, lu, at_least_one(n), pivots, b, at_least_one(n));
}
template <>
int cholesky(bool upper, int n, std::complex<double>* a) {
  if (!is_finite(static_cast<int64_t>(n) * n, a)) return plain_cholesky(upper, n, a);
  return first_nan(LAPACK(LAPACKE_zpotrf)(kColumns, upper ? 'U' : 'L', n, a, at_least_one(n)), n, a);
}
template <>
int cholesky_inverse(bool upper, int n, std::complex<double>* a) {
  return LAPACK(LAPACKE_zpotri)(kColumns, upper ? 'U' : 'L', n, a, at_least_one(n));
}
template <>
int cholesky_solve(bool upper, int n, int columns, const std::complex<double>* factor,
                   std::complex<double>* b) {
  return LAPACK(LAPACKE_zpotrs)(kColumns, upper ? 'U' : 'L', n, columns, factor, at_least_one(n), b,
                                at_least_one(n));
}
template <>
void triangular_solve(bool left, bool upper, bool unit, int m, int n, const std::complex<double>* a,
                      std::complex<double>* b) {
  const std::complex<double> one = 1;
  BLAS(cblas_ztrsm)
  (CblasColMajor, left ? CblasLeft : CblasRight, upper ? CblasUpper : CblasLower, CblasNoTrans,
   unit ? CblasUnit : CblasNonUnit, m, n, &one, a, at_least_one(left ? m : n), b, at_least_one(m));
}
template <>
int qr(int m, int n, std::complex<double>* a, std::complex<double>* tau) {
  return LAPACK(LAPACKE_zgeqrf)(kColumns, m, n, a, at_least_one(m), tau);
}
template <>
int householder_product(int m, int n, int k, std::complex<double>* a, const std::complex<double>* tau) {
  return LAPACK(LAPACKE_zungqr)(kColumns, m, n, k, a, at_least_one(m), tau);
}
template <>
int multiply_by_q(bool left, bool adjoint, int m, int n, int k, const std::complex<double>* a, int lda,
                  const std::complex<double>* tau, std::complex<double>* c) {
  return LAPACK(LAPACKE_zunmqr)(kColumns, left ? 'L' : 'R', adjoint ? 'C' : 'N', m, n, k, a,
                                at_least_one(lda), tau, c, at_least_one(m));
}
template <>
int svd(char job, int m, int n, std::complex<double>* a, double* s, std::complex<double>* u,
        std::complex<double>* vh) {
  return LAPACK(LAPACKE_zgesdd)(kColumns, job, m, n, a, at_least_one(m), s, u, at_least_one(m), vh,
                                at_least_one(job == 'A' ? n : std::min(m, n)));
}
template <>
int eigh(bool vectors, bool upper, int n, std::complex<double>* a, double* values) {
  return LAPACK(LAPACKE_zheevd)(kColumns, vectors ? 'V' : 'N', upper ? 'U' : 'L', n, a, at_least_one(n),
                                values);
}
template <>
int least_squares(const char* driver, int m, int n, int columns, std::complex<double>* a,
                  std::complex<double>* b, double rcond, int* rank, double* s) {
  const int ldb = at_least_one(std::max(m, n));
  *rank = std::min(m, n);
  if (!std::strcmp(driver, "gels"))
    return LAPACK(LAPACKE_zgels)(kColumns, 'N', m, n, columns, a, at_least_one(m), b, ldb);
  if (!std::strcmp(driver, "gelsy")) {
    std::vector<lapack_int> order(static_cast<size_t>(at_least_one(n)), 0);
    return LAPACK(LAPACKE_zgelsy)(kColumns, m, n, columns, a, at_least_one(m), b, ldb, order.data(), rcond,
                                  rank);
  }
  if (!std::strcmp(driver, "gelsd"))
    return LAPACK(LAPACKE_zgelsd)(kColumns, m, n, columns, a, at_least_one(m), b, ldb, s, rcond, rank);
  return LAPACK(LAPACKE_zgelss)(kColumns, m, n, columns, a, at_least_one(m), b, ldb, s, rcond, rank);
}
template <>
int eig(int n, std::complex<double>* a, std::complex<double>* values, std::complex<double>* vectors) {
  return LAPACK(LAPACKE_zgeev)(kColumns, 'N', 'V', n, a, at_least_one(n), values, nullptr, 1, vectors,
                               at_least_one(n));
}

template <>
int ldl(bool, int n, float* a, int32_t* pivots) {
  return LAPACK(LAPACKE_ssytrf)(kColumns, 'L', n, a, at_least_one(n), pivots);
}
template <>
int ldl_solve(bool, int n, int columns, const float* ld, const int32_t* pivots, float* b) {
  return LAPACK(LAPACKE_ssytrs)(kColumns, 'L', n, columns, ld, at_least_one(n), pivots, b, at_least_one(n));
}
template <>
int ldl(bool, int n, double* a, int32_t* pivots) {
  return LAPACK(LAPACKE_dsytrf)(kColumns, 'L', n, a, at_least_one(n), pivots);
}
template <>
int ldl_solve(bool, int n, int columns, const double* ld, const int32_t* pivots, double* b) {
  return LAPACK(LAPACKE_dsytrs)(kColumns, 'L', n, columns, ld, at_least_one(n), pivots, b, at_least_one(n));
}
template <>
int ldl(bool hermitian, int n, std::complex<float>* a, int32_t* pivots) {
  const auto factor = hermitian ? LAPACK(LAPACKE_chetrf) : LAPACK(LAPACKE_csytrf);
  return factor(kColumns, 'L', n, a, at_least_one(n), pivots);
}
template <>
int ldl_solve(bool hermitian, int n, int columns, const std::complex<float>* ld, const int32_t* pivots,
              std::complex<float>* b) {
  const auto solve = hermitian ? LAPACK(LAPACKE_chetrs) : LAPACK(LAPACKE_csytrs);
  return solve(kColumns, 'L', n, columns, ld, at_least_one(n), pivots, b, at_least_one(n));
}
template <>
int ldl(bool hermitian, int n, std::complex<double>* a, int32_t* pivots) {
  const auto factor = hermitian ? LAPACK(LAPACKE_zhetrf) : LAPACK(LAPACKE_zsytrf);
  return factor(kColumns, 'L', n, a, at_least_one(n), pivots);
}
template <>
int ldl_solve(bool hermitian, int n, int columns, const std::complex<double>* ld, const int32_t* pivots,
              std::complex<double>* b) {
  const auto solve = hermitian ? LAPACK(LAPACKE_zhetrs) : LAPACK(LAPACKE_zsytrs);
  return solve(kColumns, 'L', n, columns, ld, at_least_one(n), pivots, b, at_least_one(n));
}

}  // namespace tern::kernels
