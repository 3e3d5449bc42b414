// LAPACK for one matrix at a time: column-major, leading dimension = rows. T is float, double,
// complex<float> or complex<double>. Each gives LAPACK's info: 0, or what went wrong.
#pragma once
#include <complex>
#include <cstdint>

namespace tern::kernels {

template <class T>
struct RealOf {
  using type = T;
};
template <class T>
struct RealOf<std::complex<T>> {
  using type = T;
};
template <class T>
using real_t = typename RealOf<T>::type;

template <class T>
[[gnu::visibility("hidden")]] int lu(int m, int n, T* a, int32_t* pivots);
template <class T>
[[gnu::visibility("hidden")]] int lu_solve(char trans, int n, int columns, const T* lu, const int32_t* pivots,
                                           T* b);
// A = L·D·Lᵀ in the lower triangle (Lᴴ where hermitian), after Bunch and Kaufman.
template <class T>
[[gnu::visibility("hidden")]] int ldl(bool hermitian, int n, T* a, int32_t* pivots);
template <class T>
[[gnu::visibility("hidden")]] int ldl_solve(bool hermitian, int n, int columns, const T* ld,
                                            const int32_t* pivots, T* b);
template <class T>
[[gnu::visibility("hidden")]] int cholesky(bool upper, int n, T* a);
template <class T>
[[gnu::visibility("hidden")]] int cholesky_inverse(bool upper, int n, T* a);
template <class T>
[[gnu::visibility("hidden")]] int cholesky_solve(bool upper, int n, int columns, const T* factor, T* b);
// B := the solution of A·X = B (left) or X·A = B; B is m × n.
template <class T>
[[gnu::visibility("hidden")]] void triangular_solve(bool left, bool upper, bool unit, int m, int n,
                                                    const T* a, T* b);
template <class T>
[[gnu::visibility("hidden")]] int qr(int m, int n, T* a, T* tau);
template <class T>
[[gnu::visibility("hidden")]] int householder_product(int m, int n, int k, T* a, const T* tau);
// C := Q·C, C·Q, or with the adjoint of Q, where Q is the product of k reflectors.
template <class T>
[[gnu::visibility("hidden")]] int multiply_by_q(bool left, bool adjoint, int m, int n, int k, const T* a,
                                                int lda, const T* tau, T* c);
// job: 'A' whole, 'S' the first min(m, n), 'N' no vectors.
template <class T>
[[gnu::visibility("hidden")]] int svd(char job, int m, int n, T* a, real_t<T>* s, T* u, T* vh);
template <class T>
[[gnu::visibility("hidden")]] int eigh(bool vectors, bool upper, int n, T* a, real_t<T>* values);
// values: n complex numbers; vectors: n × n, complex.
template <class T>
[[gnu::visibility("hidden")]] int eig(int n, T* a, std::complex<real_t<T>>* values,
                                      std::complex<real_t<T>>* vectors);
// driver: "gels", "gelsy", "gelsd", "gelss". b is max(m, n) × columns.
template <class T>
[[gnu::visibility("hidden")]] int least_squares(const char* driver, int m, int n, int columns, T* a, T* b,
                                                real_t<T> rcond, int* rank, real_t<T>* s);

}  // namespace tern::kernels
