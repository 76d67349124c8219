#include "schedlang/effects.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "schedlang/base/sl_check.h"

namespace stringline {

const Effects& EffectsOf(ActionKind kind) {
  // In the order of actions.def: needs, gives, releases. The comment of the header, as a table.
  static constexpr Effects kTable[kActionKinds] = {
      {kInput, kOutput | kSaved, kInput},                             // F
      {kOutGrad | kSaved, kInGrad | kWeightGrad, kOutGrad | kSaved},  // B
      {kOutGrad | kSaved, kInGrad | kStash, kOutGrad | kSaved},       // I
      {kStash, kWeightGrad, kStash},                                  // W
      {kOutput, 0, kOutput},                                          // SEND_F
      {0, kInput, 0},                                                 // RECV_F
      {kInGrad, 0, kInGrad},                                          // SEND_B
      {0, kOutGrad, 0},                                               // RECV_B
      {0, 0, 0},  // UNSHARD, RESHARD, REDUCE_GRAD: their effects are on a stage's parameters
      {0, 0, 0},
      {0, 0, 0},
  };
  return kTable[static_cast<int>(kind)];
}

LiveValues::LiveValues(const Plan& plan)
    : plan_(plan),
      microbatches_(static_cast<size_t>(plan.microbatches)),
      live_(plan.stages.size() * microbatches_, 0) {
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    if (plan.stages[s].previous.valid()) continue;
    std::fill_n(live_.begin() + static_cast<std::ptrdiff_t>(s * microbatches_),
                plan.microbatches_of(StageId(static_cast<int32_t>(s))),
                static_cast<Values>(kInput));
  }
}

void LiveValues::Perform(const Action& action) {
  if (IsCollective(action.kind)) return;
  const Effects& effects = EffectsOf(action.kind);
  Values gives = effects.gives;
  const Stage& stage = plan_.stage(action.stage);
  Values& own = live_[Index(action.stage, action.microbatch)];
  own &= static_cast<Values>(~effects.releases);
  if (gives & kOutput) {
    if (!stage.next.valid()) {
      gives = (gives & ~kOutput) | kOutGrad;  // the loss gives its own gradient
    } else if (plan_.stage(stage.next).rank == stage.rank) {
      gives &= ~kOutput;
      live_[Index(stage.next, action.microbatch)] |= kInput;
    }
  }
  if (gives & kInGrad) {
    if (!stage.previous.valid()) {
      gives &= ~kInGrad;
    } else if (plan_.stage(stage.previous).rank == stage.rank) {
      gives &= ~kInGrad;
      live_[Index(stage.previous, action.microbatch)] |= kOutGrad;
    }
  }
  own |= gives;
}

bool LiveValues::Whole() const {
  for (size_t s = 0; s < plan_.stages.size(); ++s) {
    const auto row = live_.begin() + static_cast<std::ptrdiff_t>(s * microbatches_);
    const int count = plan_.microbatches_of(StageId(static_cast<int32_t>(s)));
    if (std::count(row, row + count, static_cast<Values>(kWeightGrad)) != count) return false;
  }
  return true;
}

std::string Describe(const Plan& plan, StageId stage, MicrobatchId microbatch, Values values) {
  const Stage& place = plan.stage(stage);
  std::string what;
  if (values & kInput) {
    what = place.previous.valid()
               ? absl::StrCat("activation of stage ", PrintStage(plan.pipes, place.previous))
               : absl::StrCat("data of stage ", PrintStage(plan.pipes, stage));
  } else if (values & kOutput) {
    what = absl::StrCat("activation of stage ", PrintStage(plan.pipes, stage));
  } else if (values & kSaved) {
    what = absl::StrCat("saved input of stage ", PrintStage(plan.pipes, stage));
  } else if (values & kOutGrad) {
    what = place.next.valid()
               ? absl::StrCat("gradient of stage ", PrintStage(plan.pipes, place.next))
               : absl::StrCat("loss of stage ", PrintStage(plan.pipes, stage));
  } else if (values & kInGrad) {
    what = absl::StrCat("gradient of stage ", PrintStage(plan.pipes, stage));
  } else if (values & kStash) {
    what = absl::StrCat("deferred weight gradient of stage ", PrintStage(plan.pipes, stage));
  } else {
    SL_CHECK(values & kWeightGrad) << "describes nothing";
    what = absl::StrCat("weight gradient of stage ", PrintStage(plan.pipes, stage));
  }
  return absl::StrCat(what, ", microbatch ", microbatch.value);
}

}  // namespace stringline
