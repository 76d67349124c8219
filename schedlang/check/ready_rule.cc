// Ready order: the fault that keeps the proof of plan/ready.h from holding, and an order that can
// happen, without a clock: forwards as soon as they can be, a gradient only when no rank can go on.
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schedlang/check/rules.h"
#include "schedlang/plan/ready.h"

namespace stringline {
namespace {

class LateGradients {
 public:
  explicit LateGradients(const Plan& plan)
      : plan_(plan),
        graph_(plan),
        missing_(graph_.needs()),
        order_(static_cast<size_t>(plan.ranks())) {
    const ReadyRoom room = RoomOf(plan);
    for (int r = 0; r < plan.ranks(); ++r) lists_.emplace_back(plan, RankId(r), room);
  }

  std::vector<std::vector<uint32_t>> Run() {
    while (true) {
      bool moved = false;
      for (size_t r = 0; r < lists_.size(); ++r) moved = PerformNext(r) || moved;
      if (moved) continue;
      if (late_.empty()) return std::move(order_);
      --missing_[late_.front()];
      late_.pop_front();
    }
  }

 private:
  bool PerformNext(size_t rank) {
    const uint32_t i = lists_[rank].First([this](uint32_t k) { return missing_[k] == 0; });
    if (i == ReadyList::kNone) return false;
    lists_[rank].Perform(i);
    order_[rank].push_back(i);
    for (const uint32_t taker : graph_.TakersOf(i)) {
      const bool crosses = RankOf(plan_, plan_.actions[taker]) != RankOf(plan_, plan_.actions[i]);
      if (crosses && plan_.actions[taker].kind != ActionKind::kForward) {
        late_.push_back(taker);
      } else {
        --missing_[taker];
      }
    }
    return true;
  }

  const Plan& plan_;
  const ValueTakers graph_;
  std::vector<uint8_t> missing_;              // by action: values that are not there
  std::vector<std::vector<uint32_t>> order_;  // by rank: the result
  std::vector<ReadyList> lists_;              // by rank
  std::deque<uint32_t> late_;                 // the takers of gradients that have not come
};

}  // namespace

void FindUnready(const Plan& plan, const CheckOptions& options, Diagnostics* diagnostics) {
  if (plan.window == 0) return;
  std::optional<ReadyFault> fault = FindReadyFault(plan);
  const char* const option = options.layout != CommLayout::kEdge ? "other communicator layout"
                             : options.lazy                      ? "communicators that connect late"
                             : options.buffers > 0               ? "bounded buffers of messages"
                                                                 : nullptr;
  if (!fault && option != nullptr) {
    fault = {-1, absl::StrCat("ready order ('window') has a channel for each stage and direction, "
                              "with room for its messages, and knows no ",
                              option)};
  }
  if (!fault) return;
  const bool placed = fault->action >= 0;
  const Action* const at = placed ? &plan.actions[static_cast<size_t>(fault->action)] : nullptr;
  diagnostics
      ->Add(Code::kReadyOrder, placed ? SpanOf(plan, *at) : plan.header, std::move(fault->text))
      .where = placed ? WhereOf(plan, *at) : PrintParameters(plan);
}

Plan WithLateGradients(const Plan& lowered) {
  return AsPerformed(lowered, LateGradients(lowered).Run());
}

}  // namespace stringline
