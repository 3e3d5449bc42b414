# How every translation unit is compiled and linked. tern_options carries what is ours alone (warnings, include paths), so
# that third-party code that is built along (nanobind) does not meet our warnings.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_SCAN_FOR_MODULES OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
# The hot loops live in tern/kernels, which gets -O3 (cmake/library.cmake); elsewhere -O3 only costs build time and size.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")

# ccache: paths below the source folder are hashed as relative ones, so that worktrees share their results; the slack is
# what its manual asks for with precompiled headers.
find_program(TERN_CCACHE ccache)
if(TERN_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${TERN_CCACHE})
endif()

include(CheckLinkerFlag)
check_linker_flag(CXX -fuse-ld=mold TERN_HAVE_MOLD)
if(TERN_HAVE_MOLD)
  add_link_options(-fuse-ld=mold)
endif()
add_link_options(-Wl,--as-needed)

if(TERN_SANITIZE)
  add_compile_options(-fsanitize=${TERN_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${TERN_SANITIZE})
endif()

add_library(tern_options INTERFACE)
target_include_directories(tern_options INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated)
target_compile_options(tern_options INTERFACE
  -Wall -Wextra -Wno-missing-field-initializers
  # g++ 12 sees overlaps and overruns in std::string's own code that are not there.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict> $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds> $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow>
  $<$<BOOL:${TERN_WERROR}>:-Werror>
  -fno-plt -fno-semantic-interposition -fno-math-errno
  # What __FILE__ and std::source_location say: tests/base/x.cpp, on whichever machine it was built.
  -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/= -fmacro-prefix-map=../../=)
# x86-64 has no fused multiply-add without -march, ARM64 always: a compiler that fuses on its own would give other numbers
# there, random ones among them. Kernels that Highway compiles are fused on both (cmake/library.cmake).
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(tern_options INTERFACE -ffp-contract=off)
endif()
if(TERN_SANITIZE)
  # With a sanitizer's checks in between the compiler no longer sees what is set on which path.
  target_compile_options(tern_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
endif()
