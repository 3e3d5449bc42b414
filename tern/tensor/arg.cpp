#include "tern/tensor/arg.h"

#include <complex>

#include "tern/base/error.h"

namespace tern {

Arg::Arg(const Scalar& s) {
  switch (s.kind()) {
    case Scalar::Kind::int_:
      *this = Arg(s.sym());
      break;
    case Scalar::Kind::float_:
      *this = Arg(s.to_double());
      break;
    case Scalar::Kind::bool_:
      *this = Arg(s.to_bool());
      break;
    case Scalar::Kind::complex_:
      kind = ArgKind::complex_;
      complex_ptr = s.parts();
      break;
  }
}

Scalar Arg::scalar() const {
  switch (kind) {
    case ArgKind::int_:
      return sym();
    case ArgKind::float_:
      return number;
    case ArgKind::bool_:
      return bits != 0;
    case ArgKind::complex_:
      return std::complex<double>(complex_ptr[0], complex_ptr[1]);
    case ArgKind::tensor:
      return read_scalar(*tensor_ptr);
    default:
      fail(ErrorKind::type, "expected a number");
  }
}

Span<const int64_t> Arg::ints() const {
  for (uint32_t i = 0; i < count; ++i)
    if (ints_ptr[i].is_symbolic()) fail("a symbolic size was given where the operator needs a plain integer");
  return {reinterpret_cast<const int64_t*>(ints_ptr), count};
}

Value Arg::to_value() const {
  switch (kind) {
    case ArgKind::none:
      return {};
    case ArgKind::tensor:
      return *tensor_ptr;
    case ArgKind::int_:
      return sym();
    case ArgKind::float_:
      return number;
    case ArgKind::bool_:
      return bits != 0;
    case ArgKind::complex_:
      return std::complex<double>(complex_ptr[0], complex_ptr[1]);
    case ArgKind::string:
      return string();
    case ArgKind::device:
      return device();
    case ArgKind::generator:
      return {};
    case ArgKind::tensors:
      return Value::list({tensor_ptr, tensor_ptr + count});
    case ArgKind::ints:
      return syms();
    case ArgKind::floats:
      return Value::list({floats_ptr, floats_ptr + count});
    case ArgKind::bools:
      return Value::list({bools_ptr, bools_ptr + count});
    case ArgKind::scalars:
      return Value::list({scalars_ptr, scalars_ptr + count});
    case ArgKind::strings:
      return Value::list({strings_ptr, strings_ptr + count});
    case ArgKind::value:
      return *value_ptr;
  }
  return {};
}

}  // namespace tern
