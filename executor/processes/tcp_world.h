// A World over TCP: everybody is connected to process 0.
//
// Process 0 listens where the identity says (on all addresses of its host, or only on the loopback
// if that is what is said), the others connect, and each says what it runs (hello.h). Process 0
// compares: whoever belongs to another run is sent away and waited for no longer; whoever differs
// in a setting ends the run, everywhere with the same message. Connections that say something else
// are closed. IPv4 and IPv6.
//
// There is no thread: what comes is read in Exchange and in state(). A process that dies closes its
// connection, and who is not heard of for a whole deadline is taken for dead. Process 0 tells the
// others, so that all have the same status; only where process 0 itself is lost does everybody see
// it by itself.
//
// To be used by one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "executor/processes/frames.h"
#include "executor/processes/hello.h"
#include "executor/processes/identity.h"
#include "executor/world.h"

namespace stringline {

struct TcpWorldSettings {
  Identity identity;
  ConfigLines config;
  int ranks = 0;              // of the run; they are shared out in blocks. 0: one a process
  int64_t join_ms = 120'000;  // until all are there
  // Why this process cannot run: it comes only to say so, and waits for nobody longer than that.
  absl::Status trouble;
  int64_t tell_ms = 5'000;
  int64_t exchange_ms = 600'000;  // from when process 0 comes to an exchange until all have
};

class TcpWorld final : public World {
 public:
  // Returns when all processes are there, or when one of them has said that it cannot run: then
  // whoever has come, or does so within `tell_ms`, is told.
  //   settings.trouble    of this process
  //   Aborted             of another, with its name before it
  //   DeadlineExceeded    some did not come, or process 0 was not found
  //   FailedPrecondition  process 0 is of another run
  //   InvalidArgument     processes differ in what they run, or two are the same rank
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
  absl::StatusOr<std::vector<std::string>> Exchange(absl::string_view mine) override;
  absl::StatusOr<std::vector<std::string>> GiveToFirst(absl::string_view mine) override;
  void Fail(const absl::Status& status) override;
  std::vector<int> late() const override { return late_; }
  absl::Status state() override;

 private:
  // Another process: all for process 0, process 0 for the others.
  struct Peer {
    FrameSocket socket;
    bool left = false;  // said goodbye
    std::optional<std::string> gave;
  };
  // Who is connected and has not yet said who it is.
  struct Stranger {
    FrameSocket socket;
    bool done = false;
    bool told = false;  // closed when all is sent
  };
  // How the talk with process 0 ended, if not with a welcome.
  enum class Talk : uint8_t { kWelcome, kRefused, kLost };

  explicit TcpWorld(const TcpWorldSettings& settings);

  absl::Status Gather();
  absl::Status AcceptAll(int listener, int64_t deadline_ns);
  void Accept(int listener);
  void ReadStranger(Stranger* stranger);
  void Place(Stranger* stranger, Hello hello);
  absl::Status Compare() const;
  void NoteTrouble(const Hello& of);
  std::string Missing() const;

  int64_t JoinUntil() const;
  absl::Status Reach();
  absl::Status TalkOnce(int fd, Talk* talk);

  // Reads and writes what can be now, after at most so long a wait for something to come.
  void Pump(int64_t wait_ns);
  void Service(int peer, short events);
  void Handle(int peer, Frame frame);
  void Lost(int peer, const std::string& why);
  bool AllGave() const;
  void CheckAwaited();
  // Exchange, in which the others get what process 0 got, or empty texts.
  absl::StatusOr<std::vector<std::string>> Meet(absl::string_view mine, bool to_all);
  absl::StatusOr<std::vector<std::string>> TakeAll(bool to_all);
  // The run has failed: everybody that can be told is.
  void SetFailure(absl::Status status, int except = -1);
  void Flush();
  std::string NameOfPeer(int peer) const;
  int FirstRankOf(int process) const;

  const TcpWorldSettings settings_;
  const int ranks_;
  std::vector<int> local_;
  Hello own_;
  std::vector<std::string> hosts_;  // by process
  std::vector<Peer> peers_;         // by process; only those connected to are open
  std::vector<Stranger> strangers_;
  int strange_ = 0;  // connections that said something else
  std::optional<std::string> all_;
  bool exchanging_ = false;
  int64_t waiting_until_ns_ = 0;
  std::vector<int> late_;
  absl::Status trouble_;    // of one that cannot run, as the others are told
  int64_t trouble_ns_ = 0;  // when that was known
  absl::Status failure_;
};

}  // namespace stringline
