# Flags of a library that Python loads: position-independent, and for any processor, since the
# library runs on other machines.
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
# Libraries are found as installed, in the build too; the program names a folder, the module none.
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
# Not every linker writes files of dependencies.
set(CMAKE_LINK_DEPENDS_USE_LINKER OFF)
# Programs and their libraries lie in the build as in an environment.
set(STRINGLINE_PREFIX ${CMAKE_BINARY_DIR}/prefix)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${STRINGLINE_PREFIX}/bin)
# A fifth less to compile for a twentieth more to simulate: an installation waits for the compiler.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
# Packages of PyPI that a build has (pyproject.toml) lie beside the programs on its path.
string(REPLACE ":" ";" STRINGLINE_PYPI "$ENV{PATH}")
list(TRANSFORM STRINGLINE_PYPI APPEND "/..")

if(EXISTS ${CMAKE_SOURCE_DIR}/third_party)
  # A source distribution brings its libraries.
  add_subdirectory(packaging/third_party EXCLUDE_FROM_ALL)
endif()

# Missing packages are reported here, before anything else.
foreach(package Boost absl yaml-cpp nlohmann_json ZLIB)
  find_package(${package} QUIET)
  if(NOT ${package}_FOUND)
    message(FATAL_ERROR "${package} is not installed; tools/install brings all that this is built with")
  endif()
endforeach()
find_package(Python 3.10 QUIET COMPONENTS Interpreter Development.Module)
if(NOT Python_FOUND)
  message(FATAL_ERROR "there are no headers of CPython 3.10 or later (python3-dev); tools/install brings them")
endif()
