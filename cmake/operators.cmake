# tools/opgen reads every tern/ops/<family>/<family>.ops and writes, below <build>/generated/tern/:
#   ops/<family>.h  ops/<family>.gen.cpp  ops/registry.gen.cpp  ops.h
# It rewrites only what changed, and Ninja looks again after it ran, so that one changed table does not rebuild the others.
file(GLOB TERN_OPGEN_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tools/opgen/*.cpp)
file(GLOB TERN_OPS_TABLES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tern/ops/*/*.ops)
set(TERN_GENERATED_DIR ${PROJECT_BINARY_DIR}/generated)
set(TERN_GENERATED_SOURCES "")
file(MAKE_DIRECTORY ${TERN_GENERATED_DIR}/tern/ops)

if(TERN_OPGEN_SOURCES)
  add_executable(opgen ${TERN_OPGEN_SOURCES})
  target_link_libraries(opgen PRIVATE tern_options)
endif()

if(TERN_OPGEN_SOURCES AND TERN_OPS_TABLES)
  set(written ${TERN_GENERATED_DIR}/tern/ops.h ${TERN_GENERATED_DIR}/tern/ops/registry.gen.cpp)
  foreach(table ${TERN_OPS_TABLES})
    get_filename_component(family ${table} NAME_WE)
    list(APPEND written ${TERN_GENERATED_DIR}/tern/ops/${family}.h ${TERN_GENERATED_DIR}/tern/ops/${family}.gen.cpp
      ${TERN_GENERATED_DIR}/tern/ops/${family}.args.h)
  endforeach()
  list(LENGTH TERN_OPS_TABLES table_count)
  add_custom_command(
    OUTPUT ${written}
    COMMAND opgen --out ${TERN_GENERATED_DIR} ${TERN_OPS_TABLES}
    DEPENDS opgen ${TERN_OPS_TABLES}
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    COMMENT "Generating the operators of ${table_count} families"
    VERBATIM)
  add_custom_target(tern_generated DEPENDS ${written})
  set(TERN_GENERATED_SOURCES ${written})
  list(FILTER TERN_GENERATED_SOURCES INCLUDE REGEX "\\.cpp$")

  # A family that was removed must leave nothing that a stale #include still finds.
  file(GLOB leftovers ${TERN_GENERATED_DIR}/tern/ops/*)
  list(REMOVE_ITEM leftovers ${written})
  if(leftovers)
    file(REMOVE ${leftovers})
  endif()
endif()

# Whoever includes tern/ops.h is compiled after opgen ran.
function(tern_after_generation target)
  if(TARGET tern_generated)
    add_dependencies(${target} tern_generated)
  endif()
endfunction()
