// A connection to another process of a run that heals, at the address where it listens until its
// end: proved, and introduced.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "executor/processes/frames.h"
#include "executor/processes/hello.h"
#include "executor/processes/proof.h"
#include "executor/processes/secret.h"

namespace stringline {

inline constexpr int64_t kReachPauseNs = 20'000'000;  // between two tries of a connection

struct ReachedMember {
  FrameSocket socket;    // not open: it was not reached
  bool refused = false;  // by a host that has no listener there
};
// Tries once.
ReachedMember ReachMember(const std::string& host, int port, const Secret& secret,
                          const Hello& hello, int64_t until_ns);

// Advances the proof until it ends, or is too late.
Prover::State AwaitProof(Prover* prover, int64_t until_ns);
// The next frame. Nullopt: the connection has ended, and `why` says why; or it is too late.
std::optional<Frame> AwaitFrame(FrameSocket* socket, int64_t until_ns, std::string* why);

}  // namespace stringline
