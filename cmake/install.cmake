# install.cmake - what `cmake --install` puts where: headers, libskate shared and static, skate.pc, the package of CMake, man pages, examples and
# tools. (A wheel has none of it: scikit-build-core sets SKBUILD, and CMakeLists.txt then installs _skate alone.)
include(CMakePackageConfigHelpers)

# Programs of bin/ find the library beside them wherever the prefix is. A distribution gives CMAKE_SKIP_INSTALL_RPATH.
file(RELATIVE_PATH lib_from_bin ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
set_target_properties(${SKATE_TOOLS} PROPERTIES INSTALL_RPATH "$ORIGIN/${lib_from_bin}")

install(TARGETS skate skate_static EXPORT skateTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS ${SKATE_TOOLS} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES ${SKATE_PUBLIC_HEADERS} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/skate)
install(EXPORT skateTargets NAMESPACE skate:: DESTINATION ${package_dir})
configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/skateConfig.cmake.in ${CMAKE_BINARY_DIR}/gen/skateConfig.cmake
  INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/gen/skateConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/gen/skateConfig.cmake ${CMAKE_BINARY_DIR}/gen/skateConfigVersion.cmake DESTINATION ${package_dir})

# The prefix is known when files are installed, not before (cmake --install DIR --prefix P): skate.pc is made then, in two steps.
set(dl "")
foreach(lib IN LISTS CMAKE_DL_LIBS)
  string(APPEND dl " -l${lib}")
endforeach()
foreach(what IN ITEMS LIB INCLUDE)
  string(TOLOWER ${what}dir var)
  set(${var} "\${prefix}/${CMAKE_INSTALL_${what}DIR}")
  if(IS_ABSOLUTE "${CMAKE_INSTALL_${what}DIR}")
    set(${var} "${CMAKE_INSTALL_${what}DIR}")
  endif()
endforeach()
set(prefix_of_configure ${CMAKE_INSTALL_PREFIX})
set(CMAKE_INSTALL_PREFIX "@CMAKE_INSTALL_PREFIX@")
configure_file(${CMAKE_SOURCE_DIR}/cmake/skate.pc.in ${CMAKE_BINARY_DIR}/gen/skate.pc.in @ONLY)
set(CMAKE_INSTALL_PREFIX ${prefix_of_configure})
install(CODE "configure_file(\"${CMAKE_BINARY_DIR}/gen/skate.pc.in\" \"${CMAKE_BINARY_DIR}/gen/skate.pc\" @ONLY)")
install(FILES ${CMAKE_BINARY_DIR}/gen/skate.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

file(GLOB pages CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/docs/man/*.[1-9])
list(FILTER pages EXCLUDE REGEX "/skate\\.1$") # of the command of the Python package, which is in the wheel
foreach(page IN LISTS pages)
  get_filename_component(section ${page} LAST_EXT)
  string(SUBSTRING ${section} 1 -1 section)
  install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
endforeach()
install(DIRECTORY ${CMAKE_SOURCE_DIR}/examples/c/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
