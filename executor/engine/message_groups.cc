#include "executor/engine/message_groups.h"

#include <algorithm>

#include "schedlang/plan/channels.h"

namespace stringline {

MessageGroups::MessageGroups(const Plan& lowered, CommLayout layout, int first_rank, Groups* groups)
    : begins_together_(groups->BeginsTogether()) {
  const Channels channels = ChannelsOf(lowered);
  const CommQueues queues = QueuesOf(channels, layout);
  std::vector<std::vector<int>> ranks(static_cast<size_t>(queues.communicators));
  for (const CommQueue& queue : queues.all) {
    ranks[queue.communicator_id].push_back(first_rank + queue.rank.value);
  }
  std::vector<std::vector<MemberPair>> talks(ranks.size());
  for (size_t c = 0; c < channels.all.size(); ++c) {
    const int32_t id = queues.all[queues.of_send[c]].communicator_id;
    const auto member = [&](RankId rank) {
      const auto at = std::find(ranks[id].begin(), ranks[id].end(), first_rank + rank.value);
      return static_cast<int>(at - ranks[id].begin());
    };
    talks[id].push_back({member(channels.all[c].from), member(channels.all[c].to)});
    ends_.push_back({nullptr, talks[id].back().from, talks[id].back().to});
  }
  std::vector<Group*> made;
  for (size_t id = 0; id < ranks.size(); ++id) made.push_back(groups->New(ranks[id], talks[id]));
  for (size_t c = 0; c < ends_.size(); ++c) {
    ends_[c].group = made[queues.all[queues.of_send[c]].communicator_id];
  }
}

}  // namespace stringline
