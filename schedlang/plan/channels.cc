#include "schedlang/plan/channels.h"

#include <algorithm>
#include <utility>

namespace stringline {
namespace {

// True if a message from `stage` to `peer` leaves its rank.
bool Crosses(const Plan& plan, const Stage& stage, StageId peer) {
  return peer.valid() && plan.stage(peer).rank != stage.rank;
}

int IndexOf(const std::vector<Channel>& all, Channel channel) {
  auto less = [](const Channel& a, const Channel& b) {
    return std::pair(a.from, a.to) < std::pair(b.from, b.to);
  };
  return static_cast<int>(std::lower_bound(all.begin(), all.end(), channel, less) - all.begin());
}

}  // namespace

Channels ChannelsOf(const Plan& plan) {
  Channels channels;
  for (const Stage& stage : plan.stages) {
    for (StageId peer : {stage.next, stage.previous}) {
      if (Crosses(plan, stage, peer)) channels.all.push_back({stage.rank, plan.stage(peer).rank});
    }
  }
  std::sort(channels.all.begin(), channels.all.end(), [](const Channel& a, const Channel& b) {
    return std::pair(a.from, a.to) < std::pair(b.from, b.to);
  });
  channels.all.erase(std::unique(channels.all.begin(), channels.all.end()), channels.all.end());

  for (const Stage& stage : plan.stages) {
    auto channel_to = [&](StageId peer) {
      if (!Crosses(plan, stage, peer)) return -1;
      return IndexOf(channels.all, {stage.rank, plan.stage(peer).rank});
    };
    channels.of_activation.push_back(channel_to(stage.next));
    channels.of_gradient.push_back(channel_to(stage.previous));
  }
  return channels;
}

bool Match(const Plan& plan, const Action& send, const Action& recv) {
  const bool kinds =
      (send.kind == ActionKind::kSendForward) == (recv.kind == ActionKind::kRecvForward);
  return kinds && recv.stage == PeerStage(plan, send) && recv.microbatch == send.microbatch;
}

int Channels::Of(const Plan& plan, const Action& action) const {
  const Stage& stage = plan.stage(action.stage);
  switch (action.kind) {
    case ActionKind::kSendForward:
      return of_activation[action.stage.value];
    case ActionKind::kRecvForward:
      return stage.previous.valid() ? of_activation[stage.previous.value] : -1;
    case ActionKind::kSendBackward:
      return of_gradient[action.stage.value];
    case ActionKind::kRecvBackward:
      return stage.next.valid() ? of_gradient[stage.next.value] : -1;
    default:
      return -1;
  }
}

}  // namespace stringline
