// The Generator handle. It stands here and not in the tensor room because its engine is one of the kernels.
#include "tern/tensor/generator.h"

#include "tern/base/format.h"
#include "tern/kernels/random.h"

namespace tern {

Generator::Generator(uint64_t seed) : engine_(new_shared<kernels::Mt19937>(seed)) {}
void Generator::manual_seed(uint64_t seed) const { engine_->seed(seed); }
uint64_t Generator::initial_seed() const { return engine_->initial_seed(); }

std::vector<uint8_t> Generator::state() const {
  std::vector<uint8_t> bytes(kernels::Mt19937::state_bytes);
  engine_->save_state(bytes.data());
  return bytes;
}

void Generator::set_state(const std::vector<uint8_t>& bytes) const {
  if (bytes.size() != kernels::Mt19937::state_bytes)
    failf(ErrorKind::value, "set_state: expected a state of {} bytes but got {}",
          size_t{kernels::Mt19937::state_bytes}, bytes.size());
  engine_->load_state(bytes.data());
}

const Generator& default_generator() {
  static const Generator generator;
  return generator;
}
void manual_seed(uint64_t seed) { default_generator().manual_seed(seed); }

}  // namespace tern
