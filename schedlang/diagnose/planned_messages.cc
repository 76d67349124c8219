#include "schedlang/diagnose/planned_messages.h"

#include "schedlang/plan/channels.h"
#include "schedlang/plan/stage_graph.h"

namespace stringline {

PlannedMessages::PlannedMessages(const Plan& lowered) : ranks_(lowered.ranks()) {
  for (int r = 0; r < lowered.ranks(); ++r) {
    for (const Action& action : lowered.of(RankId(r))) {
      if (!IsMessage(action.kind)) continue;
      const int peer = lowered.stage(PeerStage(lowered, action)).rank.value;
      if (IsSend(action.kind)) {
        ends_[{r, peer}].sends.push_back(&action);
      } else {
        ends_[{peer, r}].receives.push_back(&action);
      }
    }
  }
}

std::optional<PlannedMessage> PlannedMessages::Of(int from, int to, int64_t number) const {
  const auto found = ends_.find({from, to});
  if (found == ends_.end() || found->second.sends.size() != found->second.receives.size()) {
    return std::nullopt;
  }
  const auto count = static_cast<int64_t>(found->second.sends.size());
  return PlannedMessage{found->second.sends[number % count], found->second.receives[number % count],
                        number / count};
}

}  // namespace stringline
