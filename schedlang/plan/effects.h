// The core table: the needs, gives and releases of every action. Nothing else in the project knows
// them: order, deadlock, the sends and receives of lowering, simulated time, live memory and the
// executor's buffers all follow. values.def has the table by value; by action:
//
//   action     | needs                 | gives                        | releases
//   -----------+-----------------------+------------------------------+---------------------
//   F s.m      | input s.m             | output s.m, saved s.m        | input s.m
//   B s.m      | out grad s.m, saved   | in grad s.m, weight grad s.m | out grad, saved s.m
//   I s.m      | out grad s.m, saved   | in grad s.m, stash s.m       | out grad, saved for I s.m
//   W s.m      | stash s.m             | weight grad s.m              | stash, saved for W s.m
//   R s.m      | kept s.m, to remake   | saved s.m                    | to remake s.m
//   D s.m      | saved, to offload s.m | hosted s.m                   | saved, to offload s.m
//   U s.m      | hosted s.m            | saved s.m                    | hosted s.m
//   SEND_F s.m | output s.m            |                              | output s.m
//   RECV_F s.m |                       | input s.m                    |
//   SEND_B s.m | in grad s.m           |                              | in grad s.m
//   RECV_B s.m |                       | out grad s.m                 |
//
// F gives `to offload`, too, which R, B and I release: D comes before them, and once. In a stage
// with R (Stage::remakes) an F gives `kept` and `to remake` in place of `saved`, D and U move
// `kept`, and all that follow need it; it lives until B or W.
//
// Collectives (UNSHARD, RESHARD, REDUCE_GRAD) act on the parameters of a stage, whatever the
// microbatch, and have no row of values here.
//
// A step is whole when every action ran with its needs live and at the end only the weight gradient
// of every stage and microbatch is live: nothing was done twice, dropped or left over.
//
// The output of stage s is the input of stage s+1, and the in grad of stage s+1 is the out grad of
// stage s: at once when both live on one rank, by a send and a receive otherwise. A first stage's
// input is the data, live from the start; a last stage's out grad comes from its own loss, with F.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/values.h"

namespace stringline {

struct Effects {
  Values needs;
  Values gives;
  Values releases;
};

using EffectsByKind = std::array<Effects, kActionKinds>;

// In a stage without R, and in one with it.
extern const std::array<EffectsByKind, 2> kEffects;

// `remakes`: in a stage with R.
inline const Effects& EffectsOf(ActionKind kind, bool remakes = false) {
  return kEffects[remakes ? 1 : 0][static_cast<size_t>(kind)];
}
inline const Effects& EffectsOf(const Plan& plan, StageId stage, ActionKind kind) {
  return EffectsOf(kind, plan.stage(stage).remakes);
}
inline const Effects& EffectsOf(const Plan& plan, const Action& action) {
  return EffectsOf(plan, action.stage, action.kind);
}

// The values that D and U move between a rank and its host.
inline Values CopiedValues(bool remakes) { return EffectsOf(ActionKind::kFetch, remakes).gives; }

// The value that a send takes, or a receive gives.
StageValue MessageOf(ActionKind send_or_recv);

// The live values of every stage and microbatch. Starts with the data of the first stages.
class LiveValues {
 public:
  explicit LiveValues(const Plan& plan);

  Values of(StageId stage, MicrobatchId microbatch) const {
    return live_[Index(stage, microbatch)];
  }
  // The needs of `action` that are not live.
  Values Missing(const Action& action) const {
    const Values needs = EffectsOf(plan_, action).needs;
    return needs == 0 ? 0 : needs & ~of(action.stage, action.microbatch);
  }
  // The same for group[part]. Parts of a group run at once, so values given by earlier parts are
  // not yet live, and values released by earlier parts are no longer available.
  Values Missing(absl::Span<const Action> group, size_t part) const {
    const Values needs = EffectsOf(plan_, group[part]).needs;
    if (needs == 0) return 0;
    Values there = of(group[part].stage, group[part].microbatch);
    for (size_t k = 0; k < part; ++k) {
      const bool same =
          group[k].stage == group[part].stage && group[k].microbatch == group[part].microbatch;
      if (same) there &= static_cast<Values>(~EffectsOf(plan_, group[k]).releases);
    }
    return needs & ~there;
  }
  // Takes the releases of the action, then adds its gives, as the neighbour stage's value if the
  // neighbour lives on the same rank.
  void Perform(const Action& action);
  // True when only weight gradients are left, one for each stage and microbatch of its pipe.
  bool Whole() const;

 private:
  size_t Index(StageId stage, MicrobatchId microbatch) const {
    return static_cast<size_t>(stage.value) * microbatches_ + microbatch.value;
  }
  const Plan& plan_;
  size_t microbatches_;
  std::vector<Values> live_;
};

// "activation of stage 1, microbatch 0": the lowest value in `values`, in words. A stage's input is
// named for the stage that produces it.
std::string Describe(const Plan& plan, StageId stage, MicrobatchId microbatch, Values values);

// The change in live stage activations on the rank, as memory is counted in the literature:
// +1 at F, -1 at B or W, also of a stage that recomputes; -1 at D and +1 at U.
constexpr int ActivationChange(ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward:
    case ActionKind::kFetch:
      return 1;
    case ActionKind::kBackward:
    case ActionKind::kOffload:
    case ActionKind::kWeightGradient:
      return -1;
    default:
      return 0;
  }
}

}  // namespace stringline
