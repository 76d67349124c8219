// A World over MPI: mpirun, or srun with PMIx, has made the processes known to each other, so that
// nothing listens and nothing needs a secret; who may come is the cluster's business.
//
// In an exchange every process gives its text to process 0, which hands out all of them by a
// broadcast. So process 0 knows who is missing, and says so when the deadline is over. MPI does not
// tell of a process that died: mpirun ends all others, and where nobody does, the deadline ends
// the run.
//
// To be used by one thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "executor/engine/world.h"
#include "executor/mpi/mpi_session.h"
#include "executor/processes/hello.h"
#include "executor/processes/reach_first.h"

namespace stringline {

class MpiWorld final : public World {
 public:
  // Returns when all processes have come. Of the settings of a world over TCP the address and the
  // secret are not used.
  //   settings.trouble    of this process
  //   Aborted             trouble of another process, with its name before the message
  //   InvalidArgument     processes differ in their settings, or MPI numbers them otherwise than
  //                       the identity does
  //   others              as mpi::Session::Open
  static absl::StatusOr<std::unique_ptr<MpiWorld>> Join(const TcpWorldSettings& settings);
  ~MpiWorld() override;
  MpiWorld(const MpiWorld&) = delete;
  MpiWorld& operator=(const MpiWorld&) = delete;

  const std::shared_ptr<mpi::Session>& session() const { return session_; }
  int ranks() const override { return ranks_; }
  absl::Span<const int> local() const override { return local_; }
  int processes() const override { return session_->processes(); }
  int process() const override { return session_->process(); }
  std::string NameOfRank(int rank) const override;
  std::string NameOfProcess(int process) const override;
  absl::StatusOr<std::vector<std::string>> Exchange(absl::string_view mine) override;
  absl::StatusOr<std::vector<std::string>> GiveToFirst(absl::string_view mine) override;
  void Fail(const absl::Status& status) override;
  void Working() override;
  bool FirstAnswers(int64_t most_ms) override;
  std::vector<int> late() const override { return late_; }
  absl::Status state() override;

 private:
  // Another process, as this process knows it.
  struct Peer {
    std::string host;
    std::optional<std::string> gave;  // in process 0
    std::string part;                 // of a text under way
    bool left = false;                // said goodbye
  };
  // A message under way. Texts may be longer than MPI's messages: they are sent in parts.
  struct Message {
    int peer = -1, tag = 0;
    std::string bytes;
    mpi::Request request = nullptr;
  };

  MpiWorld(const TcpWorldSettings& settings, std::shared_ptr<mpi::Session> session);
  absl::Status CompareHellos();

  absl::StatusOr<std::vector<std::string>> Meet(absl::string_view mine, bool to_all);
  absl::Status WaitForAll();
  absl::StatusOr<std::string> HandOut(const std::string& bytes);
  absl::Status Broadcast(char* bytes, int64_t count);
  void CheckAwaited();
  void CheckHandedOut();
  void WaitAnew();

  void Send(int peer, FrameKind kind, absl::string_view bytes);
  // Takes what has come, and lets what is under way go on; never waits.
  void Look();
  void Handle(int peer, FrameKind kind, std::string bytes);
  void SetFailure(absl::Status status, int except = -1);
  // False if a call of MPI failed, which fails the run.
  bool Succeeded(int result, const char* function);

  const TcpWorldSettings settings_;
  const std::shared_ptr<mpi::Session> session_;
  const int ranks_;
  const std::vector<int> local_;
  mpi::Comm comm_ = nullptr;
  std::vector<Peer> peers_;  // by process
  std::deque<Message> sent_, coming_;
  bool exchanging_ = false;
  int64_t wait_ms_ = 0;  // of an exchange
  struct {
    int64_t until_ns = 0;  // the deadline of the exchange
    int64_t told_working_ns = 0;
    int64_t first_heard_ns = 0;
  } times_;
  std::vector<int> late_;
  absl::Status failure_;
};

}  // namespace stringline
