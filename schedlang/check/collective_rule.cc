// The rule `collectives`: the use of the parameters of stages.
//
// A stage with any UNSHARD or RESHARD begins sharded, with CheckOptions::sharded every stage does;
// then F, B, I and W need its parameters unsharded. Gradients are reduced once a step, behind the
// stage's last B or W and before its UPDATE, and for every stage if for any. Parameters gathered
// before an UPDATE are old behind it. The k-th stages of all pipes are reduced together, so the
// ranks that hold them reduce in one order, and gather nothing behind a reduction if other members
// need the gathered parameters before they come to it.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schedlang/check/meetings.h"
#include "schedlang/check/rules.h"
#include "schedlang/plan/replica_reductions.h"

namespace stringline {
namespace {

class CollectiveRule {
 public:
  CollectiveRule(const Plan& plan, const CheckOptions& options, Diagnostics* diagnostics)
      : plan_(plan),
        diagnostics_(diagnostics),
        states_(plan.stages.size(), {.sharded_at_all = options.sharded}),
        any_(options.sharded) {
    for (const Action& action : plan.actions) {
      if (!IsCollective(action.kind)) continue;
      any_ = true;
      State& state = states_[action.stage.value];
      if (action.kind == ActionKind::kUnshard || action.kind == ActionKind::kReshard) {
        state.sharded_at_all = true;
      }
      if (action.kind == ActionKind::kReduceGrad) any_reduced_ = true;
    }
  }

  void Run() {
    if (!any_) return;
    for (const Action& action : plan_.actions) Walk(action);
    if (!any_reduced_) return;
    for (size_t s = 0; s < states_.size(); ++s) {
      if (states_[s].reduced != nullptr || states_[s].last == nullptr) continue;
      if (states_[s].updated) continue;
      Find(*states_[s].last, absl::StrCat("the gradients of stage ", Name(s),
                                          " are never reduced, those of other stages are"));
    }
    if (!plan_.pipes.empty()) FindOrder();
  }

 private:
  struct State {
    bool sharded_at_all = false;
    bool there = false;                 // unsharded now
    const Action* old_since = nullptr;  // the UPDATE behind which they were not gathered again
    const Action* change = nullptr;     // the last unshard or reshard
    const Action* reduced = nullptr;
    const Action* last = nullptr;  // the last computation
    bool updated = false;          // an UPDATE says whether they were
    int reductions = 0;
    int updates = 0;
  };

  std::string Name(size_t stage) const {
    return PrintStage(plan_.pipes, StageId(static_cast<int32_t>(stage)));
  }

  Diagnostic& Find(const Action& action, std::string text) {
    Diagnostic& finding =
        diagnostics_->Add(Code::kCollectives, SpanOf(plan_, action), std::move(text));
    finding.where = WhereOf(plan_, action);
    return finding;
  }

  void Walk(const Action& action) {
    State& state = states_[action.stage.value];
    if (IsMessage(action.kind) || IsCopy(action.kind) || IsOwn(action.kind)) return;
    if (action.kind == ActionKind::kUpdate) return Update(action, &state);
    if (IsCompute(action.kind)) {
      if (state.there && state.old_since != nullptr) {
        Diagnostic& finding =
            Find(action, absl::StrCat(Print(plan_, action), " finds parameters gathered before ",
                                      Print(plan_, *state.old_since)));
        if (finding.notes.empty()) {
          finding.notes.push_back(NoteAt(plan_, *state.old_since, "they are updated here"));
        }
      }
      if (state.sharded_at_all && !state.there) {
        Diagnostic& finding =
            Find(action,
                 absl::StrCat(Print(plan_, action), " finds the parameters of its stage sharded"));
        if (state.change != nullptr && finding.notes.empty()) {
          finding.notes.push_back(NoteAt(plan_, *state.change, "they are dropped here"));
        } else if (state.change == nullptr && finding.notes.empty()) {
          Note note;
          note.text = absl::StrCat("parameters are shared out, and nothing gathers those of stage ",
                                   PrintStage(plan_.pipes, action.stage), " before");
          note.has_place = false;
          finding.notes.push_back(std::move(note));
        }
      }
      if (state.reduced != nullptr && action.kind != ActionKind::kForward) {
        Diagnostic& finding =
            Find(action, absl::StrCat(Print(plan_, action),
                                      " comes after the gradients of its stage are reduced"));
        if (finding.notes.empty()) {
          finding.notes.push_back(NoteAt(plan_, *state.reduced, "they are reduced here"));
        }
      }
      state.last = &action;
      return;
    }
    if (action.kind == ActionKind::kReduceGrad) {
      if (state.reduced != nullptr) {
        Find(action,
             absl::StrCat(Print(plan_, action), ": the gradients are reduced a second time"));
      }
      state.reduced = &action;
      ++state.reductions;
      return;
    }
    const bool unshard = action.kind == ActionKind::kUnshard;
    if (unshard == state.there) {
      Find(action, absl::StrCat(Print(plan_, action), unshard ? ": the parameters are there already"
                                                              : ": the parameters are not there"));
    }
    state.there = unshard;
    state.old_since = nullptr;
    state.change = &action;
  }

  void Update(const Action& update, State* state) {
    if (any_reduced_ && state->reduced == nullptr) {
      Find(update, absl::StrCat(Print(plan_, update),
                                " comes before the gradients of its stage are reduced"));
    } else if (any_reduced_) {
      ForReplicasOnRank(plan_, update.stage, [&](StageId replica) {
        if (replica == update.stage || states_[replica.value].reductions > state->updates) return;
        Find(update, absl::StrCat(Print(plan_, update), " comes before ",
                                  PrintAction(plan_.pipes, {}, 1, ActionKind::kReduceGrad, replica,
                                              MicrobatchId()),
                                  ", with which the rank sums the gradients of both replicas"));
      });
    }
    ++state->updates;
    state->reduced = nullptr;
    state->updated = true;
    if (state->there) state->old_since = &update;
  }

  void FindOrder() {
    const ReplicaReductions reductions = ReplicaReductionsOf(plan_);
    std::vector<uint32_t> comes;
    for (const ReplicaReductions::Member& member : reductions.members) {
      if (member.comes) comes.push_back(member.action);
    }
    std::sort(comes.begin(), comes.end());
    MeetingSteps members{.steps = {}, .meetings = reductions.count()};
    members.steps.resize(plan_.ranks());
    std::vector<std::vector<const Action*>> actions(plan_.ranks());
    for (const uint32_t i : comes) {
      const Action& action = plan_.actions[i];
      const int rank = plan_.stage(action.stage).rank.value;
      members.steps[rank].push_back({reductions.of_action[i]});
      actions[rank].push_back(&action);
    }
    const std::vector<MeetingWait> cycle = FindMeetingCycle(members);
    Diagnostic* finding = nullptr;
    for (size_t i = 0; i < cycle.size(); ++i) {
      const Action& action = *actions[cycle[i].member][cycle[i].step];
      const int next = cycle[(i + 1) % cycle.size()].member;
      const std::string text = absl::StrCat(
          "rank ", cycle[i].member, finding == nullptr ? " waits forever at " : " waits at ",
          Print(plan_, action), " for rank ", next, ", which holds a replica of the stage");
      if (finding == nullptr) {
        finding = &Find(action, text);
      } else {
        finding->notes.push_back(NoteAt(plan_, action, text));
      }
    }
  }

  const Plan& plan_;
  Diagnostics* diagnostics_;
  std::vector<State> states_;  // by stage
  bool any_;                   // the plan has collectives, or needs them
  bool any_reduced_ = false;
};

}  // namespace

void FindCollectiveFault(const Plan& plan, const CheckOptions& options, Diagnostics* diagnostics) {
  const size_t before = diagnostics->findings().size();
  CollectiveRule(plan, options, diagnostics).Run();
  const auto gathers = [](const Action& a) { return a.kind == ActionKind::kUnshard; };
  if (diagnostics->findings().size() == before && !plan.pipes.empty() &&
      (HasUpdates(plan) || std::any_of(plan.actions.begin(), plan.actions.end(), gathers))) {
    FindGatherCycle(plan, options, diagnostics);
  }
}

}  // namespace stringline
