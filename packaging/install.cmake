# What `cmake --install` brings, and the Debian packages that CPack makes of it: the program with its
# manual page and completions (component stringline), and the library with its headers (component
# dev). A program that embeds the library finds it by find_package(stringline): examples/12_embed.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# A single name for embedders, for all libraries behind the name.
add_library(stringline_schedlang INTERFACE)
target_link_libraries(stringline_schedlang INTERFACE stringline_tune stringline_diagnose stringline_kernels)
set_target_properties(stringline_schedlang PROPERTIES EXPORT_NAME schedlang)
set_target_properties(stringline_view PROPERTIES EXPORT_NAME view)

install(TARGETS stringline_options stringline_base stringline_plan stringline_torch
    stringline_kernels stringline_diagnose stringline_language stringline_megatron stringline_ask stringline_tune stringline_view stringline_schedlang
  EXPORT stringline_targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
install(EXPORT stringline_targets NAMESPACE stringline:: FILE stringlineTargets.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/stringline COMPONENT dev)
configure_package_config_file(packaging/stringlineConfig.cmake.in
  ${CMAKE_CURRENT_BINARY_DIR}/stringlineConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/stringline)
# Until version 1 the interface of the library may change with every minor version.
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/stringlineConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/stringlineConfig.cmake
    ${CMAKE_CURRENT_BINARY_DIR}/stringlineConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/stringline COMPONENT dev)
install(DIRECTORY schedlang DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/stringline COMPONENT dev
  FILES_MATCHING PATTERN "*.h" PATTERN "*.def")
install(DIRECTORY tools/view DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/stringline/tools COMPONENT dev
  FILES_MATCHING PATTERN "*.h" PATTERN "page" EXCLUDE)

foreach(component stringline dev)
  set(package stringline)
  if(component STREQUAL "dev")
    set(package libstringline-dev)
  endif()
  install(FILES LICENSE NOTICE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package}
    COMPONENT ${component})
endforeach()
install(FILES schedlang/LANGUAGE.md tools/JSON.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/stringline
  COMPONENT stringline)
install(DIRECTORY schedules DESTINATION ${CMAKE_INSTALL_DATADIR}/stringline COMPONENT stringline
  FILES_MATCHING PATTERN "*.sched")
install(DIRECTORY schedlang/costs/hardware DESTINATION ${CMAKE_INSTALL_DATADIR}/stringline
  COMPONENT stringline FILES_MATCHING PATTERN "*.yaml")

set(said_folder ${CMAKE_BINARY_DIR}/tools/said)
foreach(said "stringline.1|man/man1" "stringline|bash-completion/completions"
    "_stringline|zsh/vendor-completions" "stringline.fish|fish/vendor_completions.d")
  string(REPLACE "|" ";" said "${said}")
  list(GET said 0 file)
  list(GET said 1 folder)
  install(FILES ${said_folder}/${file} DESTINATION ${CMAKE_INSTALL_DATADIR}/${folder}
    COMPONENT stringline)
endforeach()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "The Stringline authors <stringline@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "pipeline-parallel training schedules: proven, simulated, drawn")
set(CPACK_COMPONENTS_ALL stringline dev)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_STRINGLINE_PACKAGE_NAME stringline)
set(CPACK_DEBIAN_STRINGLINE_PACKAGE_SHLIBDEPS ON)
# Pictures as PDF and PNG; librsvg is opened on demand.
set(CPACK_DEBIAN_STRINGLINE_PACKAGE_SUGGESTS "librsvg2-2, libopenmpi3")
set(CPACK_DEBIAN_DEV_PACKAGE_NAME libstringline-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "libabsl-dev, libyaml-cpp-dev, zlib1g-dev")
set(CPACK_STRIP_FILES ON)
include(CPack)
