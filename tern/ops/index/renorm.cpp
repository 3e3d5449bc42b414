// Rows of a table that are longer than allowed, shortened in place (the max_norm of embeddings).
#include <algorithm>
#include <cmath>

#include "tern/base/format.h"
#include "tern/ops.h"
#include "tern/ops/elements.h"
#include "tern/ops/index.args.h"

namespace tern {
namespace {

template <class T>
double row_norm(const T* row, int64_t width, int64_t stride, double p) {
  using W = wide_t<T>;
  double total = p == -INFINITY ? INFINITY : 0;
  for (int64_t k = 0; k < width; ++k) {
    const double v = std::fabs(static_cast<double>(static_cast<W>(row[k * stride])));
    if (p == INFINITY)
      total = std::isnan(v) ? v : std::max(total, v);
    else if (p == -INFINITY)
      total = std::isnan(v) ? v : std::min(total, v);
    else
      total += p == 0 ? double(v != 0) : p == 1 ? v : p == 2 ? v * v : std::pow(v, p);
  }
  if (p == 2) return std::sqrt(total);
  return std::isinf(p) || p == 0 || p == 1 ? total : std::pow(total, 1 / p);
}

}  // namespace

Tensor kernel_embedding_renorm_(const args::embedding_renorm_& a) {
  if (a.self.dim() != 2)
    failf(
        "Expected 2-dimensional tensor, but got {}-dimensional tensor for argument #1 'self' (while checking "
        "arguments for embedding_renorm_)",
        a.self.dim());
  if (a.indices.dtype() != kLong && a.indices.dtype() != kInt)
    failf(
        "Expected tensor for argument #2 'indices' to have one of the following scalar types: Long, Int; but "
        "got "
        "torch.{}Tensor instead (while checking arguments for embedding_renorm_)",
        script_name(a.indices.dtype()));
  if (!a.self.is_floating_point())
    failf("norm(): input dtype should be either floating point or complex. Got {} instead.",
          script_name(a.self.dtype()));
  begin_write(a.self);
  if (a.self.is_fake() || a.indices.is_fake()) return a.self;
  std::vector<int64_t> rows = a.indices.to_vector<int64_t>();
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  const int64_t count = a.self.int_sizes()[0], width = a.self.int_sizes()[1];
  for (int64_t r : rows)
    if (r < 0 || r >= count)
      failf(ErrorKind::index, "select(): index {} out of range for tensor of size {} at dimension 0", r,
            str(a.self.sizes()));
  by_float_dtype("embedding_renorm_", a.self.dtype(), [&]<class T>(T) {
    using W = wide_t<T>;
    const int64_t stride = a.self.int_strides()[1];
    parallel_for(
        0, static_cast<int64_t>(rows.size()), std::max<int64_t>(1, 4096 / (width + 1)),
        [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            T* row = static_cast<T*>(a.self.data()) + rows[static_cast<size_t>(i)] * a.self.int_strides()[0];
            const double norm = static_cast<double>(
                static_cast<W>(static_cast<T>(static_cast<W>(row_norm(row, width, stride, a.norm_type)))));
            if (!(norm > a.max_norm)) continue;
            const W scale = static_cast<W>(a.max_norm / (norm + 1e-7));
            for (int64_t k = 0; k < width; ++k)
              row[k * stride] = static_cast<T>(static_cast<W>(row[k * stride]) * scale);
          }
        });
  });
  return a.self;
}

}  // namespace tern
