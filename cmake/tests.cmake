# tests/<room>/**/*.cpp -> <build>/tests/tern_test_<room>, one program a room so that a change links little; all share
# tests/support/ and one precompiled header. They link the static library: hidden internals are testable.
if(NOT TERN_BUILD_TESTS)
  return()
endif()
enable_testing()
# Executables and the library that makes the precompiled header must agree: both as the compiler does by default.
set(CMAKE_POSITION_INDEPENDENT_CODE OFF)
find_package(GTest REQUIRED)

add_library(tern_testing INTERFACE)
target_link_libraries(tern_testing INTERFACE tern_options tern_static tern_dependencies GTest::gtest GTest::gmock)
target_compile_definitions(tern_testing INTERFACE TERN_TESTING)
# Tests run once: half the time to compile them is worth more than how fast the assertions run.
target_compile_options(tern_testing INTERFACE $<$<CONFIG:Release,RelWithDebInfo>:-O0>)

file(GLOB_RECURSE support CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/support/*.cpp)
add_library(tern_testing_support STATIC ${support})
target_link_libraries(tern_testing_support PUBLIC tern_testing)
set_source_files_properties(${PROJECT_SOURCE_DIR}/tests/support/paths.cpp PROPERTIES
  COMPILE_DEFINITIONS "TERN_BUILT_FROM=\"${PROJECT_SOURCE_DIR}\";TERN_BUILT_INTO=\"${PROJECT_BINARY_DIR}\"")
tern_after_generation(tern_testing_support)

# fuzz/*.cpp without libFuzzer's entry (cmake/fuzz.cmake builds them with it).
file(GLOB fuzz_targets CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/fuzz/*.cpp)
list(FILTER fuzz_targets EXCLUDE REGEX "/driver\\.cpp$")
add_library(tern_fuzz_targets STATIC ${fuzz_targets})
target_link_libraries(tern_fuzz_targets PUBLIC tern_testing)
tern_after_generation(tern_fuzz_targets)

# Nothing of ours is precompiled, so that a changed header compiles only the tests that include it.
target_precompile_headers(tern_testing_support PRIVATE <gtest/gtest.h> <gmock/gmock.h> <string> <vector>)

file(GLOB rooms CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR}/tests/*)
foreach(room ${rooms})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/${room}/*.cpp)
  if(NOT sources OR room STREQUAL "support" OR room STREQUAL "install")
    continue()
  endif()
  add_executable(tern_test_${room} ${sources})
  target_link_libraries(tern_test_${room} PRIVATE tern_testing_support GTest::gtest_main)
  target_precompile_headers(tern_test_${room} REUSE_FROM tern_testing_support)
  set_target_properties(tern_test_${room} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  if(room STREQUAL "fuzz")  # replays the corpora through the fuzz targets
    target_link_libraries(tern_test_${room} PRIVATE tern_fuzz_targets)
  endif()
  tern_after_generation(tern_test_${room})
  add_test(NAME ${room} COMMAND tern_test_${room})
  set_tests_properties(${room} PROPERTIES ENVIRONMENT
    "TERN_SOURCE_DIR=${PROJECT_SOURCE_DIR};TERN_BUILD_DIR=${PROJECT_BINARY_DIR};TERN_TEST_PYTHON=${PROJECT_SOURCE_DIR}/.venv/bin/python")
endforeach()
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
