# The libraries the product links, gathered in tern_dependencies. docs/dependencies.md has the reason of each.
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
if(TERN_OPENMP)
  find_package(OpenMP REQUIRED COMPONENTS CXX)
endif()
find_package(ZLIB REQUIRED)
find_package(fmt REQUIRED)

# These have no CMake files that all distributions agree on: a header and a library are enough.
function(tern_find_library name header)
  string(TOUPPER TERN_${name} variable)
  find_path(${variable}_INCLUDE_DIR ${header} PATH_SUFFIXES openblas)
  find_library(${variable}_LIBRARY ${name})
  if(NOT ${variable}_INCLUDE_DIR OR NOT ${variable}_LIBRARY)
    message(FATAL_ERROR "${name} is missing (${header}); `make packages` installs what Tern needs")
  endif()
  add_library(tern_${name} INTERFACE)
  target_include_directories(tern_${name} SYSTEM INTERFACE ${${variable}_INCLUDE_DIR})
  target_link_libraries(tern_${name} INTERFACE ${${variable}_LIBRARY})
endfunction()
tern_find_library(dnnl dnnl.h)
tern_find_library(hwy hwy/highway.h)
tern_find_library(openblas cblas.h)
tern_find_library(lapacke lapacke.h)

add_library(tern_dependencies INTERFACE)
target_link_libraries(tern_dependencies INTERFACE Threads::Threads $<$<BOOL:${TERN_OPENMP}>:OpenMP::OpenMP_CXX> ZLIB::ZLIB fmt::fmt
  tern_dnnl tern_hwy tern_lapacke tern_openblas ${CMAKE_DL_LIBS})
