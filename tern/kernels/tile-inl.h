// How many rows a tile of a product has on the instruction set that is being compiled.
#if defined(TERN_KERNELS_TILE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TERN_KERNELS_TILE_INL
#undef TERN_KERNELS_TILE_INL
#else
#define TERN_KERNELS_TILE_INL
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {
namespace {

// With two vectors a row, as many sums as fit in the registers beside the weights and an element.
#if HWY_TARGET == HWY_AVX3
constexpr int kTileRows = 12;
#elif HWY_TARGET == HWY_AVX2
constexpr int kTileRows = 6;
#else
constexpr int kTileRows = 4;
#endif

}  // namespace
}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
