#include "executor/rehearsal/own_calls.h"

namespace stringline {

OwnCalls::OwnCalls(const Plan& plan, Groups* groups) : plan_(plan) {
  const OwnMeetings meetings = OwnMeetingsOf(plan);
  if (meetings.count() == 0) return;
  std::vector<int> ranks;
  for (int r = 0; r < plan.ranks(); ++r) ranks.push_back(r);
  for (Group*& group : groups_) group = groups->New(ranks);
  for (int k = 0; k < meetings.count(); ++k) {
    const uint32_t member = meetings.of(k).front();
    const Action& action = plan.actions[member];
    index_[{action.kind, action.stage, action.microbatch}] = k;
    first_members_.push_back(member);
  }
}

MemberCall OwnCalls::Of(const Action& action) const {
  MemberCall member{groups_[IsCompute(action.kind) ? 1 : 0], action.other, {}};
  member.call.kind = CallKind::kAllGather;
  member.call.name = {Print, this, index_.at({action.kind, action.stage, action.microbatch})};
  return member;
}

std::string OwnCalls::Print(const void* self, int64_t index) {
  const auto& calls = *static_cast<const OwnCalls*>(self);
  const uint32_t member = calls.first_members_[static_cast<size_t>(index)];
  return stringline::Print(calls.plan_, calls.plan_.actions[member]);
}

}  // namespace stringline
