// Sobol's sequence: points of the unit cube that fill it evenly, from exclusive ors of direction numbers.
#include <bit>

#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"
#include "tern/ops.h"
#include "tern/ops/elements.h"
#include "tern/ops/quasirandom.args.h"
#include "tern/ops/quasirandom/directions.h"

namespace tern {
namespace {

void check_long(const char* what, const Tensor& t) {
  if (t.dtype() != kLong) failf("{} needs to be of type Long", what);
}
void check_state(const char* op, const Tensor& state, int64_t dimension) {
  check_long("sobolstate", state);
  if (dimension < 0 || state.dim() != 2 || !(state.sizes()[0] >= SymInt(dimension)) ||
      !(state.sizes()[1] == SymInt(sobol_bits)))
    failf("{}: sobolstate must be of size [{}, {}], one row for each dimension, but is of size {}", op,
          dimension, sobol_bits, str(state.sizes()));
}
void check_quasi(const char* op, const Tensor& quasi, int64_t dimension, int64_t generated) {
  check_long("quasi", quasi);
  if (quasi.dim() != 1 || !(quasi.sizes()[0] >= SymInt(dimension)))
    failf("{}: quasi must be of size [{}], but is of size {}", op, dimension, str(quasi.sizes()));
  if (generated < 0) failf("{}: num_generated must not be negative, but is {}", op, generated);
}

// Which direction number the step to point `index` + 1 brings in: that of the lowest zero bit.
int64_t step_bit(const char* op, int64_t index) {
  const int bit = std::countr_one(static_cast<uint64_t>(index));
  if (bit >= sobol_bits) failf("{}: the sequence has no more than 2^{} points", op, sobol_bits);
  return bit;
}

// Row-major numbers of t, written back where they are a copy.
template <class F>
Tensor rewrite(const Tensor& t, F f) {
  begin_write(t);
  Tensor dense = row_major(t);
  f(dense.data_ptr<int64_t>());
  if (!dense.is_same(t)) copy_elements(dense, t);
  return t;
}

}  // namespace

Shapes shape__sobol_engine_draw(const args::_sobol_engine_draw& a) {
  check_state("_sobol_engine_draw", a.sobolstate, a.dimension);
  check_quasi("_sobol_engine_draw", a.quasi, a.dimension, a.num_generated);
  const DType dtype = a.dtype.value_or(kFloat);
  if (dtype != kFloat && dtype != kDouble) not_implemented_for("_sobol_engine_draw", dtype);
  return {Shape(Dims{SymInt(a.n), SymInt(a.dimension)}, dtype), Shape(a.quasi.sizes(), kLong)};
}
void kernel__sobol_engine_draw(const args::_sobol_engine_draw& a, Out out) {
  copy_elements(a.quasi, out[1]);
  Tensor state = row_major(a.sobolstate);
  const int64_t* directions = state.data_ptr<int64_t>();
  int64_t* quasi = out[1].data_ptr<int64_t>();
  by_real_dtype("_sobol_engine_draw", out[0].dtype(), [&]<class T>(T) {
    if constexpr (std::is_floating_point_v<T>) {
      T* points = static_cast<T*>(out[0].data());
      for (int64_t i = 0; i < a.n; ++i) {
        const int64_t bit = step_bit("_sobol_engine_draw", a.num_generated + i);
        for (int64_t d = 0; d < a.dimension; ++d) {
          quasi[d] ^= directions[d * sobol_bits + bit];
          points[i * a.dimension + d] = static_cast<T>(quasi[d]) * (T(1) / T(1 << sobol_bits));
        }
      }
    }
  });
}

Tensor kernel__sobol_engine_ff_(const args::_sobol_engine_ff_& a) {
  check_state("_sobol_engine_ff_", a.sobolstate, a.dimension);
  check_quasi("_sobol_engine_ff_", a.self, a.dimension, a.num_generated);
  Tensor state = row_major(a.sobolstate);
  const int64_t* directions = state.data_ptr<int64_t>();
  return rewrite(a.self, [&](int64_t* quasi) {
    for (int64_t i = 0; i < a.n; ++i) {
      const int64_t bit = step_bit("_sobol_engine_ff_", a.num_generated + i);
      for (int64_t d = 0; d < a.dimension; ++d) quasi[d] ^= directions[d * sobol_bits + bit];
    }
  });
}

Tensor kernel__sobol_engine_scramble_(const args::_sobol_engine_scramble_& a) {
  check_state("_sobol_engine_scramble_", a.self, a.dimension);
  if (a.ltm.dtype() != kLong) failf("expected scalar type Long but found {}", script_name(a.ltm.dtype()));
  if (a.ltm.dim() != 3 || a.ltm.int_sizes()[0] < a.dimension || a.ltm.int_sizes()[1] != sobol_bits ||
      a.ltm.int_sizes()[2] != sobol_bits)
    failf("_sobol_engine_scramble_: ltm must be of size [{}, {}, {}], but is of size {}", a.dimension,
          sobol_bits, sobol_bits, str(a.ltm.sizes()));
  Tensor matrices = row_major(a.ltm);
  const int64_t* ltm = matrices.data_ptr<int64_t>();
  return rewrite(a.self, [&](int64_t* state) {
    for (int64_t d = 0; d < a.dimension; ++d) {
      uint64_t
          rows[sobol_bits];  // a row's elements as bits, the first the highest; the diagonal counts as ones
      for (int p = 0; p < sobol_bits; ++p) {
        rows[p] = 0;
        for (int k = 0; k < sobol_bits; ++k) {
          const int64_t element = k == p ? 1 : ltm[(d * sobol_bits + p) * sobol_bits + k];
          rows[p] += static_cast<uint64_t>(element) << (sobol_bits - 1 - k);
        }
      }
      for (int j = 0; j < sobol_bits; ++j) {
        int64_t& number = state[d * sobol_bits + j];
        const uint64_t bits = static_cast<uint64_t>(number) & ((1u << sobol_bits) - 1);
        number = 0;
        for (int p = 0; p < sobol_bits; ++p)
          number |= static_cast<int64_t>(std::popcount(rows[p] & bits) & 1) << (sobol_bits - 1 - p);
      }
    }
  });
}

Tensor kernel__sobol_engine_initialize_state_(const args::_sobol_engine_initialize_state_& a) {
  check_state("_sobol_engine_initialize_state_", a.self, a.dimension);
  if (a.dimension > sobol_dimensions)
    failf("_sobol_engine_initialize_state_: Tern has the direction numbers of {} dimensions, not of {}",
          sobol_dimensions, a.dimension);
  return rewrite(a.self, [&](int64_t* state) {
    const std::vector<int64_t> directions = sobol_directions(std::max<int64_t>(a.dimension, 1));
    if (a.self.int_numel() > 0) std::copy(directions.begin(), directions.end(), state);
  });
}

}  // namespace tern
