// A list knows, for each number that has a limit, how it changes in the part of the list that a
// choice has passed: an action fits if the number stays within its limit on that way.
#include "schedlang/plan/ready.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace stringline {
namespace {

// The change of what its stage holds with the computation.
StageRoom ChangeOf(ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward:
      return {1, 0};
    case ActionKind::kBackward:
      return {-1, 0};
    case ActionKind::kInputGradient:
      return {0, 1};
    case ActionKind::kWeightGradient:
      return {-1, -1};
    default:
      return {};
  }
}

// The words for a part of the plan that ready order does not have.
const char* Lacks(const Plan& plan) {
  if (!plan.pipes.empty()) return "pipes";
  if (plan.forward_only) return "schedules that are forward only";
  if (plan.slices > 1) return "slices";
  if (plan.chunks > 1) return "chunks";
  if (HasSteps(plan)) return "several steps, nor updates";
  if (!plan.rows.empty()) return "actions of the schedule's own";
  if (!plan.graph.is_chain()) return "edges of the schedule's own";
  return nullptr;
}

bool IsPerformed(ActionKind kind) {
  return kind == ActionKind::kForward || kind == ActionKind::kBackward ||
         kind == ActionKind::kInputGradient || kind == ActionKind::kWeightGradient;
}

// So many of a stage's F, of its B or I, and of its W stand in the list so far.
struct StageOrder {
  size_t done[kReadySorts] = {};
  std::optional<bool> whole;  // its gradients are B
};

// The fault of the next action of the stage's list, or "". `first`: the order of microbatches.
std::string FaultOf(const Plan& plan, const Action& action, const std::vector<int32_t>& first,
                    StageOrder* stage) {
  const std::string name = Print(plan, action);
  if (!IsPerformed(action.kind)) {
    return absl::StrCat("ready order ('window') performs F, B, I and W, and this is ", name);
  }
  if (action.joined) {
    return absl::StrCat("ready order ('window') performs one action at a time, and ", name,
                        " stands in a group");
  }
  const size_t sort = ReadySortOf(action.kind);
  if (sort != 0) {
    const bool whole = action.kind == ActionKind::kBackward;
    if (stage->whole.value_or(whole) != whole) {
      return absl::StrCat(name, ": in ready order ('window') a stage does all its microbatches ",
                          "with B, or all with I and W");
    }
    stage->whole = whole;
  }
  const size_t k = stage->done[sort]++;
  if (k >= first.size() || first[k] == action.microbatch.value) return "";
  return absl::StrCat("ready order ('window') keeps one order of microbatches in all stages, and ",
                      name, " is number ", k, " of the ", kReadySortNames[sort],
                      " of its stage: the first ", "stage has microbatch ", first[k], " there");
}

}  // namespace

ReadyRoom RoomOf(const Plan& plan) {
  ReadyRoom room;
  room.stages.resize(plan.stages.size());
  room.ranks.assign(static_cast<size_t>(plan.ranks()), 0);
  std::vector<StageRoom> held(plan.stages.size());
  for (int r = 0; r < plan.ranks(); ++r) {
    int all = 0;
    for (const Action& action : plan.of(RankId(r))) {
      const StageRoom change = ChangeOf(action.kind);
      StageRoom& now = held[action.stage.value];
      StageRoom& most = room.stages[action.stage.value];
      now.activations += change.activations;
      now.deferred += change.deferred;
      all += change.activations;
      most.activations = std::max(most.activations, now.activations);
      most.deferred = std::max(most.deferred, now.deferred);
      room.ranks[static_cast<size_t>(r)] = std::max(room.ranks[static_cast<size_t>(r)], all);
    }
  }
  for (StageRoom& stage : room.stages) {
    stage.activations = std::min(stage.activations + plan.slack, plan.microbatches);
    if (stage.deferred > 0) {
      stage.deferred = std::min(stage.deferred + plan.slack, plan.microbatches);
    }
  }
  for (int& rank : room.ranks) rank += plan.slack;
  return room;
}

std::optional<ReadyFault> FindReadyFault(const Plan& plan) {
  if (const char* const lacks = Lacks(plan)) {
    return ReadyFault{-1, absl::StrCat("ready order ('window') knows no ", lacks)};
  }
  std::vector<int32_t> first;  // the microbatches of the first stage's F
  for (const Action& action : plan.actions) {
    const bool is_first = plan.graph.In(action.stage).empty();
    if (is_first && action.kind == ActionKind::kForward) first.push_back(action.microbatch.value);
  }
  std::vector<StageOrder> stages(plan.stages.size());
  for (size_t i = 0; i < plan.actions.size(); ++i) {
    const Action& action = plan.actions[i];
    if (IsMessage(action.kind)) continue;
    std::string text = FaultOf(plan, action, first, &stages[action.stage.value]);
    if (!text.empty()) return ReadyFault{static_cast<int64_t>(i), std::move(text)};
  }
  return std::nullopt;
}

ValueTakers::ValueTakers(const Plan& plan)
    : takers_(plan.actions.size()), needs_(plan.actions.size(), 0) {
  // By stage, microbatch and sort (F, B or I, W): the action.
  std::vector<uint32_t> of(plan.stages.size() * plan.microbatches * kReadySorts, ReadyList::kNone);
  const auto at = [&](StageId stage, MicrobatchId microbatch, size_t sort) -> uint32_t& {
    const size_t index = static_cast<size_t>(stage.value) * plan.microbatches + microbatch.value;
    return of[index * kReadySorts + sort];
  };
  for (uint32_t i = 0; i < plan.actions.size(); ++i) {
    const Action& action = plan.actions[i];
    if (IsPerformed(action.kind)) at(action.stage, action.microbatch, ReadySortOf(action.kind)) = i;
  }
  for (uint32_t i = 0; i < plan.actions.size(); ++i) {
    const Action& action = plan.actions[i];
    if (!IsPerformed(action.kind)) continue;
    const auto give = [&](StageId to, size_t sort) {
      const uint32_t taker = to.valid() ? at(to, action.microbatch, sort) : ReadyList::kNone;
      if (taker == ReadyList::kNone) return;
      takers_[i].of[takers_[i].count++] = taker;
      ++needs_[taker];
    };
    const size_t sort = ReadySortOf(action.kind);
    if (sort == 0) {
      give(action.stage, 1);
      give(plan.graph.Behind(action.stage), 0);
    } else if (sort == 1) {
      give(action.stage, 2);
      give(plan.graph.Before(action.stage), 1);
    }
  }
}

ReadyList::ReadyList(const Plan& plan, RankId rank, const ReadyRoom& room)
    : plan_(&plan), place_of_(plan.stages.size(), -1) {
  counts_.push_back({.most = room.ranks[rank.value]});
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    if (plan.stages[s].rank != rank) continue;
    place_of_[s] = static_cast<int>(counts_.size());
    counts_.push_back({.most = room.stages[s].activations});
    counts_.push_back({.most = room.stages[s].deferred});
  }
  for (uint32_t i = plan.first[rank.value]; i < plan.first[rank.value + 1]; ++i) {
    if (IsPerformed(plan.actions[i].kind)) left_.push_back(i);
  }
}

absl::Span<const ReadyList::Change> ReadyList::ChangesOf(uint32_t index) {
  const Action& action = plan_->actions[index];
  const StageRoom change = ChangeOf(action.kind);
  const auto stage = static_cast<size_t>(place_of_[action.stage.value]);
  changes_[0] = {0, change.activations};
  changes_[1] = {stage, change.activations};
  changes_[2] = {stage + 1, change.deferred};
  return changes_;
}

bool ReadyList::Fits(uint32_t action) {
  const auto changes = ChangesOf(action);
  return std::all_of(changes.begin(), changes.end(), [this](const Change& change) {
    const Count& count = counts_[change.count];
    return change.by <= 0 || count.now + change.by + count.ahead_most <= count.most;
  });
}

void ReadyList::Pass(uint32_t action) {
  for (const Change& change : ChangesOf(action)) {
    if (change.by == 0) continue;
    Count& count = counts_[change.count];
    passed_.push_back(change.count);
    count.ahead += change.by;
    count.ahead_most = std::max(count.ahead_most, count.ahead);
  }
}

void ReadyList::Return() {
  for (const size_t count : passed_) counts_[count].ahead = counts_[count].ahead_most = 0;
  passed_.clear();
}

void ReadyList::Perform(uint32_t action) {
  const auto first = left_.begin() + static_cast<std::ptrdiff_t>(next_);
  const auto at = std::find(first, left_.end(), action);
  std::move_backward(first, at, at + 1);
  ++next_;
  for (const Change& change : ChangesOf(action)) counts_[change.count].now += change.by;
}

Plan AsPerformed(const Plan& plan, absl::Span<const std::vector<uint32_t>> order) {
  Plan performed = plan;
  performed.window = performed.slack = 0;
  performed.searched = {};
  performed.lowered = false;
  performed.actions.clear();
  performed.first = {0};
  for (const std::vector<uint32_t>& rank : order) {
    for (const uint32_t i : rank) performed.actions.push_back(plan.actions[i]);
    performed.first.push_back(static_cast<uint32_t>(performed.actions.size()));
  }
  return performed;
}

Plan InListOrder(const Plan& plan) {
  std::vector<std::vector<uint32_t>> order(static_cast<size_t>(plan.ranks()));
  for (size_t r = 0; r < order.size(); ++r) {
    for (uint32_t i = plan.first[r]; i < plan.first[r + 1]; ++i) {
      if (IsPerformed(plan.actions[i].kind)) order[r].push_back(i);
    }
  }
  return AsPerformed(plan, order);
}

}  // namespace stringline
