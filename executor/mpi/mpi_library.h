// The functions of Open MPI that the engine calls, looked up at run time: programs start without
// the library, and are built without its header.
//
// The declarations are those of Open MPI 4 and 5, whose libraries have the same name and the same
// binary interface. Handles are pointers; the predefined ones are objects of the library. Other
// MPIs have another interface, and another name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace stringline::mpi {

struct CommObject;
struct RequestObject;
struct TypeObject;
struct OpObject;
struct ErrorHandlerObject;
using Comm = CommObject*;
using Request = RequestObject*;
using Type = TypeObject*;
using Op = OpObject*;
using ErrorHandler = ErrorHandlerObject*;

struct Status {
  int source = 0, tag = 0, error = 0;
  int cancelled = 0;  // of the library, as the next member
  size_t received = 0;
};

constexpr int kSuccess = 0;
constexpr int kAny = -1;                          // source or tag
constexpr int kUndefined = -32766;                // of Testsome: no request is active
constexpr int kSerialized = 2;                    // threads call one at a time
constexpr int64_t kMostBytes = int64_t{1} << 30;  // of a message here: MPI counts with int
constexpr int kMostErrorText = 256;
constexpr int kMostVersionText = 256;

#define STRINGLINE_MPI_FUNCTIONS(X)                                                                \
  X(Init_thread, (int* argc, char*** argv, int required, int* provided))                           \
  X(Initialized, (int* flag))                                                                      \
  X(Finalize, ())                                                                                  \
  X(Comm_rank, (Comm comm, int* rank))                                                             \
  X(Comm_size, (Comm comm, int* size))                                                             \
  X(Comm_set_errhandler, (Comm comm, ErrorHandler handler))                                        \
  X(Comm_idup, (Comm comm, Comm * made, Request * request))                                        \
  X(Error_string, (int error, char* text, int* length))                                            \
  X(Get_library_version, (char* text, int* length))                                                \
  X(Isend, (const void* from, int count, Type type, int to, int tag, Comm comm, Request* request)) \
  X(Irecv, (void* to, int count, Type type, int from, int tag, Comm comm, Request* request))       \
  X(Iprobe, (int from, int tag, Comm comm, int* flag, Status* status))                             \
  X(Get_count, (const Status* status, Type type, int* count))                                      \
  X(Test, (Request * request, int* flag, Status* status))                                          \
  X(Testsome, (int count, Request* requests, int* done, int* indices, Status* statuses))           \
  X(Cancel, (Request * request))                                                                   \
  X(Barrier, (Comm comm))                                                                          \
  X(Allreduce, (const void* from, void* to, int count, Type type, Op op, Comm comm))               \
  X(Reduce_scatter_block, (const void* from, void* to, int count, Type type, Op op, Comm comm))    \
  X(Alltoall, (const void* from, int from_count, Type from_type, void* to, int to_count,           \
               Type to_type, Comm comm))

// Predefined objects: our name, the library's, our type.
#define STRINGLINE_MPI_OBJECTS(X)             \
  X(world, "ompi_mpi_comm_world", Comm)       \
  X(byte, "ompi_mpi_byte", Type)              \
  X(real, "ompi_mpi_float", Type)             \
  X(sum, "ompi_mpi_op_sum", Op)               \
  X(no_request, "ompi_request_null", Request) \
  X(errors_return, "ompi_mpi_errors_return", ErrorHandler)

// Each function is MPI's of the same name, prefixed by "MPI_".
struct Library {
#define X(name, parameters) int(*name) parameters = nullptr;
  STRINGLINE_MPI_FUNCTIONS(X)
#undef X
#define X(name, symbol, type) type name = nullptr;
  STRINGLINE_MPI_OBJECTS(X)
#undef X

  // Searches like the loader. Unavailable if the library is missing or incomplete. It stays loaded
  // as long as the process.
  static absl::StatusOr<Library> Open(const char* name = "libmpi.so.40");
  std::string Version() const;  // "Open MPI v4.1.4"
  // The result of a function: Unavailable, naming the function and the library's error.
  absl::Status StatusOf(int result, const char* function) const;
};

}  // namespace stringline::mpi
