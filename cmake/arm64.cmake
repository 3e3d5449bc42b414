# A toolchain file: Debian's cross compiler for ARM64, the libraries that tools/arm64-root unpacked, and qemu to run what was
# built (opgen during the build, the tests after it). The preset arm64 uses it; TERN_ARM64_ROOT says where the libraries are.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

set(TERN_ARM64_ROOT ${CMAKE_CURRENT_LIST_DIR}/../build/arm64-root CACHE PATH "Where tools/arm64-root unpacked the libraries")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES TERN_ARM64_ROOT)
if(NOT EXISTS ${TERN_ARM64_ROOT}/.complete)
  message(FATAL_ERROR "there are no ARM64 libraries in ${TERN_ARM64_ROOT}; `make arm64` fetches them, or `tools/arm64-root <folder>` "
    "and -DTERN_ARM64_ROOT=<folder>")
endif()
set(CMAKE_FIND_ROOT_PATH ${TERN_ARM64_ROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

set(CMAKE_CROSSCOMPILING_EMULATOR "qemu-aarch64;-L;${TERN_ARM64_ROOT}" CACHE STRING "What runs the programs; tests/run reads it")
set(CMAKE_SKIP_RPATH ON)  # paths of this machine mean nothing there
