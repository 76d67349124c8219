# Processes of mpirun over Open MPI, where it is installed; the header is only compared with ours.
stringline_test(mpi_test
  SOURCES mpi/mpi_header_test.cc mpi/mpi_test.cc executor/group_contract.cc executor/random_calls.cc
  LIBRARIES stringline_mpi)
set_target_properties(mpi_test PROPERTIES UNITY_BUILD OFF)
add_dependencies(mpi_test stringline)
target_compile_definitions(mpi_test PRIVATE STRINGLINE_TOOL="$<TARGET_FILE:stringline>")
find_path(STRINGLINE_MPI_INCLUDE mpi.h
  PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openmpi/include /usr/lib/x86_64-linux-gnu/openmpi/include)
if(STRINGLINE_MPI_INCLUDE)
  target_compile_definitions(mpi_test PRIVATE
    STRINGLINE_MPI_HEADER="${STRINGLINE_MPI_INCLUDE}/mpi.h")
  target_include_directories(mpi_test SYSTEM PRIVATE ${STRINGLINE_MPI_INCLUDE})
endif()
