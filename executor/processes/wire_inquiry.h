// Who is to blame when a rank has waited too long for a message, or when a process died: behind the
// rank that it waits for there may be a chain of others, and at its end one that does not answer,
// or that waits for nobody. Every process that answers says what its ranks wait for, what they do,
// and what they had last from others.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "executor/rank_states.h"

namespace stringline {

// An end of a message that has not met the other one.
struct RankWait {
  int rank = 0, peer = 0;  // who waits, and for whom
  int64_t waited_ns = 0;
  std::string call;     // "a receive of … for 1RECV_F0 (zb_v.sched:41)"
  int64_t action = -1;  // of that action the index in the plan, as in RankState::needs
};

// The last message that a rank ended with one of another process.
struct LastMessage {
  int rank = 0, peer = 0;
  int64_t ago_ns = 0;
  std::string call;
};

// What a process answers when it is asked.
struct WireAnswer {
  std::vector<RankWait> waits;
  std::vector<LastMessage> messages;
  std::vector<RankState> states;
};

// An answer as bytes and back; nothing if that is not what the bytes are, or a rank is not below
// `ranks`. At most so many bytes: the longest waits come first, what does not fit is left out.
std::string PackAnswer(WireAnswer answer, size_t most_bytes);
std::optional<WireAnswer> UnpackAnswer(absl::string_view bytes, int ranks);

// What all processes have answered.
struct WireAnswers {
  WireAnswer all;
  std::vector<std::string> names;  // of each rank, with its host: "rank 3 on gpu1"
  std::vector<bool> answered;      // for each rank, whether its process did
  void Add(const WireAnswer& answer);
};

// What one of these ranks does that others wait for, the one that computes if one does: "rank 3 on
// gpu1 computes …", "… does not answer: …".
std::string DescribeDoing(const WireAnswers& answers, const std::vector<int>& ranks);

// Follows the waits from the longest one, of each rank that which holds it up, or if that is not
// known its longest, and says who is at the end and what
// is known of it, who waits for it, how long and in which call. Empty if nobody waits.
std::string DescribeBlame(const WireAnswers& answers);

// Of ranks whose process died: who waited for them, how long and in which call, and the last that
// others know of them: "; …".
std::string DescribeLost(const WireAnswers& answers, const std::vector<int>& ranks);

// What those ranks do and have done, as far as anybody knows: "; rank 3 on gpu1 …", or "".
std::string DescribeKnown(const WireAnswers& answers, const std::vector<int>& ranks);

}  // namespace stringline
