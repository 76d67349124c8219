// The own actions that begin on all ranks at once (rows.h): a meeting is an action of a stage and
// microbatch, its members are those of all ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "schedlang/plan/plan.h"

namespace stringline {

struct OwnMeetings {
  // The members of meeting k, by rank: members[first[k]] .. members[first[k + 1] - 1]. A rank that
  // lists the action twice is a member with the first.
  std::vector<uint32_t> members;
  std::vector<uint32_t> first = {0};
  // By action of the plan: its meeting, or -1. Empty if there is no meeting.
  std::vector<int32_t> of_action;

  int count() const { return static_cast<int>(first.size()) - 1; }
  absl::Span<const uint32_t> of(int k) const {
    return absl::MakeConstSpan(members).subspan(first[k], first[k + 1] - first[k]);
  }
  int32_t Of(uint32_t action) const { return of_action.empty() ? -1 : of_action[action]; }
};

// Cost: linear in actions, times the logarithm of the meetings; nothing in a plan without rows.
OwnMeetings OwnMeetingsOf(const Plan& plan);

}  // namespace stringline
