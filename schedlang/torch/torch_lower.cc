#include "schedlang/torch/torch_lower.h"

#include <utility>
#include <vector>

#include "schedlang/plan/effects.h"

namespace stringline {
namespace {

class TorchLowering {
 public:
  TorchLowering(const Plan& plan, bool waits)
      : plan_(plan), waits_(waits), live_(plan), cursor_(plan.first.begin(), plan.first.end() - 1) {
    lists_.resize(plan.ranks());
    reducing_.resize(plan.ranks(), nullptr);
  }

  std::optional<TorchFile> Run() {
    size_t left = plan_.actions.size();
    for (const Action& action : plan_.actions) {
      left += waits_ && action.kind == ActionKind::kReduceGrad ? 1 : 0;
    }
    while (left > 0) {
      const size_t before = left;
      for (int r = 0; r < plan_.ranks(); ++r) left -= Step(r);
      if (left == before) return std::nullopt;
    }
    file_.plan = plan_;
    Plan& lowered = file_.plan;
    lowered.lowered = true;
    lowered.actions.clear();
    for (int r = 0; r < plan_.ranks(); ++r) {
      lowered.actions.insert(lowered.actions.end(), lists_[r].begin(), lists_[r].end());
      lowered.first[r + 1] = static_cast<uint32_t>(lowered.actions.size());
    }
    for (MessageWait& wait : file_.waits) wait.before += lowered.first[wait.rank.value];
    return std::move(file_);
  }

 private:
  // Performs the rank's next group or wait if possible; returns the number of actions performed.
  size_t Step(int rank) {
    if (const Action* const reducing = std::exchange(reducing_[rank], nullptr)) {
      file_.waits.push_back({reducing->kind, reducing->stage, MicrobatchId(), RankId(rank),
                             static_cast<uint32_t>(lists_[rank].size()), SpanOf(plan_, *reducing)});
      return 1;
    }
    uint32_t& i = cursor_[rank];
    const uint32_t last = plan_.first[rank + 1];
    if (i == last) return 0;
    const auto group = GroupAt(absl::MakeConstSpan(plan_.actions).subspan(0, last), i);
    for (size_t k = 0; k < group.size(); ++k) {
      if (live_.Missing(group, k) != 0) return 0;
    }
    i += static_cast<uint32_t>(group.size());
    lists_[rank].insert(lists_[rank].end(), group.begin(), group.end());
    for (const Action& part : group) {
      live_.Perform(part);
      if (waits_ && part.kind == ActionKind::kReduceGrad) reducing_[rank] = &part;
      if (IsCollective(part.kind)) continue;
      const Values gives = EffectsOf(part.kind).gives;
      if (gives & kOutput) {
        Exchange(part, ActionKind::kSendForward, plan_.graph.Behind(part.stage),
                 ActionKind::kRecvForward);
      }
      if (gives & kInGrad) {
        Exchange(part, ActionKind::kSendBackward, plan_.graph.Before(part.stage),
                 ActionKind::kRecvBackward);
      }
    }
    return group.size();
  }

  void Exchange(const Action& part, ActionKind send, StageId to, ActionKind recv) {
    const RankId rank = plan_.stage(part.stage).rank;
    if (!to.valid() || plan_.stage(to).rank == rank) return;
    Action action = part;
    action.joined = false;
    action.kind = send;
    lists_[rank.value].push_back(action);
    live_.Perform(action);
    action.kind = recv;
    action.stage = to;
    lists_[plan_.stage(to).rank.value].push_back(action);
    live_.Perform(action);
  }

  const Plan& plan_;
  const bool waits_;
  LiveValues live_;
  std::vector<uint32_t> cursor_;            // by rank: its next action
  std::vector<std::vector<Action>> lists_;  // by rank: the lowered list so far
  std::vector<const Action*> reducing_;     // by rank: a reduction to wait for next
  TorchFile file_;
};

}  // namespace

std::optional<TorchFile> LowerAsTorch(const Plan& plan, bool waits) {
  return TorchLowering(plan, waits).Run();
}

}  // namespace stringline
