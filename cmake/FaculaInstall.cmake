# install() and the package that find_package(Facula CONFIG) finds. The exported target carries the
# headers, the library, the language standard and the export of a program's symbols, by which
# anomaly mode names its functions; no flag of ours and no path of this machine.

include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Facula)

install(TARGETS facula EXPORT FaculaTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY include/facula ${FACULA_GENERATED_DIR}/include/facula
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES LICENSE ${FACULA_GENERATED_DIR}/ops/ops_index.md
  DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/facula)
if(TARGET facula_cli)
  install(TARGETS facula_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

install(EXPORT FaculaTargets NAMESPACE Facula:: DESTINATION ${package_dir})
configure_package_config_file(cmake/FaculaConfig.cmake.in
  ${PROJECT_BINARY_DIR}/FaculaConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/FaculaConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/FaculaConfig.cmake ${PROJECT_BINARY_DIR}/FaculaConfigVersion.cmake
  DESTINATION ${package_dir})
