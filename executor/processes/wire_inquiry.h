// Who is to blame when a rank has waited too long for a message: behind the rank that it waits for
// there may be a chain of others, and at its end one that does not answer, or that waits for
// nobody.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace stringline {

// An end of a message that has not met the other one.
struct RankWait {
  int rank = 0, peer = 0;  // who waits, and for whom
  int64_t waited_ns = 0;
  std::string call;  // "a receive of … for 1RECV_F0 (zb_v.sched:41)"
};

// What a process answers when it is asked what its ranks wait for, as bytes and back; nothing if
// that is not what the bytes are. At most so many bytes: the shortest waits are left out.
std::string PackWaits(std::vector<RankWait> waits, size_t most_bytes);
std::optional<std::vector<RankWait>> UnpackWaits(absl::string_view bytes);

// What all processes have answered.
struct WaitingRanks {
  std::vector<RankWait> waits;
  std::vector<std::string> names;  // of each rank, with its host: "rank 3 on gpu1"
  std::vector<bool> answered;      // for each rank, whether its process did
};

// Follows the waits from the longest one, each rank's longest, and says who is at the end, who
// waits for it, how long and in which call. Empty if nobody waits.
std::string DescribeBlame(const WaitingRanks& ranks);

}  // namespace stringline
