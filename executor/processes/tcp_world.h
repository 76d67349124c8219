// A World over TCP: every process is connected to process 0.
//
// Process 0 listens at the identity's address until all have joined. The others connect, both ends
// prove the run's secret (proof.h), and each process introduces itself (hello.h). Process 0
// compares: a process of another run is sent away; a process with another setting ends the run,
// everywhere with the same message. Connections without a proof are closed without a word. IPv4 and
// IPv6.
//
// No thread: incoming bytes are read in Exchange and in state(). A process that dies closes its
// connection, and a process that is silent for a whole deadline counts as dead. Process 0 tells the
// others, so that all have the same status; only the loss of process 0 itself is noticed by each
// process on its own.
//
// To be used by one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "executor/engine/world.h"
#include "executor/processes/frames.h"
#include "executor/processes/hello.h"
#include "executor/processes/newcomers.h"
#include "executor/processes/reach_first.h"

namespace stringline {

// Another process, as a process sees it: in process 0 any other, elsewhere process 0.
struct WorldPeer {
  FrameSocket socket;
  bool left = false;  // said goodbye
  std::optional<std::string> gave;
};

struct WorldTimes {
  int64_t waiting_until_ns = 0;  // the deadline of the exchange
  int64_t told_working_ns = 0;
  int64_t first_heard_ns = 0;  // the last frame of process 0
};

class TcpWorld final : public World {
 public:
  // Returns when all processes have joined, or when a process has reported that it cannot run: then
  // all processes that have joined, or join within `tell_ms`, are told.
  //   settings.trouble    of this process
  //   Aborted             trouble of another process, with its name before the message
  //   DeadlineExceeded    some processes did not join, or process 0 was not found
  //   FailedPrecondition  process 0 is of another run, or has another secret
  //   InvalidArgument     processes differ in their settings, or two have the same rank; or the run
  //                       needs a secret and has none
  //   Unavailable         nothing can listen there, or the host has no address
  static absl::StatusOr<std::unique_ptr<World>> Join(const TcpWorldSettings& settings);
  ~TcpWorld() override;
  TcpWorld(const TcpWorld&) = delete;
  TcpWorld& operator=(const TcpWorld&) = delete;

  int ranks() const override { return ranks_; }
  absl::Span<const int> local() const override { return local_; }
  int processes() const override { return own_.processes; }
  int process() const override { return own_.process; }
  std::string address() const override;
  std::string NameOfRank(int rank) const override;
  std::string NameOfProcess(int process) const override { return NameOfPeer(process); }
  absl::StatusOr<std::vector<std::string>> Exchange(absl::string_view mine) override;
  absl::StatusOr<std::vector<std::string>> GiveToFirst(absl::string_view mine) override;
  absl::Status Sum(absl::Span<uint64_t> numbers) override;
  void Fail(const absl::Status& status) override;
  void Working() override;
  bool FirstAnswers(int64_t most_ms) override;
  std::vector<int> late() const override { return late_; }
  absl::Status state() override;

 private:
  explicit TcpWorld(const TcpWorldSettings& settings);

  static absl::StatusOr<std::unique_ptr<World>> JoinOthers(const TcpWorldSettings& settings);
  absl::Status Gather();
  absl::Status AcceptAll(Newcomers* newcomers, int64_t deadline_ns);
  absl::Status WaitForNews(Newcomers* newcomers, int64_t deadline_ns);
  void Place(Newcomers::Arrival arrival, Newcomers* newcomers);
  void NoteTrouble(const Hello& of);

  // Reads and writes as much as possible now, after a wait of at most `wait_ns` for a socket.
  void Pump(int64_t wait_ns);
  void Service(int peer, short events);
  void Handle(int peer, Frame frame);
  void Lost(int peer, const std::string& why);
  // The deadline of an exchange begins anew, also for those who have told process 0 their part.
  void WaitAnew();
  void CheckAwaited();
  // An exchange; with `to_all` every process gets all texts, otherwise only process 0, and the
  // others get empty texts.
  absl::StatusOr<std::vector<std::string>> ExchangeParts(absl::string_view mine, bool to_all);
  // Waits until process 0 has all parts, and the others have its answer.
  absl::Status Meet(absl::string_view mine);
  void Answer(absl::string_view bytes);
  absl::Status Unreadable();
  // The run has failed: tells every process that can be reached.
  void SetFailure(absl::Status status, int except = -1);
  void Flush();
  std::string NameOfPeer(int peer) const;

  const TcpWorldSettings settings_;
  const int ranks_;
  std::vector<int> local_;
  Hello own_;
  std::vector<std::string> hosts_;  // by process
  std::vector<WorldPeer> peers_;    // by process; only those connected to are open
  std::string first_address_;       // of process 0, for other hosts
  std::optional<std::string> all_;
  bool exchanging_ = false;
  WorldTimes times_;
  std::vector<int> late_;
  absl::Status trouble_;    // for a process that cannot run, as told to the others
  int64_t trouble_ns_ = 0;  // the time at which trouble_ was known
  absl::Status failure_;
};

}  // namespace stringline
