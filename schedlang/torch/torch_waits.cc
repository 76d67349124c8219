// The places of torch's waits for sends and reductions.
#include <algorithm>
#include <tuple>

#include "schedlang/torch/torch_csv.h"

namespace stringline {
namespace {

// The identity of a wait's send or reduction.
using WaitKey = std::tuple<ActionKind, StageId, MicrobatchId>;

class WaitPlacer {
 public:
  WaitPlacer(const Plan& plan, const std::vector<MessageWait>& given)
      : plan_(plan), waits_(given), send_(plan.stages.size() * plan.microbatches, 0) {
    for (const MessageWait& wait : given) given_.emplace_back(wait.of, wait.stage, wait.microbatch);
    std::sort(given_.begin(), given_.end());
  }

  std::vector<MessageWait> Place() {
    for (int r = 0; r < plan_.ranks(); ++r) PlaceRank(RankId(r));
    std::stable_sort(waits_.begin(), waits_.end(), [](const MessageWait& a, const MessageWait& b) {
      return std::pair(a.rank, a.before) < std::pair(b.rank, b.before);
    });
    return std::move(waits_);
  }

 private:
  void PlaceRank(RankId rank) {
    pending_.clear();
    const uint32_t end = plan_.first[rank.value + 1];
    for (uint32_t i = plan_.first[rank.value]; i < end;) {
      const auto group = GroupAt(absl::MakeConstSpan(plan_.actions).subspan(0, end), i);
      i += static_cast<uint32_t>(group.size());
      for (const Action& part : group) PlaceBehind(part, rank, i);
    }
    for (const Action* send : pending_) {
      if (send != nullptr) Add(*send, rank, end);
    }
  }

  void PlaceBehind(const Action& part, RankId rank, uint32_t before) {
    const bool waited_for = IsSend(part.kind) || part.kind == ActionKind::kReduceGrad;
    if (waited_for && !IsGiven(part)) {
      if (part.kind == ActionKind::kReduceGrad) {
        Add(part, rank, before);
      } else {
        if (part.kind == ActionKind::kSendForward) send_[Index(part)] = pending_.size() + 1;
        pending_.push_back(&part);
      }
    }
    if (part.kind != ActionKind::kBackward && part.kind != ActionKind::kInputGradient) return;
    size_t& send = send_[Index(part)];
    if (send == 0) return;
    Add(*pending_[send - 1], rank, before);
    pending_[send - 1] = nullptr;
    send = 0;
  }

  bool IsGiven(const Action& action) const {
    return std::binary_search(given_.begin(), given_.end(),
                              WaitKey(action.kind, action.stage, action.microbatch));
  }

  void Add(const Action& of, RankId rank, uint32_t before) {
    waits_.push_back({of.kind, of.stage, of.microbatch, rank, before, SpanOf(plan_, of)});
  }

  size_t Index(const Action& action) const {
    return static_cast<size_t>(action.stage.value) * plan_.microbatches + action.microbatch.value;
  }

  const Plan& plan_;
  std::vector<MessageWait> waits_;
  std::vector<WaitKey> given_;          // sorted
  std::vector<const Action*> pending_;  // sends without a wait so far, in order; null once they
                                        // have one
  std::vector<size_t> send_;  // by stage and microbatch: 1 + the place of its SEND_F in pending_
};

}  // namespace

std::vector<MessageWait> AllTorchWaits(const Plan& lowered, const std::vector<MessageWait>& given) {
  return WaitPlacer(lowered, given).Place();
}

}  // namespace stringline
