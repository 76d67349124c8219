// The rule `updates`: a walk down each rank's list counts, for every stage, the updates done and
// the weight gradients of the step that is under way. The F, R, B and I of step k need UPDATE
// k - versions before them; a B or W of step k needs UPDATE k - 1, since a stage adds up the
// gradients of one step at a time; and UPDATE k needs all weight gradients of step k.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schedlang/check/rules.h"
#include "schedlang/plan/effects.h"

namespace stringline {
namespace {

class UpdateRule {
 public:
  UpdateRule(const Plan& plan, Diagnostics* diagnostics)
      : plan_(plan), diagnostics_(diagnostics), states_(plan.stages.size()) {}

  void Run() {
    for (uint32_t i = 0; i < plan_.actions.size(); ++i) {
      const Action& action = plan_.actions[i];
      if (action.kind == ActionKind::kUpdate) {
        StandsAlone(i);
        Update(action);
      } else if (ComputesMicrobatch(action.kind)) {
        Compute(action);
      }
    }
    for (size_t s = 0; s < states_.size(); ++s) {
      const State& state = states_[s];
      if (state.last == nullptr || state.updates == plan_.steps) continue;
      Find(*state.last,
           absl::StrCat(
               "stage ", Name(s), " has no UPDATE of step ", state.updates,
               state.updates == 0 && plan_.steps == 1 ? ", and other stages have theirs" : ""));
    }
  }

 private:
  struct State {
    int updates = 0;                 // done so far
    int gradients = 0;               // weight gradients of the step since
    const Action* update = nullptr;  // the last one
    const Action* last = nullptr;    // the last computation
  };

  std::string Name(size_t stage) const {
    return PrintStage(plan_.pipes, StageId(static_cast<int32_t>(stage)));
  }
  // "0UPDATE1"
  std::string NameOfUpdate(const Action& of, int step) const {
    return PrintAction(plan_.pipes, {}, 1, ActionKind::kUpdate, of.stage, MicrobatchId(step));
  }
  int MicrobatchesOfStep(StageId stage) const { return plan_.MicrobatchesOfStep(stage); }

  // Only the first finding at a place has notes.
  Diagnostic* Find(const Action& action, std::string text) {
    Diagnostic& finding = diagnostics_->Add(Code::kUpdates, SpanOf(plan_, action), std::move(text));
    finding.where = WhereOf(plan_, action);
    return finding.notes.empty() ? &finding : nullptr;
  }

  void NoteLater(const Action& action, int step, Diagnostic* finding) const {
    if (finding == nullptr) return;
    const RankId rank = plan_.stage(action.stage).rank;
    for (const Action& other : plan_.of(rank)) {
      if (other.kind != ActionKind::kUpdate || other.stage != action.stage) continue;
      if (other.microbatch.value != step) continue;
      finding->notes.push_back(
          NoteAt(plan_, other, absl::StrCat(Print(plan_, other), " comes later, here")));
      return;
    }
    finding->notes.push_back(
        {.text = absl::StrCat("nothing on rank ", rank.value, " does it"), .has_place = false});
  }

  void Compute(const Action& action) {
    State& state = states_[action.stage.value];
    state.last = &action;
    const int step = plan_.StepOf(action);
    const bool gives = (EffectsOf(plan_, action).gives & kWeightGrad) != 0;
    const bool reads = action.kind != ActionKind::kWeightGradient;
    if (reads && step - plan_.versions >= state.updates) {
      const int needed = step - plan_.versions;
      const int age = plan_.versions - 1;
      const std::string with =
          age == 0 ? ""
                   : absl::StrCat("; with ", plan_.versions, " versions they are at most ", age,
                                  age == 1 ? " update old" : " updates old");
      NoteLater(
          action, needed,
          Find(action, absl::StrCat(Print(plan_, action), " of step ", step,
                                    " needs weights behind ", NameOfUpdate(action, needed), with)));
    } else if (gives && step > state.updates) {
      NoteLater(action, state.updates,
                Find(action, absl::StrCat(Print(plan_, action), " adds to the gradients of step ",
                                          step, " before ", NameOfUpdate(action, state.updates),
                                          " has used those of step ", state.updates)));
    }
    if (gives && step == state.updates) ++state.gradients;
  }

  void StandsAlone(uint32_t i) {
    const bool joins = i + 1 < plan_.actions.size() && plan_.actions[i + 1].joined;
    if (!joins && !plan_.actions[i].joined) return;
    Find(plan_.actions[i], absl::StrCat(Print(plan_, plan_.actions[i]), " cannot share its group"));
  }

  void Update(const Action& update) {
    State& state = states_[update.stage.value];
    const int step = update.microbatch.value;
    if (step != state.updates) {
      Diagnostic* const finding =
          Find(update, step < state.updates
                           ? absl::StrCat(Print(plan_, update), " is done a second time")
                           : absl::StrCat(Print(plan_, update), " comes before ",
                                          NameOfUpdate(update, state.updates)));
      if (finding != nullptr && state.update != nullptr) {
        finding->notes.push_back(NoteAt(
            plan_, *state.update,
            absl::StrCat("the update before it is ", Print(plan_, *state.update), ", here")));
      }
      return;
    }
    const int missing = MicrobatchesOfStep(update.stage) - state.gradients;
    if (missing > 0) {
      Find(update, absl::StrCat(Print(plan_, update), " comes before ", missing, " of the ",
                                MicrobatchesOfStep(update.stage), " weight gradients of step ",
                                step, " of its stage"));
    }
    state.update = &update;
    state.gradients = 0;
    ++state.updates;
  }

  const Plan& plan_;
  Diagnostics* diagnostics_;
  std::vector<State> states_;  // by stage
};

}  // namespace

void FindUpdateFault(const Plan& plan, const CheckOptions& options, Diagnostics* diagnostics) {
  if (!HasSteps(plan)) return;
  UpdateRule(plan, diagnostics).Run();
  if (options.sharded && plan.versions > 1 && diagnostics->empty()) {
    diagnostics->Add(Code::kUpdates, plan.header,
                     "a stage with several versions of its weights cannot share out its "
                     "parameters: a gather gives one version; 'sharding: none', 'optimizer' or "
                     "'gradients' keep them whole");
  }
}

}  // namespace stringline
