#include "schedlang/plan/communicators.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

namespace stringline {
namespace {

constexpr const char* kLayoutNames[kCommLayouts] = {"shared", "pair", "edge", "updown"};

std::string CommunicatorName(CommLayout layout, const Channel& channel) {
  const int from = channel.from.value, to = channel.to.value;
  switch (layout) {
    case CommLayout::kShared:
      return "all";
    case CommLayout::kPair:
      return absl::StrCat(std::min(from, to), "-", std::max(from, to));
    case CommLayout::kUpDown:
      return from < to ? "down" : "up";
    case CommLayout::kEdge:
      break;
  }
  const std::string edge = absl::StrCat(from, "->", to);
  if (channel.of < 0) return edge;
  return absl::StrCat(edge, channel.of % 2 == 0 ? " activations" : " gradients", " of stage ",
                      channel.of / 2);
}

}  // namespace

const char* NameOf(CommLayout layout) { return kLayoutNames[static_cast<int>(layout)]; }

std::optional<CommLayout> ReadCommLayout(absl::string_view name) {
  for (int i = 0; i < kCommLayouts; ++i) {
    if (name == kLayoutNames[i]) return static_cast<CommLayout>(i);
  }
  return std::nullopt;
}

CommQueues QueuesOf(const Channels& channels, CommLayout layout) {
  CommQueues queues;
  std::map<std::string, int32_t> ids;
  std::map<std::pair<int32_t, int32_t>, int32_t> of;  // (rank, communicator) -> queue
  const auto queue = [&](RankId rank, int32_t id, const std::string& name) {
    const auto [it, is_new] =
        of.emplace(std::pair(rank.value, id), static_cast<int32_t>(queues.all.size()));
    if (is_new) queues.all.push_back({rank, name, id});
    return it->second;
  };
  for (const Channel& channel : channels.all) {
    const std::string name = CommunicatorName(layout, channel);
    const int32_t id = ids.emplace(name, static_cast<int32_t>(ids.size())).first->second;
    queues.of_send.push_back(queue(channel.from, id, name));
    queues.of_recv.push_back(queue(channel.to, id, name));
  }
  queues.communicators = static_cast<int32_t>(ids.size());
  return queues;
}

}  // namespace stringline
