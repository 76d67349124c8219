// Steps whose durations are drawn at random, of a plan in the order of its lists and in ready
// order.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/ask/session.h"

namespace stringline {

// The draws of a step, where nothing else is said.
inline constexpr int kUsualDraws = 20;

// The numbers of the draws: `runs` of them, from `seed` on.
struct JitterRuns {
  int runs = 200;
  int seed = 1;
};

// The seed of draw k of those.
uint64_t SeedOfDraw(const JitterRuns& runs, int k);

// Takes the standard deviation of durations, "30%", into the costs; "": leaves what they say.
// InvalidArgument for a share that is none, and for costs without any jitter then.
absl::Status SetJitter(const std::string& share, CostModel* costs);

// By draw, the time of the step. The draws of both orders are the same (WithNoise).
struct JitteredSteps {
  std::vector<int64_t> listed_ns;  // in the order of the lists
  std::vector<int64_t> ready_ns;   // in ready order; empty: the plan has no window
};

// `step` was simulated, and its costs have a jitter. Several threads simulate, and the result does
// not depend on their number; 0: as many as processors. `after_each` is called behind each draw,
// one call at a time; false ends all with Cancelled.
absl::StatusOr<JitteredSteps> StepsUnderJitter(
    const Session& step, const JitterRuns& runs, int threads = 0,
    const std::function<bool()>& after_each = [] { return true; });

// The time of a step whose plan has a window, in the order of its lists, at the step's costs
// without jitter.
absl::StatusOr<int64_t> InListOrderNs(const Session& step);

}  // namespace stringline
