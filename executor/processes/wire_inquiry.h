// Finds the cause when a rank has waited too long for a message, or when a process died: the
// awaited rank may itself wait for another, and the chain ends at a rank that does not answer, or
// waits for no other. Every process that answers gives the waits of its ranks, their actions, and
// their last messages from others.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "executor/engine/rank_states.h"

namespace stringline {

// An end of a message that has not met its counterpart.
struct RankWait {
  int rank = 0, peer = 0;  // the waiting and the awaited rank
  int64_t waited_ns = 0;
  std::string call;     // "a receive of … for 1RECV_F0 (zb_v.sched:41)"
  int64_t action = -1;  // the action's index in the plan, as in RankState::needs
};

// The last completed message between a rank and a rank of another process.
struct LastMessage {
  int rank = 0, peer = 0;
  int64_t ago_ns = 0;
  std::string call;
};

// A process's answer to an inquiry.
struct WireAnswer {
  std::vector<RankWait> waits;
  std::vector<LastMessage> messages;
  std::vector<RankState> states;
};

// Packs an answer into bytes and back; nothing for malformed bytes, or a rank not below `ranks`. At
// most `most_bytes` bytes: the longest waits come first, the rest is left out.
std::string PackAnswer(WireAnswer answer, size_t most_bytes);
std::optional<WireAnswer> UnpackAnswer(absl::string_view bytes, int ranks);

// The answers of all processes.
struct WireAnswers {
  WireAnswer all;
  std::vector<std::string> names;  // by rank, with its host: "rank 3 on gpu1"
  std::vector<bool> answered;      // by rank: its process has answered
  void Add(const WireAnswer& answer);
};

// The action of these ranks that others wait for, preferably of a rank that computes: "rank 3 on
// gpu1 computes …", "… does not answer: …".
std::string DescribeDoing(const WireAnswers& answers, const std::vector<int>& ranks);

// Follows the waits from the longest, at each rank along its blocking wait, or if unknown along its
// longest. Names the rank at the end with its known state, the rank that waits for it, the time and
// the call. Where that rank is in an exchange of the hosts, and a process does not answer, it names
// a rank of this process. Empty if no rank waits.
std::string DescribeBlame(const WireAnswers& answers);

// For the ranks of a dead process: the ranks that waited for them, the times and calls, and the
// last known messages: "; …".
std::string DescribeLost(const WireAnswers& answers, const std::vector<int>& ranks);

// The known actions of these ranks: "; rank 3 on gpu1 …", or "".
std::string DescribeKnown(const WireAnswers& answers, const std::vector<int>& ranks);

}  // namespace stringline
