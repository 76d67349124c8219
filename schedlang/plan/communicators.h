// Communicators: the layouts that share them among messages, and the in-order queues of calls.
//
// In NCCL every rank has one stream of calls per communicator, and a call starts only after the
// call before it has ended. The layout decides which calls can block which:
//
//   shared  one communicator for all ranks: one queue per rank
//   pair    one for every two ranks that talk: both directions share a queue
//   edge    one for every direction: sends to a rank and receives from it have their own queues
//   updown  two for all ranks: messages to a higher rank, and messages to a lower rank
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "schedlang/plan/channels.h"
#include "schedlang/plan/plan.h"

namespace stringline {

enum class CommLayout : uint8_t { kShared, kPair, kEdge, kUpDown };
constexpr int kCommLayouts = 4;

// "shared", "pair", "edge", "updown".
const char* NameOf(CommLayout layout);
std::optional<CommLayout> ReadCommLayout(absl::string_view name);

// The calls of a rank on a communicator, in order.
struct CommQueue {
  RankId rank;
  std::string communicator;  // "0-1", "0->1", "all", "down": its name in messages
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
