// MPI in this process, from MPI_Init to MPI_Finalize. MPI allows one of each in a process.
//
// MPI's calls are made under one lock, by whichever thread has something to send or to look at, and
// none of them waits for another process: what takes time is begun, and looked at again. Only
// MPI_Init and MPI_Finalize wait for all processes; each has a thread of its own, and is left
// alone when it takes too long.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "absl/status/statusor.h"
#include "executor/mpi/mpi_library.h"

namespace stringline::mpi {

class Session {
 public:
  using Lock = std::unique_lock<std::mutex>;

  // Errors: those of Library::Open; DeadlineExceeded if MPI_Init, for which all processes have to
  // come, takes longer; FailedPrecondition if MPI was in use in this process before.
  static absl::StatusOr<std::shared_ptr<Session>> Open(int64_t most_ms);
  // Finalizes MPI, unless the run has failed.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  int process() const { return process_; }
  int processes() const { return processes_; }
  // The functions, to be called under the lock.
  const Library* operator->() const { return &library_; }
  const Library& library() const { return library_; }
  Lock Take() { return Lock(mutex_); }

  // A communicator of all processes, on which errors are returned. All processes call it in the
  // same order. DeadlineExceeded if they do not within this time.
  absl::StatusOr<Comm> NewComm(int64_t most_ms);

  // The run has failed, or buffers of messages under way are gone: the library is not called any
  // more.
  void Break() { broken_ = true; }
  bool broken() const { return broken_; }

 private:
  Session(const Library& library) : library_(library) {}

  const Library library_;
  std::mutex mutex_;
  int process_ = 0;
  int processes_ = 1;
  bool broken_ = false;
};

}  // namespace stringline::mpi
