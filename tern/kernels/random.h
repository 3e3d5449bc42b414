// PyTorch's CPU random numbers, number for number: the same seed gives the same values as torch does on a
// machine where it takes its portable path (on Intel processors torch draws bernoulli_ and exponential_ from
// MKL instead).
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>

#include "tern/tensor/dtype.h"

namespace tern::kernels {

struct Mt19937 {
  static constexpr uint64_t default_seed = 67280421310721;
  static constexpr size_t state_bytes = 5056;  // what torch.get_rng_state() holds

  explicit Mt19937(uint64_t seed_value = default_seed) { seed(seed_value); }
  void seed(uint64_t value);  // forgets the cached normal numbers
  uint64_t initial_seed() const { return seed_; }
  uint32_t random() {
    if (--left_ == 0) next_state();
    uint32_t y = state_[next_++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680;
    y ^= (y << 15) & 0xefc60000;
    return y ^ (y >> 18);
  }
  uint64_t random64() {
    const uint64_t high = random();
    return high << 32 | random();
  }
  // The next n numbers, as random() would give them.
  void random(uint32_t* out, int64_t n);
  void save_state(void* bytes) const;  // state_bytes of them
  void load_state(const void* bytes);  // throws `value` when they are not a generator's state

  std::optional<double> next_double_normal;
  std::optional<float> next_float_normal;

 private:
  void next_state();

  uint64_t seed_ = 0;
  int left_ = 1;
  uint32_t next_ = 0;
  uint32_t state_[624];
};

// Each fills n contiguous elements of the type in order. Floating types for the first group; throw
// not_supported for others.
void uniform(Mt19937& generator, DType type, void* out, int64_t n, double from, double to);
// torch draws differently for 16 and more contiguous elements than for others: say whether the tensor is
// contiguous.
void normal(Mt19937& generator, DType type, void* out, int64_t n, double mean, double std,
            bool contiguous = true);
void exponential(Mt19937& generator, DType type, void* out, int64_t n, double lambda);
void log_normal(Mt19937& generator, DType type, void* out, int64_t n, double mean, double std);
void cauchy(Mt19937& generator, DType type, void* out, int64_t n, double median, double sigma);
// Any type.
void geometric(Mt19937& generator, DType type, void* out, int64_t n, double p);
void bernoulli(Mt19937& generator, DType type, void* out, int64_t n, double p);  // dropout uses this one
void bernoulli(Mt19937& generator, DType type, void* out, int64_t n, DType p_type, const void* p);
void random_from_to(Mt19937& generator, DType type, void* out, int64_t n, int64_t from, uint64_t range);
void random(Mt19937& generator, DType type, void* out,
            int64_t n);  // random_(): the whole range of the type from 0
void random_full_64_bits(Mt19937& generator, DType type, void* out, int64_t n);
void randperm(Mt19937& generator, DType type, void* out, int64_t n);
// rows x categories probabilities (contiguous floating, not negative), rows x samples indices. Throws `value`
// for probabilities that are negative, infinite, NaN or sum to nothing.
void multinomial(Mt19937& generator, DType type, const void* probabilities, int64_t rows, int64_t categories,
                 int64_t samples, bool replacement, int64_t* out);

}  // namespace tern::kernels
