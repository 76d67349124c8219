# The C++ compiler, or an error that names one to install. Nothing of it is kept after the error, so
# that a second try finds a compiler that was installed in between.
include(CheckLanguage)
check_language(CXX)
if(NOT CMAKE_CXX_COMPILER)
  unset(CMAKE_CXX_COMPILER CACHE)
  message(FATAL_ERROR "there is no C++ compiler: install GCC 12 or later (the package g++ or gcc-c++), \
or name another in the environment variable CXX")
endif()
enable_language(CXX)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 11)
  message(FATAL_ERROR "${CMAKE_CXX_COMPILER} is GCC ${CMAKE_CXX_COMPILER_VERSION}, which lacks parts \
of C++20: install GCC 12 or later, and name it in the environment variable CXX")
endif()
