#include "schedlang/diagnose/standings.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace stringline {
namespace {

class StandingMaker {
 public:
  StandingMaker(const Records& records, const RankRecord& rank, CommLayout layout)
      : records_(records), rank_(rank), layout_(layout) {}

  Standing Make() {
    made_.launch_of.resize(rank_.calls.size());
    made_.next_call.assign(rank_.calls.size(), -1);
    for (size_t i = 0; i < rank_.calls.size(); ++i) Take(static_cast<int32_t>(i));
    made_.front_of.assign(static_cast<size_t>(queues_), -1);
    for (size_t i = 0; i < made_.launches.size(); ++i) {
      RecordedLaunch& launch = made_.launches[i];
      int32_t& front = made_.front_of[static_cast<size_t>(launch.queue)];
      if (launch.ended || front >= 0) continue;
      front = static_cast<int32_t>(i);
      launch.at_front = true;
    }
    return std::move(made_);
  }

 private:
  void Take(int32_t index) {
    const RecordedCall& call = rank_.calls[static_cast<size_t>(index)];
    const CallShape& shape = records_.shapes[static_cast<size_t>(call.shape)];
    const auto [last, is_new] = last_.try_emplace({call.group, call.is_message}, Last{});
    const bool joins = !is_new && made_.launches[last->second.launch].sequence == call.sequence;
    if (joins) {
      RecordedLaunch& launch = made_.launches[last->second.launch];
      made_.next_call[last->second.call] = index;
      // The end of a group speaks for its parts, of which the recorder sees no end.
      const bool ended = call.state == CallState::kEnded;
      launch.ended = shape.IsEndOfGroup() ? ended : launch.ended && ended;
      launch.queue = QueueOf(call, shape, /*in_group=*/true);
    } else {
      last->second.launch = made_.launches.size();
      made_.launches.push_back({.group = call.group,
                                .is_message = call.is_message,
                                .ended = call.state == CallState::kEnded,
                                .sequence = call.sequence,
                                .first_call = index,
                                .queue = QueueOf(call, shape, shape.IsEndOfGroup())});
    }
    last->second.call = static_cast<size_t>(index);
    made_.launch_of[static_cast<size_t>(index)] = static_cast<int32_t>(last->second.launch);
    if (call.is_message) return;
    const auto [span, is_first] =
        made_.collectives.try_emplace(call.group, Standing::Span{call.sequence, call.sequence});
    if (is_first) return;
    span->second.first = std::min(span->second.first, call.sequence);
    span->second.last = std::max(span->second.last, call.sequence);
  }

  // -1, -1 stands for the communicator of all.
  int32_t QueueOf(const RecordedCall& call, const CallShape& shape, bool in_group) {
    int low = -1, high = -1;
    if (shape.IsMessage() && !in_group) {
      switch (layout_) {
        case CommLayout::kShared:
          break;
        case CommLayout::kPair:
          low = std::min(shape.from, shape.to);
          high = std::max(shape.from, shape.to);
          break;
        case CommLayout::kEdge:
          low = shape.from;
          high = shape.to;
          break;
        case CommLayout::kUpDown:
          low = high = shape.from < shape.to ? 0 : 1;
          break;
      }
    }
    const auto [found, is_new] = queue_of_.try_emplace({call.group, low, high}, queues_);
    if (is_new) ++queues_;
    return found->second;
  }

  struct Last {
    size_t launch = 0, call = 0;
  };

  const Records& records_;
  const RankRecord& rank_;
  const CommLayout layout_;
  Standing made_;
  std::map<std::pair<int32_t, bool>, Last> last_;  // by group and kind
  std::map<std::tuple<int32_t, int, int>, int32_t> queue_of_;
  int32_t queues_ = 0;
};

}  // namespace

std::vector<Standing> StandingsOf(const Records& records, CommLayout layout) {
  std::vector<Standing> standings;
  standings.reserve(records.ranks.size());
  for (const RankRecord& rank : records.ranks) {
    standings.push_back(StandingMaker(records, rank, layout).Make());
  }
  return standings;
}

}  // namespace stringline
