// The connections to process 0 before the run begins: each proves the secret (gate.h), and then
// introduces its process (hello.h). Nothing waits for a single connection.
#pragma once

#include <poll.h>

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "executor/processes/frames.h"
#include "executor/processes/gate.h"
#include "executor/processes/hello.h"
#include "executor/processes/secret.h"

namespace stringline {

// The purpose of proofs to process 0 (proof.h).
inline constexpr char kWorldPurpose[] = "world";

class Newcomers {
 public:
  // Owns the listening sockets.
  Newcomers(std::vector<int> listeners, const Secret* secret);

  // Appends what to wait for before the next Admit.
  void AddTo(std::vector<pollfd>* polled) const;

  // A process that has introduced itself.
  struct Arrival {
    Hello hello;
    FrameSocket socket;
  };
  // Accepts, reads and closes as much as possible without waiting. A connection whose first frame
  // is not the hello of the process that proved the secret is closed. Errors as Gate::Admit.
  absl::StatusOr<std::vector<Arrival>> Admit();
  // Tells an arrival the reason, and keeps the connection until it has read that.
  void SendAway(FrameSocket socket, FrameKind kind, absl::string_view bytes);
  // Connections that were closed without a proof.
  int64_t refused() const { return gate_.refused(); }

 private:
  struct Newcomer {
    int process = 0;
    FrameSocket socket;
    bool told = false;  // closed when the other end is
    bool done = false;
  };

  void Read(Newcomer* newcomer, std::vector<Arrival>* arrivals);

  Gate gate_;
  std::vector<Newcomer> newcomers_;
};

}  // namespace stringline
