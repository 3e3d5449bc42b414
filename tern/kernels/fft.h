// The discrete Fourier transform of lines of complex numbers, any length.
#pragma once
#include <complex>
#include <cstdint>

namespace tern::kernels {

// data is row-major [outer, n, inner]; each line along n is replaced by scale · Σ x[j] exp(∓2πi·jk/n), with
// minus when forward. T is float or double.
template <class T>
void fft_lines(std::complex<T>* data, int64_t outer, int64_t n, int64_t inner, bool forward, T scale);

}  // namespace tern::kernels
