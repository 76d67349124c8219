#include "schedlang/plan/channels.h"

#include <algorithm>
#include <tuple>

namespace stringline {
namespace {

bool IsBefore(const Channel& a, const Channel& b) {
  return std::tuple(a.from, a.to, a.of) < std::tuple(b.from, b.to, b.of);
}

int IndexOf(const std::vector<Channel>& all, const Channel& channel) {
  return static_cast<int>(std::lower_bound(all.begin(), all.end(), channel, IsBefore) -
                          all.begin());
}

}  // namespace

Channels ChannelsOf(const Plan& plan) {
  Channels channels;
  const std::vector<Edge>& edges = plan.graph.edges();
  const auto channel_of = [&plan](const Edge& edge, bool gradient) {
    const StageId from = gradient ? edge.to : edge.from, to = gradient ? edge.from : edge.to;
    const int32_t of = plan.window == 0 ? -1 : 2 * from.value + (gradient ? 1 : 0);
    return Channel{plan.stage(from).rank, plan.stage(to).rank, of};
  };
  for (const Edge& edge : edges) {
    if (plan.SameRank(edge.from, edge.to)) continue;
    for (const bool gradient : {false, true}) channels.all.push_back(channel_of(edge, gradient));
  }
  std::sort(channels.all.begin(), channels.all.end(), IsBefore);
  channels.all.erase(std::unique(channels.all.begin(), channels.all.end()), channels.all.end());
  for (const Edge& edge : edges) {
    const auto index_of = [&](bool gradient) {
      const bool stays = plan.SameRank(edge.from, edge.to);
      return stays ? -1 : IndexOf(channels.all, channel_of(edge, gradient));
    };
    channels.of_activation.push_back(index_of(false));
    channels.of_gradient.push_back(index_of(true));
  }
  if (plan.graph.is_chain()) {
    channels.at_stage.assign(plan.stages.size(), {-1, -1, -1, -1});
    for (const Edge& edge : edges) {
      const int activation = channels.of_activation[static_cast<size_t>(edge.id)];
      const int gradient = channels.of_gradient[static_cast<size_t>(edge.id)];
      const auto set = [&](StageId stage, ActionKind kind, int channel) {
        channels.at_stage[static_cast<size_t>(stage.value)][Channels::MessageIndex(kind)] = channel;
      };
      set(edge.from, ActionKind::kSendForward, activation);
      set(edge.to, ActionKind::kRecvForward, activation);
      set(edge.to, ActionKind::kSendBackward, gradient);
      set(edge.from, ActionKind::kRecvBackward, gradient);
    }
  }
  return channels;
}

int Channels::OfNamedEdge(const Plan& plan, const Action& message) const {
  const Edge* const edge = EdgeOf(plan, message);
  if (edge == nullptr) return -1;
  return (CarriesActivation(message.kind) ? of_activation
                                          : of_gradient)[static_cast<size_t>(edge->id)];
}

}  // namespace stringline
