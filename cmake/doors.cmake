# What stands on the library: the command, the Python extension, the examples and the benchmarks. Each is skipped while its
# folder has no source.

# tools/tern/*.cpp -> <build>/tern
file(GLOB TERN_TOOL_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tools/tern/*.cpp)
if(TERN_BUILD_TOOLS AND TERN_TOOL_SOURCES)
  find_package(CLI11 REQUIRED)
  add_executable(tern_command ${TERN_TOOL_SOURCES})
  target_link_libraries(tern_command PRIVATE tern_options tern_static CLI11::CLI11)
  set_target_properties(tern_command PROPERTIES OUTPUT_NAME tern RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
  tern_after_generation(tern_command)
endif()

# examples/NAME.cpp -> <build>/examples/NAME
file(GLOB TERN_EXAMPLES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/examples/*.cpp)
if(TERN_BUILD_EXAMPLES)
  foreach(source ${TERN_EXAMPLES})
    get_filename_component(name ${source} NAME_WE)
    add_executable(example_${name} ${source})
    target_link_libraries(example_${name} PRIVATE tern_options tern_static)
    set_target_properties(example_${name} PROPERTIES OUTPUT_NAME ${name}
      RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/examples)
    tern_after_generation(example_${name})
  endforeach()
endif()

# bench/NAME.cpp -> <build>/bench/NAME
file(GLOB TERN_BENCHES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/*.cpp)
if(TERN_BUILD_BENCH AND TERN_BENCHES)
  find_package(benchmark REQUIRED)
  foreach(source ${TERN_BENCHES})
    get_filename_component(name ${source} NAME_WE)
    add_executable(bench_${name} ${source})
    target_link_libraries(bench_${name} PRIVATE tern_options tern_static tern_dependencies benchmark::benchmark benchmark::benchmark_main)
    set_target_properties(bench_${name} PROPERTIES OUTPUT_NAME ${name}
      RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bench)
    tern_after_generation(bench_${name})
  endforeach()
endif()

# python/*.cpp -> <build>/python/tern/_tern.*.so, beside links to the package's Python files: PYTHONPATH=<build>/python.
file(GLOB TERN_PYTHON_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/*.cpp)
file(GLOB_RECURSE TERN_PYTHON_FILES CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/python
  ${PROJECT_SOURCE_DIR}/python/tern/*.py ${PROJECT_SOURCE_DIR}/python/tern/*.pyi ${PROJECT_SOURCE_DIR}/python/tern/py.typed)
if(TERN_PYTHON AND TERN_PYTHON_SOURCES)
  set(interpreter "${TERN_PYTHON_EXECUTABLE}")
  if(NOT interpreter AND EXISTS ${PROJECT_SOURCE_DIR}/.venv/bin/python)
    set(interpreter ${PROJECT_SOURCE_DIR}/.venv/bin/python)
  endif()
  if(interpreter AND NOT DEFINED SKBUILD)  # scikit-build-core names the interpreter it builds for
    set(Python_EXECUTABLE ${interpreter})
  endif()
  find_package(Python 3.9 QUIET COMPONENTS Interpreter Development.Module)
  if(Python_Interpreter_FOUND AND NOT nanobind_DIR)
    execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir
      OUTPUT_VARIABLE nanobind_dir OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(nanobind_dir)
      set(nanobind_ROOT ${nanobind_dir})
    endif()
  endif()
  if(Python_Development.Module_FOUND)
    find_package(nanobind CONFIG QUIET)
  endif()
  if(nanobind_FOUND)
    nanobind_add_module(tern_python STABLE_ABI NB_STATIC NOMINSIZE ${TERN_PYTHON_SOURCES})
    target_link_libraries(tern_python PRIVATE tern_options tern_static)
    set_target_properties(tern_python PROPERTIES OUTPUT_NAME _tern
      LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/python/tern)
    tern_after_generation(tern_python)
    foreach(name ${TERN_PYTHON_FILES})
      get_filename_component(folder ${PROJECT_BINARY_DIR}/python/${name} DIRECTORY)
      file(MAKE_DIRECTORY ${folder})
      file(CREATE_LINK ${PROJECT_SOURCE_DIR}/python/${name} ${PROJECT_BINARY_DIR}/python/${name} SYMBOLIC)
    endforeach()
  elseif(TERN_PYTHON STREQUAL "AUTO")
    message(STATUS "Python extension: skipped (no Python headers or no nanobind for ${Python_EXECUTABLE}; `make venv`)")
  else()
    message(FATAL_ERROR "TERN_PYTHON=${TERN_PYTHON}, but nanobind or the Python headers are missing for "
      "'${Python_EXECUTABLE}'; run `make venv`, or point TERN_PYTHON_EXECUTABLE at an interpreter that has nanobind")
  endif()
endif()

# What users get, without examples, benchmarks and tests: `make build`.
add_custom_target(product)
foreach(part tern_static tern_shared tern_command tern_python)
  if(TARGET ${part})
    add_dependencies(product ${part})
  endif()
endforeach()
