#include "schedlang/plan/own_meetings.h"

#include <map>
#include <tuple>

namespace stringline {

OwnMeetings OwnMeetingsOf(const Plan& plan) {
  OwnMeetings meetings;
  if (plan.rows.actions.empty()) return meetings;
  std::map<std::tuple<ActionKind, StageId, MicrobatchId>, int32_t> known;
  std::vector<std::vector<uint32_t>> members;
  std::vector<int32_t> of_action(plan.actions.size(), -1);
  for (uint32_t i = 0; i < plan.actions.size(); ++i) {
    const Action& action = plan.actions[i];
    if (!IsOwn(action.kind) || plan.rows.of(action.kind).by != By::kAllRanks) continue;
    const auto [at, is_new] =
        known.emplace(std::tuple(action.kind, action.stage, action.microbatch),
                      static_cast<int32_t>(members.size()));
    if (is_new) members.emplace_back();
    std::vector<uint32_t>& of = members[static_cast<size_t>(at->second)];
    of_action[i] = at->second;
    if (of.empty() || plan.actions[of.back()].other != action.other) of.push_back(i);
  }
  if (members.empty()) return meetings;
  meetings.of_action = std::move(of_action);
  for (const std::vector<uint32_t>& of : members) {
    meetings.members.insert(meetings.members.end(), of.begin(), of.end());
    meetings.first.push_back(static_cast<uint32_t>(meetings.members.size()));
  }
  return meetings;
}

}  // namespace stringline
