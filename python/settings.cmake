# Who installs a package meets what is missing here first.
foreach(package Boost absl yaml-cpp nlohmann_json CLI11 ZLIB)
  find_package(${package} QUIET)
  if(NOT ${package}_FOUND)
    message(FATAL_ERROR "${package} is not installed; tools/install brings all that this is built with")
  endif()
endforeach()
find_package(Python 3.10 QUIET COMPONENTS Interpreter Development.Module)
if(NOT Python_FOUND)
  message(FATAL_ERROR "there are no headers of CPython 3.10 or later (python3-dev); tools/install brings them")
endif()

# What a library that Python loads is compiled with: it may be moved, and runs on other machines
# than this one, so nothing is for this one's processor.
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_SKIP_RPATH ON)
# A fifth less to compile for a twentieth more to simulate: who installs it waits for the compiler.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
