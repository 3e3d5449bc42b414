// Special functions that the C library lacks or has with another convention.
#pragma once

namespace tern::kernels {

double erfinv(double x);   // ±inf at ±1, NaN outside
double digamma(double x);  // -inf at +0, +inf at -0, NaN at negative integers
float log_gamma(float x);  // no global sign
double log_gamma(double x);

// Bessel functions; an e at the end: divided by the exponential that they grow or fall with.
double bessel_i0e(double x);  // exp(-|x|) I0(x)
double bessel_i1e(double x);
double bessel_i0(double x);
double bessel_i1(double x);
double bessel_k0e(double x);  // exp(x) K0(x)
double bessel_k1e(double x);
double airy_ai(double x);

double erfcx(double x);              // exp(x²) erfc(x)
double log_ndtr(double x);           // log of the normal distribution's area left of x
double ndtri(double p);              // where that area is p
double zeta(double x, double q);     // Hurwitz: Σ (k + q)^-x
double igamma(double a, double x);   // the regularised lower incomplete gamma function
double igammac(double a, double x);  // the upper one

}  // namespace tern::kernels
