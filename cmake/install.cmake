# An install prefix that find_package(tern CONFIG) and pkg-config understand. tern::tern is the shared library and needs
# nothing else; tern::static exists where the libraries underneath are found.
include(CMakePackageConfigHelpers)

if(TARGET tern_python)
  # The wheel takes only this component; a plain install has no use for it.
  install(TARGETS tern_python LIBRARY DESTINATION tern COMPONENT python EXCLUDE_FROM_ALL)
endif()

install(TARGETS tern_static EXPORT tern_static COMPONENT devel)
if(TERN_SHARED)
  install(TARGETS tern_shared EXPORT tern_shared COMPONENT devel)
endif()
if(TARGET tern_command)
  install(TARGETS tern_command COMPONENT command)
endif()

# Kernels and fmt are not part of the interface.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/tern DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT devel
  FILES_MATCHING PATTERN "*.h" PATTERN "kernels" EXCLUDE PATTERN "detail" EXCLUDE PATTERN "*-inl.h" EXCLUDE PATTERN "format.h" EXCLUDE)
install(DIRECTORY ${TERN_GENERATED_DIR}/tern DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT devel
  FILES_MATCHING PATTERN "*.h" PATTERN "*.args.h" EXCLUDE)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/tern COMPONENT devel)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tern)
foreach(kind static shared)
  if(TARGET tern_${kind})
    install(EXPORT tern_${kind} NAMESPACE tern:: DESTINATION ${package_dir} FILE tern-${kind}.cmake COMPONENT devel)
  endif()
endforeach()
configure_package_config_file(cmake/tern-config.cmake.in ${PROJECT_BINARY_DIR}/tern-config.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tern-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tern-config.cmake ${PROJECT_BINARY_DIR}/tern-config-version.cmake
  DESTINATION ${package_dir} COMPONENT devel)

file(RELATIVE_PATH TERN_PC_ROOT /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" TERN_PC_ROOT "${TERN_PC_ROOT}")
configure_file(cmake/tern.pc.in ${PROJECT_BINARY_DIR}/tern.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tern.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT devel)
