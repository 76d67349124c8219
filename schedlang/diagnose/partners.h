// The calls that belong together: the collectives of a group with one sequence number, and the k-th
// send from a rank to another with its k-th receive.
#pragma once

#include <vector>

#include "schedlang/diagnose/records.h"
#include "schedlang/diagnose/standings.h"

namespace stringline {

// One collective of a group, or one group of collectives.
struct Meeting {
  int32_t group = 0;
  int64_t sequence = 0;
  std::vector<CallAt> calls;  // the first of each rank's launch, by rank
};

// The messages from a rank of a group to another.
struct Pair {
  int32_t group = 0;
  int from = 0, to = 0;  // ranks of the group
  std::vector<CallAt> sends, receives;
  // Recorders have overwritten messages: sends[send_base + i] meets receives[receive_base + i],
  // counted from the first of either that has not ended, and none before is compared.
  bool is_counted_from_open = false;
  size_t send_base = 0, receive_base = 0;
};

struct Partners {
  std::vector<Meeting> meetings;  // by group, then sequence
  std::vector<Pair> pairs;        // by group, sender, receiver
};

Partners PartnersOf(const Records& records, const std::vector<Standing>& standings);

}  // namespace stringline
