// The place of every rank in its calls: which have ended, and which stand first in their queues.
//
// A launch is what a rank gives its communicator at once: a collective, a message, or a group of
// them, whose parts have one sequence number and whose end is a call of its own. NCCL performs the
// launches of a communicator one after the other, so only the first that has not ended is under
// way: it is at the front. Messages share communicators as the layout says (communicators.h),
// collectives and groups of messages have that of their process group.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "schedlang/diagnose/records.h"
#include "schedlang/plan/communicators.h"

namespace stringline {

struct RecordedLaunch {
  int32_t group = 0;
  bool is_message = false;
  bool ended = false;
  bool at_front = false;
  int64_t sequence = 0;
  int32_t first_call = 0;
  int32_t queue = 0;  // of its rank
};

struct Standing {
  std::vector<RecordedLaunch> launches;
  std::vector<int32_t> launch_of;  // by call
  std::vector<int32_t> next_call;  // by call: the next of its launch, or -1
  std::vector<int32_t> front_of;   // by queue: its launch at the front, or -1
  // By group: the first and the last sequence number of its collectives.
  struct Span {
    int64_t first = 0, last = 0;
  };
  std::unordered_map<int32_t, Span> collectives;
};

// By index of Records::ranks.
std::vector<Standing> StandingsOf(const Records& records, CommLayout layout);

// The calls of a launch that are collectives or messages of their own: visit(index of a call).
template <typename Visit>
void ForCalls(const Records& records, const RankRecord& rank, const Standing& standing,
              const RecordedLaunch& launch, Visit visit) {
  const bool is_alone = standing.next_call[static_cast<size_t>(launch.first_call)] < 0;
  for (int32_t call = launch.first_call; call >= 0;
       call = standing.next_call[static_cast<size_t>(call)]) {
    const CallShape& shape =
        records.shapes[static_cast<size_t>(rank.calls[static_cast<size_t>(call)].shape)];
    if (is_alone || !shape.IsEndOfGroup()) visit(call);
  }
}

}  // namespace stringline
