// Libraries that are loaded when one of their functions is first called. Linking them would cost every
// process that starts (20,000 relocations, OpenBLAS's threads), also those that compute nothing.
#pragma once
#include <cstdint>

namespace tern::kernels {

enum class Library : uint8_t { onednn, openblas, lapacke };

// Throws Error(not_supported) that says which library is missing.
void* late_function(Library library, const char* name);

}  // namespace tern::kernels

// The function of that name: ONEDNN(dnnl_sgemm)(...). Its header declares it, nobody links it.
#define TERN_LATE(library, function)                                                   \
  ([]() -> decltype(&function) {                                                       \
    static const auto at = reinterpret_cast<decltype(&function)>(                      \
        ::tern::kernels::late_function(::tern::kernels::Library::library, #function)); \
    return at;                                                                         \
  }())
#define ONEDNN(function) TERN_LATE(onednn, function)
#define BLAS(function) TERN_LATE(openblas, function)
#define LAPACK(function) TERN_LATE(lapacke, function)
