// CRC-32 of zip: carry-less multiplication where the processor has it (some ten times faster than tables, and
// every weight that is written passes through here), zlib elsewhere.
#include <zlib.h>

#include "tern/io/zip.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tern::io {

#if defined(__x86_64__)
namespace {

// Folding as in Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ" (Intel, 2009):
// the constants are x^n mod P for the bit-reflected polynomial 0xEDB88320.
// Takes and gives the register before the final inversion; size is a multiple of 16 and at least 64.
__attribute__((target("pclmul,sse4.1"))) uint32_t fold(const uint8_t* p, size_t size, uint32_t crc) {
  auto load = [](const uint8_t* at) __attribute__((target("pclmul,sse4.1"))) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
  };
  auto step = [](__m128i x, __m128i k, __m128i next) __attribute__((target("pclmul,sse4.1"))) {
    __m128i low = _mm_clmulepi64_si128(x, k, 0x00), high = _mm_clmulepi64_si128(x, k, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
  };
  const __m128i by64 = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4);  // 64 bytes ahead
  const __m128i by16 = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);  // 16 bytes ahead
  __m128i x0 = _mm_xor_si128(load(p), _mm_cvtsi32_si128(static_cast<int>(crc)));
  __m128i x1 = load(p + 16), x2 = load(p + 32), x3 = load(p + 48);
  for (p += 64, size -= 64; size >= 64; p += 64, size -= 64) {
    x0 = step(x0, by64, load(p));
    x1 = step(x1, by64, load(p + 16));
    x2 = step(x2, by64, load(p + 32));
    x3 = step(x3, by64, load(p + 48));
  }
  x0 = step(step(step(x0, by16, x1), by16, x2), by16, x3);
  for (; size >= 16; p += 16, size -= 16) x0 = step(x0, by16, load(p));

  // 128 bits to 64, then Barrett reduction to 32.
  const __m128i low32 = _mm_setr_epi32(~0, 0, ~0, 0);
  x0 = _mm_xor_si128(_mm_clmulepi64_si128(x0, by16, 0x10), _mm_srli_si128(x0, 8));
  x0 = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(x0, low32), _mm_set_epi64x(0, 0x0163cd6124), 0x00),
                     _mm_srli_si128(x0, 4));
  const __m128i barrett = _mm_set_epi64x(0x01f7011641, 0x01db710641);  // mu and P
  __m128i t = _mm_clmulepi64_si128(_mm_and_si128(x0, low32), barrett, 0x10);
  t = _mm_clmulepi64_si128(_mm_and_si128(t, low32), barrett, 0x00);
  return static_cast<uint32_t>(_mm_extract_epi32(_mm_xor_si128(x0, t), 1));
}

}  // namespace
#endif

uint32_t crc32(Bytes bytes, uint32_t seed) {
#if defined(__x86_64__)
  static const bool fast = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
  if (fast && bytes.size() >= 64) {
    size_t size = bytes.size() & ~size_t{15};
    seed = ~fold(bytes.data(), size, ~seed);
    bytes = bytes.drop_front(size);
  }
#endif
  if (bytes.empty()) return seed;  // zlib takes a null pointer for "the initial value"
  return static_cast<uint32_t>(::crc32_z(seed, bytes.data(), bytes.size()));
}

}  // namespace tern::io
