// The random generator: a handle to PyTorch's CPU engine. `manual_seed(s)` gives PyTorch's numbers.
#pragma once
#include <cstdint>
#include <vector>

#include "tern/base/pointer.h"

namespace tern {

namespace kernels {
struct Mt19937;
}

class Generator {
 public:
  explicit Generator(uint64_t seed = 67280421310721);  // PyTorch's default seed
  void manual_seed(uint64_t seed) const;
  uint64_t initial_seed() const;
  std::vector<uint8_t> state() const;  // the bytes of torch.get_rng_state()
  void set_state(const std::vector<uint8_t>& bytes) const;
  kernels::Mt19937& engine() const { return *engine_; }

 private:
  Shared<kernels::Mt19937> engine_;
};

const Generator& default_generator();
void manual_seed(uint64_t seed);  // of the default generator
// The generator an operator draws from: the given one or the default.
inline const Generator& generator_or_default(const Generator* g) { return g ? *g : default_generator(); }

}  // namespace tern
