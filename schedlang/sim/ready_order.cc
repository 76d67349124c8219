// A queue of events by time: computations that end, messages that arrive. A rank chooses when it is
// free and something has changed for it.
#include "schedlang/sim/ready_order.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>
#include <vector>

#include "schedlang/base/sl_check.h"
#include "schedlang/plan/channels.h"
#include "schedlang/plan/ready.h"

namespace stringline {
namespace {

class ReadyClock {
 public:
  ReadyClock(const Plan& plan, const CostModel& costs)
      : plan_(plan),
        costs_(costs),
        channels_(ChannelsOf(WithoutWindow(plan))),
        graph_(plan),
        missing_(graph_.needs()),
        free_ns_(channels_.all.size(), 0),
        order_(static_cast<size_t>(plan.ranks())) {
    const ReadyRoom room = RoomOf(plan);
    for (int r = 0; r < plan.ranks(); ++r) lists_.emplace_back(plan, RankId(r), room);
    busy_.assign(lists_.size(), false);
    changed_.assign(lists_.size(), true);
  }

  std::vector<std::vector<uint32_t>> Run() {
    int64_t now_ns = 0;
    while (true) {
      while (!events_.empty() && events_.top().ns == now_ns) {
        const Event event = events_.top();
        events_.pop();
        Happen(event);
      }
      for (size_t r = 0; r < lists_.size(); ++r) Choose(r, now_ns);
      if (events_.empty()) break;
      now_ns = events_.top().ns;
    }
    for (const ReadyList& list : lists_) SL_CHECK(list.empty()) << "a checked plan ends";
    return std::move(order_);
  }

 private:
  struct Event {
    int64_t ns = 0;
    uint64_t order = 0;  // ties go by the order of their making
    uint32_t action = 0;
    bool ends = false;  // the action ends; else a message for it arrives
    friend bool operator>(const Event& a, const Event& b) {
      return std::tie(a.ns, a.order) > std::tie(b.ns, b.order);
    }
  };

  // The channels of ranks, which the messages of all their stages share.
  static Plan WithoutWindow(const Plan& plan) {
    Plan placed;
    placed.stages = plan.stages;
    placed.graph = plan.graph;
    return placed;
  }

  void Push(int64_t ns, uint32_t action, bool ends) { events_.push({ns, made_++, action, ends}); }

  RankId RankOfAction(uint32_t i) const { return RankOf(plan_, plan_.actions[i]); }

  void Happen(const Event& event) {
    const RankId rank = RankOfAction(event.action);
    changed_[static_cast<size_t>(rank.value)] = true;
    if (!event.ends) {
      --missing_[event.action];
      return;
    }
    busy_[static_cast<size_t>(rank.value)] = false;
    for (const uint32_t taker : graph_.TakersOf(event.action)) {
      if (RankOfAction(taker) == rank) {
        --missing_[taker];
      } else {
        Send(event.action, taker, event.ns);
      }
    }
  }

  void Send(uint32_t maker, uint32_t taker, int64_t now_ns) {
    Action send = plan_.actions[maker];
    send.kind =
        send.kind == ActionKind::kForward ? ActionKind::kSendForward : ActionKind::kSendBackward;
    const Hop hop = HopOf(plan_, costs_, send);
    int64_t& free_ns = free_ns_[static_cast<size_t>(channels_.Of(plan_, send))];
    free_ns = std::max(free_ns, now_ns) + hop.transfer_ns;
    Push(free_ns + hop.latency_ns, taker, false);
  }

  void Choose(size_t rank, int64_t now_ns) {
    if (busy_[rank] || !changed_[rank]) return;
    changed_[rank] = false;
    const uint32_t i = lists_[rank].First([this](uint32_t k) { return missing_[k] == 0; });
    if (i == ReadyList::kNone) return;
    lists_[rank].Perform(i);
    order_[rank].push_back(i);
    busy_[rank] = true;
    const int64_t cost_ns = GroupCost(costs_, absl::MakeConstSpan(plan_.actions).subspan(i, 1));
    Push(now_ns + (costs_.noise.empty() ? cost_ns : costs_.noise.Of(i, cost_ns)), i, true);
  }

  const Plan& plan_;
  const CostModel& costs_;
  const Channels channels_;
  const ValueTakers graph_;
  std::vector<uint8_t> missing_;              // by action: values that are not there
  std::vector<int64_t> free_ns_;              // by channel: when its messages so far have left
  std::vector<std::vector<uint32_t>> order_;  // by rank: the result
  std::vector<ReadyList> lists_;              // by rank
  std::vector<bool> busy_;
  std::vector<bool> changed_;  // something has ended or arrived since the rank chose
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  uint64_t made_ = 0;
};

}  // namespace

absl::Status CheckReadyCosts(const CostModel& costs) {
  const char* const unknown =
      costs.receive_buffers > 0 ? "'receive_buffers': its messages have room by construction"
      : SharesLinks(costs)      ? "'node.sharing', links shared by several messages"
      : costs.collectives.any() ? "gathers and reductions; leave out their costs"
                                : nullptr;
  if (unknown == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the schedule has a window, and ready order does not know ", unknown));
}

Plan PerformedAt(const Plan& plan, const CostModel& costs) {
  return AsPerformed(plan, ReadyClock(plan, costs).Run());
}

}  // namespace stringline
