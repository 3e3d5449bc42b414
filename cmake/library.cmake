# One set of objects, two libraries: tern_static (tests, tools, Python: hidden internals are reachable) and tern_shared
# (installed; exports what cmake/exports.map lists).
file(GLOB_RECURSE TERN_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tern/*.cpp)
add_library(tern_objects OBJECT ${TERN_SOURCES} ${TERN_GENERATED_SOURCES})
target_link_libraries(tern_objects PUBLIC tern_options tern_dependencies)
set_target_properties(tern_objects PROPERTIES VISIBILITY_INLINES_HIDDEN ON)
tern_after_generation(tern_objects)

# Kernels are internal: hidden, whatever the export list says, and worth the optimiser's time. Highway compiles each for
# every instruction set and chooses at run time, so no -march here or anywhere.
file(GLOB_RECURSE TERN_KERNEL_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tern/kernels/*.cpp)
set_source_files_properties(${TERN_KERNEL_SOURCES} PROPERTIES
  COMPILE_OPTIONS "$<$<CONFIG:Release>:-O3>;-fvisibility=hidden;-fno-trapping-math")  # nobody traps: floor and selects vectorise
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  foreach(source ${TERN_KERNEL_SOURCES})
    file(STRINGS ${source} highway REGEX "define HWY_TARGET_INCLUDE")
    if(highway)
      set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS -ffp-contract=fast)
    endif()
  endforeach()
endif()

# What nearly every file includes, read once: a fifth of the time to compile. Our own headers are not among it, so that each
# file says what it needs of them; kernels have flags of their own.
if(NOT TERN_SANITIZE)
  target_precompile_headers(tern_objects PRIVATE <algorithm> <atomic> <complex> <cstdint> <cstring> <map> <memory> <mutex> <optional>
    <string> <string_view> <unordered_map> <unordered_set> <utility> <variant> <vector> <fmt/core.h>)
  set_source_files_properties(${TERN_KERNEL_SOURCES} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
endif()

# A sanitizer doubles the time to compile: where there is much code and no loop the optimiser is left out.
if(TERN_SANITIZE)
  set(unoptimised ${TERN_SOURCES})
  list(FILTER unoptimised INCLUDE REGEX "/tern/(ops|nn|optim|onnx|runtime|script|tensor|sym|tree)/")
  set_property(SOURCE ${unoptimised} ${TERN_GENERATED_SOURCES} APPEND PROPERTY COMPILE_OPTIONS -O0)
endif()

add_library(tern_static STATIC $<TARGET_OBJECTS:tern_objects>)
add_library(tern::static ALIAS tern_static)
target_include_directories(tern_static PUBLIC
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<BUILD_INTERFACE:${TERN_GENERATED_DIR}>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(tern_static PUBLIC $<BUILD_INTERFACE:tern_dependencies>)
target_compile_features(tern_static PUBLIC cxx_std_20)
set_target_properties(tern_static PROPERTIES OUTPUT_NAME tern EXPORT_NAME static)
tern_after_generation(tern_static)

if(TERN_SHARED)
  set(exports ${PROJECT_SOURCE_DIR}/cmake/exports.map)
  add_library(tern_shared SHARED $<TARGET_OBJECTS:tern_objects>)
  add_library(tern::tern ALIAS tern_shared)
  target_include_directories(tern_shared PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<BUILD_INTERFACE:${TERN_GENERATED_DIR}>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(tern_shared PRIVATE tern_dependencies)
  target_compile_features(tern_shared PUBLIC cxx_std_20)
  # Calls inside the library go straight, not through the table an interposer could change.
  target_link_options(tern_shared PRIVATE -Wl,--version-script=${exports} -Wl,-Bsymbolic-functions)
  if(NOT TERN_SANITIZE)
    target_link_options(tern_shared PRIVATE -Wl,--no-undefined)
  endif()
  set_target_properties(tern_shared PROPERTIES OUTPUT_NAME tern EXPORT_NAME tern LINK_DEPENDS ${exports}
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
  tern_after_generation(tern_shared)
endif()
