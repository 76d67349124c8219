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

# Flags of a library that Python loads: position-independent, and for any processor, since the
# library runs on other machines.
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_SKIP_RPATH ON)
# A fifth less to compile for a twentieth more to simulate: an installation waits for the compiler.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
