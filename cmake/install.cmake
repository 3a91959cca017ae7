# SPDX-License-Identifier: Apache-2.0
# Installs the headers, a CMake package (`ratify::ratify`, and `ratify::host` where the consumer has Boost.Context) and a
# pkg-config package of the headers.
include(CMakePackageConfigHelpers)
set(ratify_package ${CMAKE_INSTALL_DATADIR}/cmake/ratify)
target_include_directories(ratify INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
install(DIRECTORY include/ratify DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(CODE "
  cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_PREFIX OUTPUT_VARIABLE prefix)
  cmake_path(APPEND prefix \"${CMAKE_INSTALL_INCLUDEDIR}\" ratify OUTPUT_VARIABLE headers)
  execute_process(COMMAND \"${CMAKE_COMMAND}\" -DHEADERS=\$ENV{DESTDIR}\${headers} -P
    \"${PROJECT_SOURCE_DIR}/cmake/header_digest.cmake\" COMMAND_ERROR_IS_FATAL ANY OUTPUT_QUIET)")
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(TARGETS ratify EXPORT ratify_targets)
install(EXPORT ratify_targets NAMESPACE ratify:: DESTINATION ${ratify_package})
configure_package_config_file(cmake/ratify-config.cmake.in ${PROJECT_BINARY_DIR}/ratify-config.cmake
  INSTALL_DESTINATION ${ratify_package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ratify-config-version.cmake
  COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES ${PROJECT_BINARY_DIR}/ratify-config.cmake ${PROJECT_BINARY_DIR}/ratify-config-version.cmake cmake/ratify-host.cmake
  DESTINATION ${ratify_package})

# The folder of headers as seen from ratify.pc, so that the installed tree can be moved.
set(ratify_pkgconfig ${CMAKE_INSTALL_DATADIR}/pkgconfig)
file(RELATIVE_PATH ratify_includes ${CMAKE_INSTALL_FULL_DATADIR}/pkgconfig ${CMAKE_INSTALL_FULL_INCLUDEDIR})
configure_file(cmake/ratify.pc.in ${PROJECT_BINARY_DIR}/ratify.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/ratify.pc DESTINATION ${ratify_pkgconfig})
