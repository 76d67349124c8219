#include "schedlang/sim/simulate.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "schedlang/check/replay.h"
#include "schedlang/effects.h"

namespace stringline {
namespace {

// Computes times while a replay runs. A message's times are kept by stage and microbatch: when it
// exists at its sender (written there), then when it arrives (written at the receiver).
class Clock {
 public:
  Clock(const Plan& plan, const CostModel& costs, Timeline* timeline)
      : plan_(plan),
        costs_(costs),
        timeline_(timeline),
        rank_ns_(plan.ranks(), 0),
        departed_ns_(ChannelsOf(plan).all.size(), 0),
        activation_ns_(plan.stages.size() * static_cast<size_t>(plan.microbatches), 0),
        gradient_ns_(activation_ns_.size(), 0) {}

  void Compute(uint32_t begin, uint32_t end) {
    const auto group = absl::MakeConstSpan(plan_.actions).subspan(begin, end - begin);
    int64_t& now_ns = rank_ns_[plan_.stage(group[0].stage).rank.value];
    int64_t start_ns = now_ns;
    for (const Action& part : group) {
      const Values needs = EffectsOf(part.kind).needs;
      const size_t i = Index(part.stage, part.microbatch);
      if (needs & kInput) start_ns = std::max(start_ns, activation_ns_[i]);
      if (needs & kOutGrad) start_ns = std::max(start_ns, gradient_ns_[i]);
    }
    now_ns = start_ns + GroupCost(costs_, group);
    for (uint32_t k = begin; k < end; ++k) Write(k, start_ns, now_ns);
    // From here on the slots hold when the stage's own results exist, for its sends.
    for (const Action& part : group) {
      const size_t i = Index(part.stage, part.microbatch);
      const Values gives = EffectsOf(part.kind).gives;
      if (gives & kOutput) activation_ns_[i] = now_ns;
      if (gives & kInGrad) gradient_ns_[i] = now_ns;
    }
  }

  void Transfer(int channel, uint32_t send, uint32_t recv) {
    const Action& from = plan_.actions[send];
    const Action& to = plan_.actions[recv];
    const bool forward = from.kind == ActionKind::kSendForward;
    std::vector<int64_t>& times = forward ? activation_ns_ : gradient_ns_;
    int64_t& departed_ns = departed_ns_[channel];
    departed_ns = std::max(departed_ns, times[Index(from.stage, from.microbatch)]);
    const int64_t arrives_ns = departed_ns + costs_.hop;
    times[Index(to.stage, to.microbatch)] = arrives_ns;
    Write(send, departed_ns, arrives_ns);
    Write(recv, departed_ns, arrives_ns);
  }

 private:
  size_t Index(StageId stage, MicrobatchId m) const {
    return static_cast<size_t>(stage.value) * plan_.microbatches + m.value;
  }

  void Write(uint32_t index, int64_t start_ns, int64_t end_ns) {
    timeline_->events[index].start_ns = start_ns;
    timeline_->events[index].end_ns = end_ns;
  }

  const Plan& plan_;
  const CostModel& costs_;
  Timeline* timeline_;
  std::vector<int64_t> rank_ns_;      // by rank: when its compute stream is free
  std::vector<int64_t> departed_ns_;  // by channel: when its last message left
  std::vector<int64_t> activation_ns_;
  std::vector<int64_t> gradient_ns_;
};

}  // namespace

absl::StatusOr<Timeline> Simulate(const Plan& lowered, const CostModel& costs) {
  Timeline timeline = TimelineOf(lowered, "simulated");
  Clock clock(lowered, costs, &timeline);
  if (!Replay<Clock>(lowered, &clock).Run()) {
    return absl::FailedPreconditionError(
        "the plan never ends: 'stringline check' says where it waits");
  }
  // Collectives take no time: each stands where the computation before it ends.
  for (int r = 0; r < lowered.ranks(); ++r) {
    int64_t now_ns = 0;
    for (uint32_t i = timeline.first[r]; i < timeline.first[r + 1]; ++i) {
      Event& event = timeline.events[i];
      if (IsCompute(event.kind)) now_ns = event.end_ns;
      if (IsCollective(event.kind)) event.start_ns = event.end_ns = now_ns;
    }
  }
  return timeline;
}

}  // namespace stringline
