# cmake --install: the programs, side by side since one starts the other, the licences, and find_package(zoetrope).
# Configurations are inside the program (src/config embeds configs/), so no data folder is installed.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(programs)
foreach(program zoetrope zoetrope-mp4)
  if(TARGET ${program})
    list(APPEND programs ${program})
  endif()
endforeach()
if(NOT programs)
  return()
endif()
install(TARGETS ${programs} EXPORT zoetrope-targets RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES LICENSE NOTICE THIRD_PARTY.md README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/zoetrope)
install(EXPORT zoetrope-targets NAMESPACE zoetrope:: DESTINATION ${package_folder})
configure_package_config_file(cmake/zoetrope-config.cmake.in ${CMAKE_BINARY_DIR}/zoetrope-config.cmake
  INSTALL_DESTINATION ${package_folder} PATH_VARS CMAKE_INSTALL_DOCDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/zoetrope-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/zoetrope-config.cmake ${CMAKE_BINARY_DIR}/zoetrope-config-version.cmake
  DESTINATION ${package_folder})
