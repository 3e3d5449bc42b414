// Special functions that the C library lacks or has with another convention.
#pragma once

namespace tern::kernels {

double erfinv(double x);   // ±inf at ±1, NaN outside
double digamma(double x);  // -inf at +0, +inf at -0, NaN at negative integers
float log_gamma(float x);  // no global sign
double log_gamma(double x);

}  // namespace tern::kernels
