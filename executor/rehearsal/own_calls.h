// The calls by which own actions of all ranks (plan/rows.h) meet, in work that moves no bytes.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "executor/engine/stage_work.h"
#include "schedlang/plan/own_meetings.h"
#include "schedlang/plan/plan.h"

namespace stringline {

class OwnCalls {
 public:
  // Makes a group of all ranks for the actions on the network, and one for those that compute; none
  // in a plan without such actions.
  OwnCalls(const Plan& plan, Groups* groups);

  // The rank's part of the meeting, named by the index of the meeting.
  MemberCall Of(const Action& action) const;
  // A member of every meeting, by its index, in plan.actions.
  absl::Span<const uint32_t> members() const { return first_members_; }

 private:
  static std::string Print(const void* self, int64_t index);

  const Plan& plan_;
  std::array<Group*, 2> groups_ = {};
  std::vector<uint32_t> first_members_;
  std::map<std::tuple<ActionKind, StageId, MicrobatchId>, int64_t> index_;
};

}  // namespace stringline
