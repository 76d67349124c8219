#include "schedlang/lower/collectives.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace stringline {
namespace {

// A stage, and the next action of its rank that needs it.
struct NextUse {
  StageId stage;
  uint32_t action = 0;
};

// Works on a rank. A single walk from the back prepares everything looked up ahead.
class CollectiveInserter {
 public:
  CollectiveInserter(const Plan& plan, const CollectiveChoice& choice,
                     std::vector<int>* weights_left)
      : plan_(plan),
        choice_(choice),
        resident_(
            static_cast<size_t>(choice.resident > 0 ? choice.resident : plan.gathers_ahead + 1)),
        weights_left_(*weights_left) {}

  void Insert(RankId rank, std::vector<Action>* out) {
    const absl::Span<const Action> actions = plan_.of(rank);
    if (choice_.gathers) LookAhead(actions);
    for (size_t i = 0; i < actions.size();) {
      const absl::Span<const Action> group = GroupAt(actions, i);
      if (choice_.gathers && ComputesMicrobatch(group[0].kind))
        Exchange(WindowAt(i), group[0], out);
      if (choice_.gathers && group[0].kind == ActionKind::kUpdate) DropOld(group[0], out);
      out->insert(out->end(), group.begin(), group.end());
      for (const Action& part : group) {
        if (choice_.reduces && plan_.pipes.empty()) Reduce(part, out);
      }
      i += group.size();
    }
    for (const StageId stage : active_) Put(ActionKind::kReshard, stage, actions.back(), out);
  }

 private:
  // Gathered parameters are old behind the UPDATE.
  void DropOld(const Action& update, std::vector<Action>* out) {
    const auto own = std::find(active_.begin(), active_.end(), update.stage);
    if (own == active_.end()) return;
    active_.erase(own);
    Put(ActionKind::kReshard, update.stage, update, out);
  }

  // Notes, for every group, the stages that the rank needs from then on, the next first.
  void LookAhead(absl::Span<const Action> actions) {
    window_.assign(actions.size() + 1, 0);
    uses_.clear();
    std::vector<NextUse> next;  // for every stage used later, in order
    for (size_t i = actions.size(); i-- > 0;) {
      window_[i] = uses_.size();
      if (actions[i].kind == ActionKind::kUpdate) {
        // Nothing is gathered before it that is needed only behind it.
        next.erase(
            std::remove_if(next.begin(), next.end(),
                           [&](const NextUse& use) { return use.stage == actions[i].stage; }),
            next.end());
      }
      if (actions[i].joined || !ComputesMicrobatch(actions[i].kind)) continue;
      const absl::Span<const Action> group = GroupAt(actions, i);
      for (size_t k = group.size(); k-- > 0;) {
        const StageId stage = group[k].stage;
        const auto old = std::find_if(next.begin(), next.end(),
                                      [stage](const NextUse& use) { return use.stage == stage; });
        if (old != next.end()) next.erase(old);
        next.insert(next.begin(), {stage, static_cast<uint32_t>(i)});
      }
      size_t count = std::min(resident_, next.size());
      // A group is whole in the window or not at all.
      while (count < next.size() && next[count].action == next[count - 1].action) ++count;
      for (size_t k = 0; k < count; ++k) uses_.push_back(next[k].stage);
      ends_.push_back(uses_.size());
    }
  }

  absl::Span<const StageId> WindowAt(size_t i) {
    const size_t end = ends_.back();
    ends_.pop_back();
    return absl::MakeConstSpan(uses_).subspan(window_[i], end - window_[i]);
  }

  void Exchange(absl::Span<const StageId> window, const Action& at, std::vector<Action>* out) {
    const auto is_outside = [&](StageId stage) {
      if (std::find(window.begin(), window.end(), stage) != window.end()) return false;
      Put(ActionKind::kReshard, stage, at, out);
      return true;
    };
    active_.erase(std::remove_if(active_.begin(), active_.end(), is_outside), active_.end());
    for (const StageId stage : window) {
      if (std::find(active_.begin(), active_.end(), stage) != active_.end()) continue;
      active_.push_back(stage);
      Put(ActionKind::kUnshard, stage, at, out);
    }
  }

  void Reduce(const Action& part, std::vector<Action>* out) {
    const bool gives =
        part.kind == ActionKind::kBackward || part.kind == ActionKind::kWeightGradient;
    int& left = weights_left_[static_cast<size_t>(part.stage.value)];
    if (!gives || --left > 0) return;
    left = plan_.MicrobatchesOfStep(part.stage);  // of the next step
    Put(ActionKind::kReduceGrad, part.stage, part, out);
  }

  static void Put(ActionKind kind, StageId stage, const Action& at, std::vector<Action>* out) {
    Action action = at;
    action.kind = kind;
    action.joined = false;
    action.stage = stage;
    action.microbatch = MicrobatchId();
    out->push_back(action);
  }

  const Plan& plan_;
  const CollectiveChoice choice_;
  const size_t resident_;
  std::vector<int>& weights_left_;  // by stage: weight gradients of the step still to come
  std::vector<StageId> uses_;       // the windows, the last group's first
  std::vector<size_t> window_;      // by action: where its window begins in uses_
  std::vector<size_t> ends_;        // ends of the windows, the first group's last
  std::vector<StageId> active_;     // unsharded, the oldest first
};

}  // namespace

Plan AddCollectives(Plan plan, const CollectiveChoice& choice) {
  if (!choice.any()) return plan;
  CollectiveChoice missing = choice;
  for (const Action& action : plan.actions) {
    if (!IsCollective(action.kind)) continue;
    const bool reduces = action.kind == ActionKind::kReduceGrad;
    (reduces ? missing.reduces : missing.gathers) = false;
  }
  if (!missing.any()) return plan;
  std::vector<int> weights_left;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    weights_left.push_back(plan.MicrobatchesOfStep(StageId(static_cast<int32_t>(s))));
  }
  std::vector<Action> with;
  std::vector<uint32_t> first = {0};
  for (int r = 0; r < plan.ranks(); ++r) {
    CollectiveInserter(plan, missing, &weights_left).Insert(RankId(r), &with);
    first.push_back(static_cast<uint32_t>(with.size()));
  }
  plan.actions = std::move(with);
  plan.first = std::move(first);
  return plan;
}

Plan AddCollectives(Plan plan, int resident) {
  const auto is_collective = [](const Action& a) { return IsCollective(a.kind); };
  if (std::any_of(plan.actions.begin(), plan.actions.end(), is_collective)) return plan;
  return AddCollectives(std::move(plan), {.gathers = true, .reduces = true, .resident = resident});
}

}  // namespace stringline
