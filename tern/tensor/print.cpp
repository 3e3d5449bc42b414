#include "tern/tensor/print.h"

#include <algorithm>
#include <cmath>
#include <complex>

#include "tern/base/format.h"
#include "tern/tensor/nesting.h"
#include "tern/tensor/quantizer.h"
#include "tern/tensor/value.h"

namespace tern {

namespace autograd {
std::string grad_fn_name(const Tensor& t);  // autograd/autograd.h; empty for a leaf
}

namespace {

Scalar element(const Tensor& t, int64_t offset) {
  return read_scalar(t.as_view({}, {}, t.offset() + offset));
}

// How all numbers of one tensor (or one part of complex ones) are written: chosen from those that will be
// seen.
class Formatter {
 public:
  Formatter(DType dtype, const std::vector<Scalar>& seen, const PrintOptions& options)
      : floating_(is_floating(dtype)), unsigned_(dtype == DType::uint64), precision_(options.precision) {
    if (!floating_) {
      for (const Scalar& v : seen) width_ = std::max(width_, text(v).size());
      return;
    }
    double low = INFINITY, high = 0;
    std::vector<double> values;
    for (const Scalar& s : seen) {
      double v = s.to_double();
      if (!std::isfinite(v) || v == 0) continue;
      values.push_back(v);
      low = std::min(low, std::abs(v));
      high = std::max(high, std::abs(v));
      whole_ &= v == std::ceil(v);
    }
    if (values.empty()) return;
    scientific_ = options.scientific.value_or(high / low > 1000 || high > 1e8 || (!whole_ && low < 1e-4));
    for (double v : values) width_ = std::max(width_, text(v).size());
  }

  size_t width() const { return width_; }
  std::string format(const Scalar& s) const {
    std::string v = text(s);
    return v.size() < width_ ? std::string(width_ - v.size(), ' ') + v : v;
  }

 private:
  std::string text(const Scalar& s) const {
    if (!floating_) {
      if (s.is_bool()) return s.to_bool() ? "True" : "False";
      return unsigned_ ? fmt::format("{}", static_cast<uint64_t>(s.to_int())) : fmt::format("{}", s.to_int());
    }
    double v = s.to_double();
    if (std::isnan(v)) return "nan";
    if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
    if (scientific_) return fmt::format("{:.{}e}", v, precision_);
    return whole_ ? fmt::format("{:.0f}.", v) : fmt::format("{:.{}f}", v, precision_);
  }

  bool floating_, unsigned_, whole_ = true, scientific_ = false;
  int precision_;
  size_t width_ = 1;
};

class Printer {
 public:
  Printer(const Tensor& t, const PrintOptions& options)
      : t_(t), options_(options), summarize_(t.int_numel() > options.threshold) {
    std::vector<Scalar> real, imaginary;
    collect(0, 0, real, imaginary);
    if (t.is_complex()) {
      parts_.emplace_back(to_real(t.dtype()), real, options);
      parts_.emplace_back(to_real(t.dtype()), imaginary, options);
    } else {
      parts_.emplace_back(t.dtype(), real, options);
    }
  }

  std::string text(int64_t dim, int64_t offset, size_t indent) const {
    if (dim == t_.dim()) return number(offset);
    if (dim == t_.dim() - 1) return row(offset, indent);
    std::vector<std::string> slices;
    int64_t n = t_.int_sizes()[dim], stride = t_.int_strides()[dim];
    for (int64_t i = 0; i < n; ++i) {
      if (skips(n) && i == options_.edge_items) {
        slices.push_back("...");
        i = n - options_.edge_items;
      }
      slices.push_back(text(dim + 1, offset + i * stride, indent + 1));
    }
    std::string between =
        "," + std::string(static_cast<size_t>(t_.dim() - dim - 1), '\n') + std::string(indent + 1, ' ');
    return "[" + join(slices, between) + "]";
  }

 private:
  bool skips(int64_t n) const { return summarize_ && n > 2 * options_.edge_items; }

  // The elements that will be written: all of them, or the edges.
  void collect(int64_t dim, int64_t offset, std::vector<Scalar>& real, std::vector<Scalar>& imaginary) const {
    if (dim == t_.dim()) {
      Scalar s = element(t_, offset);
      if (s.is_complex()) {
        real.push_back(s.to_complex().real());
        imaginary.push_back(s.to_complex().imag());
      } else {
        real.push_back(s);
      }
      return;
    }
    int64_t n = t_.int_sizes()[dim];
    for (int64_t i = 0; i < n; ++i) {
      if (skips(n) && i == options_.edge_items) i = n - options_.edge_items;
      collect(dim + 1, offset + i * t_.int_strides()[dim], real, imaginary);
    }
  }

  std::string number(int64_t offset) const {
    Scalar s = element(t_, offset);
    if (parts_.size() == 1) return parts_[0].format(s);
    std::string imaginary = parts_[1].format(s.to_complex().imag()) + "j";
    imaginary.erase(0, imaginary.find_first_not_of(' '));
    return parts_[0].format(s.to_complex().real()) + (imaginary[0] == '-' || imaginary[0] == '+' ? "" : "+") +
           imaginary;
  }

  std::string row(int64_t offset, size_t indent) const {
    size_t length = parts_[0].width() + 2 + (parts_.size() > 1 ? parts_[1].width() + 1 : 0);
    const size_t line_width = static_cast<size_t>(std::max<int64_t>(options_.line_width, 0));
    size_t per_line = indent < line_width ? std::max<size_t>(1, (line_width - indent) / length) : 1;
    std::vector<std::string> items, lines;
    int64_t n = t_.int_sizes()[t_.dim() - 1], stride = t_.int_strides()[t_.dim() - 1];
    for (int64_t i = 0; i < n; ++i) {
      if (skips(n) && i == options_.edge_items) {
        items.push_back(" ...");
        i = n - options_.edge_items;
      }
      items.push_back(number(offset + i * stride));
    }
    for (size_t i = 0; i < items.size(); i += per_line)
      lines.push_back(
          join({items.begin() + static_cast<std::ptrdiff_t>(i),
                items.begin() + static_cast<std::ptrdiff_t>(std::min(items.size(), i + per_line))},
               ", "));
    return "[" + join(lines, ",\n" + std::string(indent + 1, ' ')) + "]";
  }

  static std::string join(const std::vector<std::string>& parts, const std::string& between) {
    std::string text;
    for (size_t i = 0; i < parts.size(); ++i) text += (i ? between : "") + parts[i];
    return text;
  }

  const Tensor& t_;
  const PrintOptions& options_;
  bool summarize_;
  std::vector<Formatter> parts_;
};

std::string shape_text(const Tensor& t) {
  std::string text = str(t.sizes());
  text.front() = '(';
  text.back() = t.dim() == 1 ? ',' : ')';
  return t.dim() == 1 ? text + ")" : text;
}

}  // namespace

namespace {
// Each tensor by itself, two columns in; PyTorch shows them as leaves where the whole requires gradients.
std::string nested_text(const Tensor& t, const PrintOptions& options) {
  std::string text = "nested_tensor([\n", inside;
  for (int64_t i = 0; i < nesting_of(t).count; ++i) {
    Tensor part = part_of(t, i);
    if (t.requires_grad()) part.requires_grad_();
    inside += (i ? ",\n" : "") + str(part, options);
  }
  text += "  ";
  if (!nesting_of(t).count) text.resize(text.size() - 2);
  for (char c : inside) text += c == '\n' ? std::string("\n  ") : std::string(1, c);
  text += "\n]";
  if (std::string node = t.requires_grad() ? autograd::grad_fn_name(t) : std::string(); !node.empty())
    text += ", grad_fn=<" + node + ">";
  else if (t.requires_grad())
    text += ", requires_grad=True";
  return text + ")";
}
}  // namespace

std::string str(const Tensor& t, const PrintOptions& options) {
  if (!t.defined()) return "None";
  if (t.is_nested()) return nested_text(t, options);
  std::string prefix = t.is_fake() && !t.is_meta() ? "FakeTensor(" : "tensor(", text;
  std::vector<std::string> suffixes;
  std::string dtype_text = fmt::format("dtype={}.{}", options.package, name(t.dtype()));
  if (t.is_quantized()) {
    // The real numbers, and what makes them.
    const Quantizer& q = quantizer_of(t);
    suffixes.push_back("size=" + shape_text(t));
    suffixes.push_back(dtype_text);
    suffixes.push_back(fmt::format("quantization_scheme={}.{}", options.package, name(q.scheme)));
    if (q.per_tensor()) {
      suffixes.push_back("scale=" + Value(q.scale).str());
      suffixes.push_back(fmt::format("zero_point={}", q.zero_point));
    } else {
      suffixes.push_back("scale=" + str(q.scales, options));
      suffixes.push_back("zero_point=" + str(q.zero_points, options));
      suffixes.push_back(fmt::format("axis={}", q.axis));
    }
    if (t.is_fake()) {
      text = "...";
    } else if (t.int_numel() == 0) {
      text = "[]";
    } else {
      Tensor numbers = dequantized(t);
      text = Printer(numbers, options).text(0, 0, prefix.size());
    }
  } else if (t.is_fake()) {
    if (t.is_meta()) suffixes.push_back("device='meta'");
    suffixes.push_back("size=" + shape_text(t));
    if (t.dtype() != default_dtype()) suffixes.push_back(dtype_text);
    text = "...";
  } else if (t.int_numel() == 0) {
    if (t.dim() != 1) suffixes.push_back("size=" + shape_text(t));
    if (t.dtype() != default_dtype()) suffixes.push_back(dtype_text);
    text = "[]";
  } else {
    const DType d = t.dtype();
    bool plain = d == default_dtype() || d == to_complex(default_dtype()) || d == kLong || d == kBool;
    if (!plain) suffixes.push_back(dtype_text);
    text = Printer(t, options).text(0, 0, prefix.size());
  }
  if (std::string node = t.requires_grad() ? autograd::grad_fn_name(t) : std::string(); !node.empty())
    suffixes.push_back("grad_fn=<" + node + ">");
  else if (t.requires_grad())
    suffixes.push_back("requires_grad=True");

  std::string result = prefix + text;
  size_t newline = result.rfind('\n');
  size_t last_line = newline == std::string::npos ? result.size() + 2 : result.size() - newline + 1;
  for (const std::string& s : suffixes) {
    if (last_line + s.size() + 2 > static_cast<size_t>(std::max<int64_t>(options.line_width, 0))) {
      result += ",\n" + std::string(prefix.size(), ' ') + s;
      last_line = prefix.size() + s.size();
    } else {
      result += ", " + s;
      last_line += s.size() + 2;
    }
  }
  result += ")";
  return t->is_parameter ? "Parameter containing:\n" + result : result;
}

std::string Tensor::str() const { return tern::str(*this, {}); }

}  // namespace tern
