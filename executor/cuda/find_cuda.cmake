# Looks for CUDA's compiler, its headers and those of cuBLAS, and enables the language if all are
# found. Sets STRINGLINE_HAS_CUDA; and STRINGLINE_HAS_CUDNN if the headers of cuDNN and of its
# frontend are found too. No GPU is needed to build or to test.
set(STRINGLINE_CUDA AUTO CACHE STRING "The CUDA backend: AUTO (where nvcc is found), ON or OFF")
set_property(CACHE STRINGLINE_CUDA PROPERTY STRINGS AUTO ON OFF)

# The folder of tools/install's packages from PyPI.
set(data_home "$ENV{XDG_DATA_HOME}")
if(NOT data_home)
  set(data_home "$ENV{HOME}/.local/share")
endif()

set(STRINGLINE_HAS_CUDA OFF)
if(NOT STRINGLINE_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  if(NOT CMAKE_CUDA_COMPILER)
    # Also installations outside PATH; the last is made by `tools/install --cuda`.
    find_program(STRINGLINE_NVCC nvcc
      PATHS /usr/local/cuda/bin "${data_home}/stringline/cuda/toolkit/bin")
    mark_as_advanced(STRINGLINE_NVCC)
    if(STRINGLINE_NVCC AND NOT DEFINED ENV{CUDACXX})
      set(ENV{CUDACXX} ${STRINGLINE_NVCC})
    endif()
    check_language(CUDA)
  endif()
  if(CMAKE_CUDA_COMPILER)
    # A100, H100 and B200.
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 100-real)
    endif()
    enable_language(CUDA)
    find_package(CUDAToolkit 13 QUIET)
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      # CMake 3.25 does not know that nvcc supports C++20.
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    endif()
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(CMAKE_CUDA_EXTENSIONS OFF)
    # Sanitizers also cover host code in .cu files, such as the twins of kernels.
    string(REPLACE "," ";" sanitizers "${STRINGLINE_SANITIZE}")
    foreach(sanitizer IN LISTS sanitizers)
      string(APPEND CMAKE_CUDA_FLAGS " -Xcompiler=-fsanitize=${sanitizer}")
    endforeach()
    if(CCACHE)
      set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
    endif()
    # cuBLASLt itself is opened at run time.
    find_path(STRINGLINE_CUBLAS_INCLUDE_DIR cublasLt.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
    mark_as_advanced(STRINGLINE_CUBLAS_INCLUDE_DIR)
    if(CUDAToolkit_FOUND AND STRINGLINE_CUBLAS_INCLUDE_DIR)
      set(STRINGLINE_HAS_CUDA ON)
    endif()
  endif()
  if(STRINGLINE_CUDA STREQUAL "ON" AND NOT STRINGLINE_HAS_CUDA)
    message(FATAL_ERROR "STRINGLINE_CUDA is ON, but nvcc and the headers of CUDA 13 and cuBLAS are not all there")
  endif()
endif()

# Attention by cuDNN, whose library is opened at run time. Later versions of the frontend need
# further libraries at link time.
set(STRINGLINE_HAS_CUDNN OFF)
if(STRINGLINE_HAS_CUDA)
  find_path(STRINGLINE_CUDNN_INCLUDE_DIR cudnn_backend.h
    HINTS ${CUDAToolkit_INCLUDE_DIRS} "${data_home}/stringline/cuda/cudnn/include")
  find_path(STRINGLINE_CUDNN_FRONTEND_DIR cudnn_frontend_version.h
    HINTS ${CUDAToolkit_INCLUDE_DIRS} "${data_home}/stringline/cudnn_frontend/headers")
  mark_as_advanced(STRINGLINE_CUDNN_INCLUDE_DIR STRINGLINE_CUDNN_FRONTEND_DIR)
  if(NOT STRINGLINE_CUDNN_INCLUDE_DIR)
    message(STATUS "Without attention by cuDNN: its headers are not there")
  elseif(NOT STRINGLINE_CUDNN_FRONTEND_DIR)
    message(STATUS "Without attention by cuDNN: the headers of its frontend are not there (tools/install)")
  else()
    set(version)
    foreach(part MAJOR MINOR)
      file(STRINGS "${STRINGLINE_CUDNN_FRONTEND_DIR}/cudnn_frontend_version.h" line
        REGEX "define CUDNN_FRONTEND_${part}_VERSION [0-9]+")
      string(REGEX REPLACE ".* " "" line "${line}")
      list(APPEND version ${line})
    endforeach()
    list(JOIN version "." version)
    if(version VERSION_GREATER_EQUAL 1.18 AND version VERSION_LESS 1.23)
      set(STRINGLINE_HAS_CUDNN ON)
      message(STATUS "With attention by cuDNN: frontend ${version}")
    else()
      message(STATUS "Without attention by cuDNN: its frontend is ${version}, not one from 1.18 to 1.22")
    endif()
  endif()
endif()
