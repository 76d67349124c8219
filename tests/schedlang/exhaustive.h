// The judge of the checker: a small, slow model of ranks, streams and communicators that tries
// every interleaving. Written from NCCL's rules as replay.h states them; it uses nothing of the
// project but `struct Plan`.
#pragma once

#include "schedlang/plan.h"

namespace stringline {

// How the ranks are connected: 0 one communicator for all, 1 one for every two ranks, 2 one for
// every direction, 3 one for what goes to higher ranks and one for what goes to lower ones.
struct World {
  int layout = 2;
  int buffers = 0;    // messages a direction holds that are sent and not received
  bool lazy = false;  // communicators connect at their first call, which blocks the host
};

enum class Verdict { kGood, kBad, kTooLarge };

// Good when every run ends with everything done once and every message met by its own receive.
// TooLarge when there are more than `most_states` states.
Verdict JudgeExhaustively(const Plan& lowered, const World& world, int most_states = 50'000);

// The same by following a single run, for plans with too many. No step takes another its chance, so
// all runs end alike; a test asks JudgeExhaustively whether that is so.
Verdict JudgeOneRun(const Plan& lowered, const World& world);

}  // namespace stringline
