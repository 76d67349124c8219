// The times of a schedule's own actions (plan/rows.h): those on the network, by rank, and those
// that all ranks begin at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "schedlang/costs/costs.h"
#include "schedlang/plan/links.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/timeline.h"

namespace stringline {

inline constexpr int64_t kUnknown = -1;  // in place of an event's start or end

class OwnClock {
 public:
  OwnClock(const Plan& plan, const Wiring& wiring, const CostModel& costs,
           std::vector<Event>* events);

  // True if the plan has own actions.
  bool any() const { return !next_.empty(); }
  // Raises *start_ns to the latest end among what the action needs from other lanes; false if one
  // of these ends is unknown, which is *lacks then.
  bool HasNeeds(uint32_t action, int64_t* start_ns, uint32_t* lacks) const {
    for (const uint32_t need : wiring_.FurtherNeeds(action)) {
      if (events_[need].end_ns == kUnknown) {
        *lacks = need;
        return false;
      }
      *start_ns = std::max(*start_ns, events_[need].end_ns);
    }
    return true;
  }
  int64_t CostNs(uint32_t action) const;
  // Performs the own actions on the rank's network lane up to the first that must wait.
  void Advance(int rank);
  // The rank of the action has come to its meeting; the last one performs it on all of them.
  void Come(uint32_t action, int64_t start_ns, int64_t cost_ns);
  // The actions that got their times since the last call.
  std::vector<uint32_t> TakeEnded() { return std::exchange(ended_, {}); }
  // True if all own actions on the rank's network lane have their times.
  bool Ended(int rank) const { return !any() || next_[rank] == last_[rank]; }

 private:
  const Plan& plan_;
  const Wiring& wiring_;
  const CostModel& costs_;
  std::vector<Event>& events_;
  std::vector<uint32_t> actions_;      // those on the network, by rank
  std::vector<uint32_t> next_, last_;  // by rank, indices into actions_
  std::vector<int64_t> free_ns_;       // by rank: when its own actions there so far end
  std::vector<uint32_t> absent_;       // by meeting: ranks that have not come
  std::vector<int64_t> starts_ns_;     // by meeting: the latest start of the ranks that have come
  std::vector<int64_t> costs_ns_;      // by meeting: the longest cost of theirs
  std::vector<char> come_;             // by action: its rank has come to it
  std::vector<uint32_t> ended_;
};

}  // namespace stringline
