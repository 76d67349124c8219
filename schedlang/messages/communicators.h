// Communicators: which messages share one, and the in-order streams that follow from it.
//
// In NCCL every rank has one stream of calls per communicator it uses, and a call starts only when
// the one before it has ended. So the layout decides what can stand behind what:
//
//   shared  one communicator for all ranks: one queue a rank
//   pair    one for every two ranks that talk: both directions share a queue
//   edge    one for every direction: sends to a rank and receives from it have queues of their own
//   updown  two for all ranks: one for messages to a higher rank, one for those to a lower one
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "schedlang/messages/channels.h"
#include "schedlang/plan.h"

namespace stringline {

enum class CommLayout : uint8_t { kShared, kPair, kEdge, kUpDown };
constexpr int kCommLayouts = 4;

// "shared", "pair", "edge", "updown".
const char* NameOf(CommLayout layout);
std::optional<CommLayout> ReadCommLayout(absl::string_view name);

// The calls of one rank on one communicator, in order.
struct CommQueue {
  RankId rank;
  std::string communicator;  // "0-1", "0->1", "all", "down": how a message calls it
  int32_t communicator_id = 0;
};

struct CommQueues {
  std::vector<CommQueue> all;
  std::vector<int32_t> of_send;  // by channel: the sender's queue
  std::vector<int32_t> of_recv;  // by channel: the receiver's queue
  int32_t communicators = 0;
};

CommQueues QueuesOf(const Channels& channels, CommLayout layout);

}  // namespace stringline
