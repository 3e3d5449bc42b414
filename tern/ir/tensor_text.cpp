// A tensor as PyTorch's C++ prints it, which is what print() and str() of a script show: its elements in
// columns of one width, then "[ CPUFloatType{2,3} ]".
#include <cmath>

#include "tern/base/format.h"
#include "tern/dispatch/ladder.h"
#include "tern/ir/builtin_families.h"

namespace tern::ir {
namespace {

constexpr int64_t line_width = 80;

// How all elements of a matrix, or of a vector, are written.
struct Columns {
  enum Kind { general, scientific, fixed } kind = general;
  int width = 0;
  double scale = 1;

  std::string operator()(double v) const {
    v /= scale;
    if (!std::isfinite(v))
      return fmt::format("{:>{}}", std::isnan(v) ? "nan" : v < 0 ? "-inf" : "inf", width);
    switch (kind) {
      case scientific:
        return fmt::format("{:>{}.4e}", v, width);
      case fixed:
        return fmt::format("{:>{}.4f}", v, width);
      default:
        return fmt::format("{:>{}.6g}", v, width);
    }
  }
};

Columns columns_for(Span<const double> values) {
  bool whole = true, any = false;
  double least = 0, most = 0;
  for (double v : values) {
    if (!std::isfinite(v)) continue;
    if (v != std::ceil(v)) whole = false;
    double size = std::fabs(v);
    least = any ? std::min(least, size) : size;
    most = any ? std::max(most, size) : size;
    any = true;
  }
  auto digits = [](double v) { return v != 0 ? std::floor(std::log10(v)) + 1 : 1.0; };
  double low = any ? digits(least) : 1, high = any ? digits(most) : 1;
  if (whole) {
    if (high > 9) return {Columns::scientific, 11};
    return {Columns::general, static_cast<int>(high) + 1};
  }
  if (high - low > 4) return {Columns::scientific, std::fabs(high) > 99 || std::fabs(low) > 99 ? 12 : 11};
  if (high > 5 || high < 0) return {Columns::fixed, 7, std::pow(10.0, high - 1)};
  return {Columns::fixed, high == 0 ? 7 : static_cast<int>(high) + 6};
}

std::string scale_line(const Columns& c) { return fmt::format("{} *\n", c.scale); }

void matrix(std::string& out, Span<const double> values, int64_t rows, int64_t columns, int64_t indent) {
  Columns shown = columns_for(values);
  const std::string margin(static_cast<size_t>(indent), ' ');
  int64_t per_line = std::max<int64_t>((line_width - indent) / (shown.width + 1), 1);
  for (int64_t first = 0; first < columns; first += per_line) {
    int64_t last = std::min(first + per_line, columns) - 1;
    if (per_line < columns) {
      if (first) out += "\n";
      out += fmt::format("Columns {} to {}", first + 1, last + 1) + margin;
    }
    if (shown.scale != 1) out += scale_line(shown) + margin;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = first; c <= last; ++c) {
        out += shown(values[static_cast<size_t>(r * columns + c)]);
        if (c < last) out += " ";
      }
      out += "\n";
      if (r + 1 < rows) out += margin + (shown.scale != 1 ? " " : "");
    }
  }
}

// The last two dimensions at a time, each under its place: "(1,2,.,.) = ".
void slices(std::string& out, Span<const double> values, const std::vector<int64_t>& sizes) {
  size_t leading = sizes.size() - 2;
  int64_t rows = sizes[leading], columns = sizes[leading + 1];
  size_t size = static_cast<size_t>(rows * columns);
  for (size_t at = 0; at < values.size(); at += size) {
    if (at) out += "\n";
    std::string place;
    size_t rest = at / size;
    for (size_t d = leading; d-- > 0; rest /= static_cast<size_t>(sizes[d]))
      place = std::to_string(rest % static_cast<size_t>(sizes[d]) + 1) + "," + place;
    out += "(" + place + ".,.) = \n";
    matrix(out, Span<const double>(values.data() + at, size), rows, columns, 1);
  }
}

// What the elements are as float64; of complex numbers the real part.
std::vector<double> values_of(const Tensor& t) {
  static const Op &dequantize = get_op("aten::dequantize.self"), &real = get_op("aten::real");
  Tensor x = t.detach();
  if (x.is_quantized()) {
    Arg a[] = {x};
    x = call1(dequantize, a);
  } else if (x.is_complex()) {
    Arg a[] = {x};
    x = call1(real, a);
  }
  x = x.to(kDouble, false, false, Loc{}).contiguous(MemoryFormat::contiguous, Loc{});
  const auto* data = static_cast<const double*>(x.data());
  return {data, data + x.numel().as_int()};
}

}  // namespace

std::string builtin::tensor_text(const Tensor& t) {
  if (!t.defined()) return "[ Tensor (undefined) ]";
  if (t.is_fake() || t.is_meta() || t.is_symbolic()) return V(t).str();  // there are no elements to show
  if (t.is_nested()) return V(t).str();
  std::vector<double> values = values_of(t);
  std::vector<int64_t> sizes;
  std::string shape, out;
  for (SymInt n : t.sizes()) {
    sizes.push_back(n.as_int());
    shape += (shape.empty() ? "" : ",") + std::to_string(sizes.back());
  }
  if (sizes.empty()) {
    out = Columns{}(values[0]) + "\n";
  } else if (values.empty()) {
  } else if (sizes.size() == 1) {
    Columns shown = columns_for(values);
    if (shown.scale != 1) out += scale_line(shown);
    for (double v : values) out += shown(v) + "\n";
  } else if (sizes.size() == 2) {
    matrix(out, values, sizes[0], sizes[1], 0);
  } else {
    slices(out, values, sizes);
  }
  return out + "[ " + (t.is_quantized() ? "Quantized" : "") + "CPU" + std::string(script_name(t.dtype())) +
         "Type{" + shape + "} ]";
}

}  // namespace tern::ir
