// An F takes the lowest microbatch that its stage has not done; so does a B or an I, and these two
// share a counter; R and D have one each. A W takes the oldest deferred by an I, and a U the oldest
// that a D has copied. The earlier action behind a duplicate is searched for only for a finding.
#include "schedlang/elaborate/rank_work.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace stringline {

RankWork::RankWork(int64_t padded_microbatches, const ElaborateLimits& limits, Plan* plan,
                   Diagnostics* diagnostics)
    : microbatches_(padded_microbatches),
      limits_(limits),
      plan_(plan),
      diagnostics_(diagnostics),
      counters_(plan->stages.size(), StageCounters(plan->slices)),
      deferred_(plan->stages.size()),
      offloaded_(plan->stages.size()) {}

void RankWork::StartRank(RankId rank) {
  rank_ = rank;
  deferred_.StartRank();
  offloaded_.StartRank();
  new_deferred_.clear();
  if (!plan_->rows.actions.empty()) {
    for (StageCounters& counters : counters_) counters.own.clear();  // of the rank before
  }
  loops_.clear();
}

void RankWork::EndRank() { plan_->first.push_back(static_cast<uint32_t>(plan_->actions.size())); }

int32_t RankWork::CurrentIteration() {
  if (set_iteration_) return *set_iteration_;
  int32_t outer = -1;
  for (Pass& pass : loops_) {
    if (pass.id < 0) {
      pass.id = static_cast<int32_t>(plan_->iterations.size());
      plan_->iterations.push_back({.outer = outer, .i = static_cast<int32_t>(pass.i)});
    }
    outer = pass.id;
  }
  return outer;
}

std::string RankWork::Where() {
  Action here;
  here.iteration = CurrentIteration();
  return absl::StrCat("rank ", rank_.value, ", ", WhereOf(*plan_, here));
}

Diagnostic& RankWork::Find(Code code, Span span, std::string text) {
  Diagnostic& finding = diagnostics_->Add(code, span, std::move(text));
  finding.where = Where();
  if (written_ != nullptr) finding.notes.push_back({*written_, "the order wrote it down here", ""});
  return finding;
}

bool RankWork::Evaluated(Evaluator* evaluator) {
  if (!evaluator->failed()) return true;
  EvalFailure failure = evaluator->TakeFailure();
  if (failure.code == Code::kTooLong) Stop();
  AddFailure(std::move(failure), Where(), diagnostics_);
  return false;
}

void RankWork::StopAtActionLimit(Span span) {
  Find(Code::kTooLong, span,
       absl::StrCat("elaboration is stopped here: more than ", limits_.actions, " actions"));
  Stop();
}

void RankWork::FindNotOwned(int64_t stage, Span span, const std::string& values) {
  const auto stages = static_cast<int64_t>(plan_->stages.size());
  if (stage < 0 || stage >= stages) {
    Find(
        Code::kNoSuchStage, span,
        absl::StrCat("stage ", stage, " does not exist: the stages are 0 .. ", stages - 1, values));
    return;
  }
  const RankId home = plan_->stages[stage].rank;
  Find(Code::kWrongRank, span,
       absl::StrCat("stage ", PrintStage(plan_->pipes, StageId(static_cast<int32_t>(stage))),
                    " lives on rank ", home.value, ", not on rank ", rank_.value, values));
}

void RankWork::StartGroup() { group_began_ = false; }

void RankWork::EndGroup() {
  for (const Action& action : new_deferred_) {
    deferred_.Add(action.stage.value, action.microbatch.value);
  }
  new_deferred_.clear();
}

bool RankWork::HasRoom(Span span) {
  if (static_cast<int64_t>(plan_->actions.size()) < limits_.actions) return true;
  StopAtActionLimit(span);
  return false;
}

bool RankWork::IsForward(ActionKind kind, const char* word, Span span) {
  if (!plan_->forward_only || IsOfForwardOnly(kind)) return true;
  Find(Code::kMisplaced, span, absl::StrCat("'", word, "' in a schedule that is forward only"));
  return false;
}

bool RankWork::PerformCollective(ActionKind kind, StageId stage, uint32_t place, Span span) {
  if (!IsForward(kind, "reduce", span)) return false;
  if (!HasRoom(span)) return false;
  Action action;
  action.kind = kind;
  action.stage = stage;
  action.place = place;
  action.iteration = CurrentIteration();
  plan_->actions.push_back(action);
  return true;
}

bool RankWork::PerformUpdate(StageId stage, uint32_t place, Span span) {
  if (!IsForward(ActionKind::kUpdate, "update", span)) return false;
  int& updates = counters_[static_cast<size_t>(stage.value)].updates;
  if (updates < plan_->steps) {
    if (!PerformCollective(ActionKind::kUpdate, stage, place, span)) return false;
    plan_->actions.back().microbatch = MicrobatchId(updates++);
    return true;
  }
  const std::string name = absl::StrCat(PrintStage(plan_->pipes, stage), "UPDATE");
  Find(Code::kPastLast, span,
       absl::StrCat(name, updates, " is past the last step, ", name, updates - 1,
                    plan_->steps == 1 ? "; 'steps' says how many there are" : ""));
  return false;
}

int64_t RankWork::MicrobatchesOf(StageId stage) const {
  return plan_->pipes.empty() ? microbatches_ : plan_->microbatches_of(stage);
}

bool RankWork::Perform(const Demand& demand, uint32_t place, Span span, const Span* written) {
  written_ = written;
  std::optional<Action> action = Number(demand, span);
  written_ = nullptr;
  if (!action) return false;
  action->place = place;
  if (plan_->rows.IsOfEveryRank(action->kind)) action->other = static_cast<int16_t>(rank_.value);
  if (action->kind == ActionKind::kInputGradient) new_deferred_.push_back(*action);
  if (action->kind == ActionKind::kOffload) {
    offloaded_.Add(action->stage.value, action->microbatch.value);
  }
  // The microbatch only pads the step, or leaves the stage out.
  if (action->microbatch.value >= plan_->microbatches ||
      plan_->LeavesOut(action->stage, action->microbatch)) {
    return true;
  }
  if (!HasRoom(span)) return false;
  action->joined = group_began_;
  action->iteration = CurrentIteration();
  plan_->actions.push_back(*action);
  group_began_ = true;
  return true;
}

bool RankWork::Recomputes(const Demand& demand, Span span) {
  if (demand.kind != ActionKind::kRecompute) return true;
  const std::vector<int>& all = plan_->recompute;
  if (!all.empty() && all[static_cast<size_t>(demand.stage.value)] == 1) return true;
  const std::string stage = PrintStage(plan_->pipes, demand.stage);
  Find(Code::kMisplaced, span,
       absl::StrCat("stage ", stage, " has no R, since it keeps everything; 'recompute s -> s == ",
                    plan_->pipes.empty() ? stage : "0",
                    ";' in the schedule makes it keep only what entered it"));
  return false;
}

std::optional<Action> RankWork::Number(const Demand& demand, Span span) {
  if (!IsForward(demand.kind, PrintedKind(demand.kind), span)) return std::nullopt;
  if (!Recomputes(demand, span)) return std::nullopt;
  if (demand.slice && (*demand.slice < 0 || *demand.slice >= plan_->slices)) {
    Find(Code::kPastLast, span,
         absl::StrCat("slice ", *demand.slice,
                      " does not exist: the slices of a microbatch are 0 .. ", plan_->slices - 1));
    return std::nullopt;
  }
  const bool left = demand.kind == ActionKind::kWeightGradient || demand.kind == ActionKind::kFetch;
  return left ? NumberLeft(demand, span) : NumberCounted(demand, span);
}

std::string RankWork::NameOf(const Demand& demand, SliceNumber number) const {
  return absl::StrCat(PrintStage(plan_->pipes, demand.stage), PrintedKind(plan_->rows, demand.kind),
                      number.microbatch, plan_->slices == 1 ? "" : absl::StrCat(".", number.slice));
}

bool RankWork::Exists(const Demand& demand, SliceNumber number, Span span) {
  const int64_t microbatches = MicrobatchesOf(demand.stage) / plan_->slices;
  if (number.microbatch >= 0 && number.microbatch < microbatches) return true;
  const std::string name = NameOf(demand, number);
  if (number.microbatch < 0) {
    Find(
        Code::kPastLast, span,
        absl::StrCat(name, " is before the first microbatch, ", NameOf(demand, {0, number.slice})));
    return false;
  }
  Find(Code::kPastLast, span,
       microbatches == 0 ? absl::StrCat(name, ", but no microbatch runs through its pipe")
                         : absl::StrCat(name, " is past the last microbatch, ",
                                        NameOf(demand, {microbatches - 1, number.slice})));
  return false;
}

std::optional<Action> RankWork::NumberCounted(const Demand& demand, Span span) {
  StageCounters& counters = counters_[demand.stage.value];
  WorkCounter& counter =
      IsOwn(demand.kind)
          ? counters.own.try_emplace(demand.kind, WorkCounter(plan_->slices)).first->second
      : demand.kind == ActionKind::kForward   ? counters.forward
      : demand.kind == ActionKind::kRecompute ? counters.recompute
      : demand.kind == ActionKind::kOffload   ? counters.offload
                                              : counters.input_gradient;
  const bool backward = demand.kind == ActionKind::kBackward ||
                        demand.kind == ActionKind::kInputGradient ||
                        demand.kind == ActionKind::kRecompute;
  const SliceNumber number = counter.Next(demand.microbatch, demand.slice, backward);
  if (!Exists(demand, number, span)) return std::nullopt;
  Action action;
  action.kind = demand.kind;
  action.stage = demand.stage;
  action.microbatch =
      MicrobatchId(static_cast<int32_t>(number.microbatch * plan_->slices + number.slice));
  if (counter.Take(number)) return action;
  Diagnostic& finding =
      Find(Code::kDoneTwice, span, absl::StrCat(NameOf(demand, number), " is done a second time"));
  NoteEarlier(action, &finding);
  return std::nullopt;
}

// Without a given slice a W takes the oldest of all that are left. A U, or either of a given
// microbatch, takes the last slice, whose gradient comes first.
const Deferred::Entry* RankWork::TakeLeft(const Demand& demand, Deferred* left) {
  if (!demand.stage.valid()) return left->TakeOldest();
  const int64_t slices = plan_->slices;
  const int32_t stage = demand.stage.value;
  if (demand.slice && demand.microbatch) {
    return left->Take(stage, *demand.microbatch * slices + *demand.slice);
  }
  if (demand.slice) {
    return left->TakeFirst(stage, [&](int64_t number) { return number % slices == *demand.slice; });
  }
  const bool any_slice = slices == 1 || demand.kind == ActionKind::kWeightGradient;
  if (!demand.microbatch && any_slice) return left->TakeOldestOf(stage);
  const Deferred::Entry* const oldest = left->OldestOf(stage);
  if (oldest == nullptr) return nullptr;
  const int64_t microbatch = demand.microbatch.value_or(oldest->microbatch / slices);
  const Deferred::Entry* taken = nullptr;
  for (int64_t k = slices; taken == nullptr && k-- > 0;) {
    taken = left->Take(stage, microbatch * slices + k);
  }
  return taken;
}

// `demand` is a W or a U.
std::optional<Action> RankWork::NumberLeft(const Demand& demand, Span span) {
  const bool fetches = demand.kind == ActionKind::kFetch;
  Deferred& left = fetches ? offloaded_ : deferred_;
  const Deferred::Entry* const entry = TakeLeft(demand, &left);
  if (entry == nullptr) {
    fetches ? FindNothingOffloaded(demand, span) : FindNothingDeferred(demand, span);
    return std::nullopt;
  }
  Action action;
  action.kind = demand.kind;
  action.stage = StageId(entry->stage);
  action.microbatch = MicrobatchId(static_cast<int32_t>(entry->microbatch));
  return action;
}

void RankWork::FindNothingOffloaded(const Demand& demand, Span span) {
  const std::string stage = PrintStage(plan_->pipes, demand.stage);
  Find(Code::kNothingDeferred, span,
       demand.microbatch
           ? absl::StrCat(NameOf(demand, {*demand.microbatch, demand.slice.value_or(0)}),
                          " is not on the host: no D has copied it")
           : absl::StrCat("a U of stage ", stage, ", of which no D has left anything on the host"));
}

void RankWork::FindNothingDeferred(const Demand& demand, Span span) {
  std::string text = "a bare W, but nothing is deferred on this rank";
  if (demand.microbatch) {
    text = absl::StrCat(NameOf(demand, {*demand.microbatch, demand.slice.value_or(0)}),
                        " is not deferred");
  } else if (demand.stage.valid()) {
    text = absl::StrCat("a W of stage ", PrintStage(plan_->pipes, demand.stage),
                        ", which has nothing deferred");
  }
  Diagnostic& finding = Find(Code::kNothingDeferred, span, std::move(text));
  for (const Action& action : new_deferred_) {
    if (demand.stage.valid() && demand.stage != action.stage) continue;
    finding.notes.push_back(
        {SpanOf(*plan_, action),
         absl::StrCat(Print(*plan_, action), " shares its '&', and defers only after it"), ""});
    return;
  }
  if (demand.microbatch && *demand.microbatch >= 0 &&
      *demand.microbatch < plan_->microbatches / plan_->slices) {
    Action action;
    action.kind = ActionKind::kWeightGradient;
    action.stage = demand.stage;
    action.microbatch = MicrobatchId(
        static_cast<int32_t>(*demand.microbatch * plan_->slices + demand.slice.value_or(0)));
    NoteEarlier(action, &finding);
  }
}

// Notes the action of this rank that did the work before; searched for only after a finding.
void RankWork::NoteEarlier(const Action& action, Diagnostic* finding) {
  const auto work = [](ActionKind kind) {
    return kind == ActionKind::kBackward ? ActionKind::kInputGradient : kind;
  };
  for (size_t i = plan_->first.back(); i < plan_->actions.size(); ++i) {
    const Action& earlier = plan_->actions[i];
    if (earlier.stage != action.stage || earlier.microbatch != action.microbatch) continue;
    const bool fused_weight =
        action.kind == ActionKind::kWeightGradient && earlier.kind == ActionKind::kBackward;
    if (work(earlier.kind) != work(action.kind) && !fused_weight) continue;
    finding->notes.push_back({SpanOf(*plan_, earlier),
                              absl::StrCat(Print(*plan_, earlier), " did it here first"),
                              WhereOf(*plan_, earlier)});
    return;
  }
}

}  // namespace stringline
