# The libraries the product links, gathered in tern_dependencies. docs/dependencies.md has the reason of each.
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
if(TERN_OPENMP)
  find_package(OpenMP REQUIRED COMPONENTS CXX)
endif()
find_package(ZLIB REQUIRED)
find_package(fmt REQUIRED)

# These have no CMake files that all distributions agree on: a header is enough, for none of them is linked.
function(tern_find name header)
  string(TOUPPER TERN_${name} variable)
  find_path(${variable}_INCLUDE_DIR ${header} PATH_SUFFIXES openblas)
  if(NOT ${variable}_INCLUDE_DIR)
    message(FATAL_ERROR "${name} is missing (${header}); `make packages` installs what Tern needs")
  endif()
  add_library(tern_${name} INTERFACE)
  target_include_directories(tern_${name} SYSTEM INTERFACE ${${variable}_INCLUDE_DIR})
endfunction()
tern_find(hwy hwy/highway.h)

# Loaded when first needed (tern/kernels/late.h), by the name that the linker would have recorded.
function(tern_load_late name header macro)
  tern_find(${name} ${header})
  string(TOUPPER TERN_${name} variable)
  find_library(${variable}_LIBRARY ${name})
  execute_process(COMMAND ${CMAKE_OBJDUMP} -p ${${variable}_LIBRARY} OUTPUT_VARIABLE facts ERROR_QUIET)
  if(NOT facts MATCHES "SONAME +([^ \n]+)")
    message(FATAL_ERROR "lib${name}.so is missing; `make packages` installs what Tern needs")
  endif()
  set_property(SOURCE tern/kernels/late.cpp APPEND PROPERTY COMPILE_DEFINITIONS ${macro}="${CMAKE_MATCH_1}")
endfunction()
tern_load_late(dnnl dnnl.h TERN_ONEDNN_FILE)
tern_load_late(openblas cblas.h TERN_OPENBLAS_FILE)
tern_load_late(lapacke lapacke.h TERN_LAPACKE_FILE)

add_library(tern_dependencies INTERFACE)
target_link_libraries(tern_dependencies INTERFACE Threads::Threads $<$<BOOL:${TERN_OPENMP}>:OpenMP::OpenMP_CXX> ZLIB::ZLIB fmt::fmt
  tern_dnnl tern_hwy tern_lapacke tern_openblas ${CMAKE_DL_LIBS})
