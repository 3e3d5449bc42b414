// The name std::complex, for headers that hand one on: <complex> includes <sstream> and costs more than
// the rest of tensor/ together. Whoever computes with one includes <complex>.
#pragma once
#include <cstddef>

#ifdef __GLIBCXX__
namespace std {
template <class T>
class complex;
}
#else  // other libraries keep it in a namespace of their own
#include <complex>
#endif
