// A schedule's own actions (plan/rows.h) in the rules `complete` and `dataflow`: each is done once
// by every rank that has to, and of its values none is given while it is there, or left over.
#include <algorithm>
#include <bit>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schedlang/check/rules.h"
#include "schedlang/plan/effects.h"

namespace stringline {
namespace {

Diagnostic& Find(const Plan& plan, Code code, const Action& action, std::string text,
                 Diagnostics* diagnostics) {
  Diagnostic& finding = diagnostics->Add(code, SpanOf(plan, action), std::move(text));
  finding.where = WhereOf(plan, action);
  return finding;
}

std::string At(const Plan& plan, const Action& action) {
  return absl::StrCat("rank ", RankOf(plan, action).value, ": ", Print(plan, action));
}

}  // namespace

void FindOwnRepeated(const Plan& plan, Diagnostics* diagnostics) {
  if (plan.rows.actions.empty()) return;
  // By kind, stage and microbatch, the actions in the order of ranks.
  std::map<std::tuple<ActionKind, StageId, MicrobatchId>, std::vector<uint32_t>> all;
  for (uint32_t i = 0; i < plan.actions.size(); ++i) {
    const Action& action = plan.actions[i];
    if (!IsOwn(action.kind)) continue;
    std::vector<uint32_t>& done = all[{action.kind, action.stage, action.microbatch}];
    if (!done.empty() && RankOf(plan, plan.actions[done.back()]) == RankOf(plan, action)) {
      Find(plan, Code::kIncomplete, action,
           absl::StrCat(At(plan, action), " is done a second time"), diagnostics)
          .notes.push_back(NoteAt(plan, plan.actions[done.back()], "it was done here before"));
      continue;
    }
    done.push_back(i);
  }
  for (const auto& [key, done] : all) {
    const Action& first = plan.actions[done.front()];
    if (first.other < 0 || static_cast<int>(done.size()) == plan.ranks()) continue;
    int missing = 0;
    for (const uint32_t i : done) missing += plan.actions[i].other == missing ? 1 : 0;
    Find(plan, Code::kIncomplete, first,
         absl::StrCat(At(plan, first), " is for every rank, and rank ", missing, " has none"),
         diagnostics);
  }
}

void FindOwnLeftOver(const Plan& plan, Diagnostics* diagnostics) {
  if (plan.rows.actions.empty()) return;
  LiveValues live(plan);
  // The giver of every own value that is there, by rank, stage, microbatch and value.
  std::map<std::tuple<int32_t, int32_t, int32_t, Values>, uint32_t> there;
  const Values traced = kOwnValues | kInput | kOutGrad | kSaved | kKept | kStash;
  for (uint32_t i = 0; i < plan.actions.size(); ++i) {
    const Action& action = plan.actions[i];
    if (!IsOfMicrobatch(action.kind)) continue;
    const Effects& effects = EffectsOf(plan, action);
    const int32_t rank = RankOf(plan, action).value;
    const Values twice =
        IsOwn(action.kind) ? effects.gives & ~effects.releases & live.There(action) & traced : 0;
    if (twice != 0) {
      const Values value = LowestOf(twice);
      Diagnostic& finding =
          Find(plan, Code::kDataflow, action,
               absl::StrCat(At(plan, action), " gives the ",
                            Describe(plan, action.stage, action.microbatch, value),
                            ", which is there already"),
               diagnostics);
      const auto giver = there.find({rank, action.stage.value, action.microbatch.value, value});
      if (giver != there.end()) {
        const Action& before = plan.actions[giver->second];
        finding.notes.push_back(
            NoteAt(plan, before, absl::StrCat(Print(plan, before), " gave it")));
      }
    }
    const StageGraph& graph = plan.GraphOf(action.microbatch);
    const auto before = graph.In(action.stage), behind = graph.Out(action.stage);
    StageId giver;
    if ((effects.gives & kInput) && !before.empty()) {
      giver = before[0].from;
    } else if ((effects.gives & kOutGrad) && (effects.gives & kInput) == 0 && !behind.empty()) {
      giver = behind[0].to;
    }
    if (IsOwn(action.kind) && giver.valid()) {
      Find(
          plan, Code::kDataflow, action,
          absl::StrCat(At(plan, action), " gives ", (effects.gives & kInput) ? "input" : "out_grad",
                       " of stage ", PrintStage(plan.pipes, action.stage), ", which stage ",
                       PrintStage(plan.pipes, giver), " gives"),
          diagnostics);
    }
    live.Perform(action);
    ForEachSetOf(effects.releases & kOwnValues, [&](Values value) {
      there.erase({rank, action.stage.value, action.microbatch.value, value});
    });
    ForEachSetOf(effects.gives & traced, [&](Values value) {
      there[{rank, action.stage.value, action.microbatch.value, value}] = i;
    });
  }
  for (const auto& [key, giver] : there) {
    const auto [rank, stage, microbatch, value] = key;
    if ((value & kOwnValues) == 0) continue;
    const Action& action = plan.actions[giver];
    Find(plan, Code::kDataflow, action,
         absl::StrCat(At(plan, action), " gives the ",
                      Describe(plan, action.stage, action.microbatch, value),
                      ", which is left over: nothing behind it frees it"),
         diagnostics);
  }
}

}  // namespace stringline
