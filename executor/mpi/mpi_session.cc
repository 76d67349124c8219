#include "executor/mpi/mpi_session.h"

#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/mpi/pauses.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/status.h"
#include "schedlang/base/threads.h"

namespace stringline::mpi {
namespace {

constexpr int64_t kFinalizeMs = 10'000;
// Shorter messages between processes of a host go through shared memory at once, where longer ones
// are agreed upon first. Open MPI's own default is 4096.
constexpr char kEagerBytes[] = "20480";
constexpr const char* kEagerNames[] = {"OMPI_MCA_btl_vader_eager_limit",  // of Open MPI 4
                                       "OMPI_MCA_btl_sm_eager_limit"};    // of Open MPI 5

// Runs `work`, which may never end, on a thread of its own. DeadlineExceeded: the thread goes on.
absl::Status RunWithin(int64_t most_ms, std::function<absl::Status()> work) {
  auto ended = std::make_shared<std::promise<absl::Status>>();
  std::future<absl::Status> status = ended->get_future();
  std::vector<std::thread> thread;
  SL_RETURN_IF_ERROR(StartThreads(
      1, [ended, work = std::move(work)] { ended->set_value(work()); }, &thread));
  thread[0].detach();
  if (status.wait_for(std::chrono::milliseconds(most_ms)) != std::future_status::ready) {
    return absl::DeadlineExceededError("");
  }
  return status.get();
}

}  // namespace

absl::StatusOr<std::shared_ptr<Session>> Session::Open(int64_t most_ms) {
  SL_ASSIGN_OR_RETURN(const Library library, Library::Open());
  int used = 0;
  SL_RETURN_IF_ERROR(library.StatusOf(library.Initialized(&used), "Initialized"));
  if (used != 0) return absl::FailedPreconditionError("MPI was in use in this process before");
  for (const char* const name : kEagerNames) (void)setenv(name, kEagerBytes, /*replace=*/0);
  std::shared_ptr<Session> session(new Session(library));
  const absl::Status begun = RunWithin(most_ms, [library]() -> absl::Status {
    int threads = 0;
    SL_RETURN_IF_ERROR(library.StatusOf(
        library.Init_thread(nullptr, nullptr, kSerialized, &threads), "Init_thread"));
    if (threads >= kSerialized) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat(library.Version(), " was built for processes without threads"));
  });
  if (!begun.ok()) session->Break();
  if (absl::IsDeadlineExceeded(begun)) {
    return absl::DeadlineExceededError(
        absl::StrCat("the processes did not all come to MPI_Init within ",
                     static_cast<double>(most_ms) / 1000, " s"));
  }
  SL_RETURN_IF_ERROR(begun);
  SL_RETURN_IF_ERROR(
      library.StatusOf(library.Comm_rank(library.world, &session->process_), "Comm_rank"));
  SL_RETURN_IF_ERROR(
      library.StatusOf(library.Comm_size(library.world, &session->processes_), "Comm_size"));
  return session;
}

Session::~Session() {
  if (broken_) return;
  (void)RunWithin(kFinalizeMs, [library = library_] {
    return library.StatusOf(library.Finalize(), "Finalize");
  });
}

absl::StatusOr<Comm> Session::NewComm(int64_t most_ms) {
  const int64_t deadline_ns = NowNs() + most_ms * 1'000'000;
  // The library writes here even after the deadline.
  struct Made {
    Comm comm = nullptr;
    Request request = nullptr;
  };
  auto* const made = new Made;
  Pauses pauses;
  for (bool begun = false;; begun = true) {
    {
      const Lock lock = Take();
      if (!begun) {
        SL_RETURN_IF_ERROR(library_.StatusOf(
            library_.Comm_idup(library_.world, &made->comm, &made->request), "Comm_idup"));
      }
      int done = 0;
      SL_RETURN_IF_ERROR(library_.StatusOf(library_.Test(&made->request, &done, nullptr), "Test"));
      if (done != 0) break;
    }
    if (NowNs() > deadline_ns) {
      Break();
      return absl::DeadlineExceededError("a communicator of MPI was not made in time");
    }
    pauses.Pause();
  }
  const std::unique_ptr<Made> owned(made);
  const Lock lock = Take();
  SL_RETURN_IF_ERROR(library_.StatusOf(
      library_.Comm_set_errhandler(owned->comm, library_.errors_return), "Comm_set_errhandler"));
  return owned->comm;
}

}  // namespace stringline::mpi
