// The judge of the checker: a small, slow model of ranks, streams and communicators that tries
// every interleaving. Written from NCCL's rules as replay.h states them; only `struct Plan` is
// taken from the project.
#pragma once

#include "schedlang/plan/plan.h"

namespace stringline {

// The communicators between ranks: 0 a single one for all, 1 one for every two ranks, 2 one for
// every direction, 3 one for messages to higher ranks and one for messages to lower ranks.
struct World {
  int layout = 2;
  int buffers = 0;    // sent messages that a direction holds until they are received
  bool lazy = false;  // communicators connect at their first call, which blocks the host
};

enum class Verdict { kGood, kBad, kTooLarge };

// Good when every run ends with everything done once and every message met by its own receive.
// TooLarge when the plan has more than `most_states` states.
Verdict JudgeExhaustively(const Plan& lowered, const World& world, int most_states = 50'000);

// The same by following a single run, for plans with too many states. No step disables another, so
// all runs end alike; a test asks JudgeExhaustively for proof.
Verdict JudgeOneRun(const Plan& lowered, const World& world);

}  // namespace stringline
