#include "schedlang/ask/jitter.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "schedlang/base/fields.h"
#include "schedlang/base/status.h"
#include "schedlang/base/threads.h"
#include "schedlang/costs/cost_keys.h"
#include "schedlang/plan/ready.h"
#include "schedlang/report/variations.h"
#include "schedlang/sim/ready_order.h"
#include "schedlang/sim/simulate.h"

namespace stringline {
namespace {

// A plan that is simulated again and again.
struct WiredPlan {
  Plan plan;
  Wiring wiring;
};

WiredPlan Wired(Plan plan, CommLayout layout) {
  plan = LoweredPlan(std::move(plan), layout);
  Wiring wiring = WiringOf(plan, layout);
  return {std::move(plan), std::move(wiring)};
}

absl::StatusOr<int64_t> Drawn(const Plan& plan, const Wiring& wiring, const CostModel& costs,
                              uint64_t seed) {
  SL_ASSIGN_OR_RETURN(const Timeline timeline,
                      Simulate(plan, wiring, WithNoise(plan, costs, seed)));
  return MakespanOf(timeline);
}

class Draws {
 public:
  Draws(const Session& step, const JitterRuns& runs, const std::function<bool()>& after_each)
      : step_(step), runs_(runs), after_each_(after_each) {
    steps_.listed_ns.resize(static_cast<size_t>(runs.runs));
    if (!step.listed) return;
    steps_.ready_ns.resize(steps_.listed_ns.size());
    listed_ = Wired(InListOrder(*step.listed), step.timeline->layout);
  }

  absl::StatusOr<JitteredSteps> Run(int threads) {
    WorkOnThreads(std::min(threads, runs_.runs), [this] {
      for (int run = next_++; run < runs_.runs && !ended_; run = next_++) {
        const absl::Status status = Draw(run);
        const std::scoped_lock lock(mutex_);
        if (status_.ok()) status_ = status;
        if (status_.ok() && !after_each_()) status_ = absl::CancelledError("stopped");
        if (!status_.ok()) ended_ = true;
      }
    });
    if (!status_.ok()) return status_;
    return std::move(steps_);
  }

 private:
  absl::Status Draw(int run) {
    const uint64_t seed = SeedOfDraw(runs_, run);
    const auto k = static_cast<size_t>(run);
    const CostModel& costs = *step_.costs;
    if (!listed_) {
      SL_ASSIGN_OR_RETURN(steps_.listed_ns[k], Drawn(*step_.plan, *step_.links, costs, seed));
      return absl::OkStatus();
    }
    SL_ASSIGN_OR_RETURN(steps_.listed_ns[k], Drawn(listed_->plan, listed_->wiring, costs, seed));
    const WiredPlan performed = Wired(
        PerformedAt(*step_.listed, WithNoise(*step_.listed, costs, seed)), step_.timeline->layout);
    SL_ASSIGN_OR_RETURN(steps_.ready_ns[k], Drawn(performed.plan, performed.wiring, costs, seed));
    return absl::OkStatus();
  }

  const Session& step_;
  const JitterRuns& runs_;
  const std::function<bool()>& after_each_;
  std::optional<WiredPlan> listed_;
  std::atomic<int> next_ = 0;
  std::atomic<bool> ended_ = false;
  std::mutex mutex_;
  absl::Status status_;
  JitteredSteps steps_;
};

}  // namespace

uint64_t SeedOfDraw(const JitterRuns& runs, int k) {
  return static_cast<uint64_t>(runs.seed) + static_cast<uint64_t>(k) * 1'000'003;
}

absl::Status SetJitter(const std::string& share, CostModel* costs) {
  if (!share.empty()) {
    constexpr CostKey kJitter = {"jitter", CostUnit::kShare, false, ""};
    SL_ASSIGN_OR_RETURN(costs->jitter, ParseCost(kJitter, share));
  }
  if (HasJitter(*costs)) return absl::OkStatus();
  return FieldError("jitter",
                    "nothing is drawn at random: say how much times vary, as in 30%, here or in "
                    "the costs (`jitter`, `jitter.microbatch`)");
}

absl::StatusOr<JitteredSteps> StepsUnderJitter(const Session& step, const JitterRuns& runs,
                                               int threads,
                                               const std::function<bool()>& after_each) {
  if (threads == 0) threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return Draws(step, runs, after_each).Run(threads);
}

absl::StatusOr<int64_t> InListOrderNs(const Session& step) {
  const WiredPlan listed = Wired(InListOrder(*step.listed), step.timeline->layout);
  SL_ASSIGN_OR_RETURN(const Timeline timeline, Simulate(listed.plan, listed.wiring, *step.costs));
  return MakespanOf(timeline);
}

}  // namespace stringline
