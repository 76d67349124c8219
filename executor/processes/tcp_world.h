// A World over TCP: every process is connected to process 0, and to its neighbours in the tree of
// processes (tree_world.h).
//
// Process 0 listens at the identity's address until all have joined. The others connect, both ends
// prove the run's secret (proof.h), and each process introduces itself (hello.h). Process 0
// compares: a process of another run is sent away; a process with another setting ends the run,
// everywhere with the same message. Connections without a proof are closed without a word. Then the
// tree is connected (tree_links.h), and a first meeting hands out the names of all hosts. IPv4 and
// IPv6.
//
// No thread: incoming bytes are read in meetings and in state(). A process that dies closes its
// connections, and a process that is silent for a whole deadline counts as dead. Process 0 tells
// the others, so that all have the same status; only the loss of process 0 itself is noticed by
// each process on its own.
//
// To be used by one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "executor/processes/frames.h"
#include "executor/processes/hello.h"
#include "executor/processes/newcomers.h"
#include "executor/processes/reach_first.h"
#include "executor/processes/tree_links.h"
#include "executor/processes/tree_world.h"
#include "executor/processes/wire_poll.h"

namespace stringline {

class TcpWorld final : public TreeWorld {
 public:
  // Returns when all processes have joined, or when a process has reported that it cannot run: then
  // all processes that have joined, or join within `tell_ms`, are told.
  //   settings.trouble    of this process
  //   Aborted             trouble of another process, with its name before the message
  //   DeadlineExceeded    some processes did not join, or process 0 was not found
  //   FailedPrecondition  process 0 is of another run, or has another secret
  //   InvalidArgument     processes differ in their settings, or two have the same rank; or the run
  //                       needs a secret and has none
  //   Unavailable         nothing can listen there, or the host has no address; or a process cannot
  //                       reach its parent in the tree, or died
  static absl::StatusOr<std::unique_ptr<World>> Join(const TcpWorldSettings& settings);
  ~TcpWorld() override;
  TcpWorld(const TcpWorld&) = delete;
  TcpWorld& operator=(const TcpWorld&) = delete;

  std::string address() const override;

 private:
  // Another process, as a process sees it: in process 0 any other, elsewhere process 0 and the
  // neighbours.
  struct Peer {
    FrameSocket socket;
    uint32_t watched = 0;  // events for which a wait ends
  };
  // The start of process 0.
  struct Start {
    Start(std::vector<int> listeners, const Secret* secret)
        : newcomers(std::move(listeners), secret) {}

    Newcomers newcomers;
    int joined = 1;
    std::vector<Hello> hellos;  // of those that have joined
    absl::Status trouble;       // for a process that cannot run, as told to the others
    int64_t trouble_ns = 0;     // the time at which it was known
  };

  explicit TcpWorld(const TcpWorldSettings& settings);

  static absl::StatusOr<std::unique_ptr<World>> JoinOthers(const TcpWorldSettings& settings);
  absl::Status Gather();
  absl::Status AcceptAll(int64_t deadline_ns);
  absl::Status Admit();
  void Place(Newcomers::Arrival arrival);
  void NoteTrouble(const Hello& of);
  // "process 3", of those that have not joined; "": none.
  std::string Missing() const;
  std::string OwnAddressInPeers() const;
  // Connects the tree, and hands out the names of the hosts.
  absl::Status MeetFirst();
  void HandOnPlace(int of, const std::string& told);

  void Send(int process, FrameKind kind, absl::string_view bytes) override;
  bool HasUnsent(int process) const override { return peers_[process].socket.has_unsent(); }
  bool Reaches(int parent) const override { return peers_[parent].socket.open(); }
  void Look(int64_t most_ns) override;
  absl::Span<const WirePoll::Ready> Wait(int64_t most_ns);
  void AdvanceLinks();
  void Open(int process, FrameSocket socket);
  void Watch(int process);
  void Service(int process, uint32_t events);
  void TakeFrames(int process);
  void Flush();

  const TcpWorldSettings settings_;
  Hello own_;
  std::string first_address_;  // of process 0, for other hosts
  std::vector<Peer> peers_;    // by process; only those connected to are open
  std::vector<int> unsent_;    // those with bytes that their sockets did not take
  WirePoll poll_;
  std::optional<Start> start_;      // while process 0 gathers the others
  std::optional<TreeLinks> links_;  // until the first meeting has ended
};

}  // namespace stringline
