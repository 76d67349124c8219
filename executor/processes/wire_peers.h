// The processes to which a process is connected: those with whose ranks its own exchange something,
// and a few that are connected to all and decide on failures.
//
// A process that notices a failure needs one that knows everything and reaches everybody. So the
// deciders cost three connections for each process, whatever it exchanges.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "executor/engine/group.h"
#include "executor/processes/process_names.h"

namespace stringline {

class WirePeers {
 public:
  explicit WirePeers(const ProcessNames* names) : names_(names), meets_(names->ranks(), false) {}

  // A group is made (Groups::New).
  void NoteGroup(absl::Span<const int> ranks, absl::Span<const MemberPair> talks);
  // By process, once the ranks of all are known: true for those of this process's peers.
  std::vector<bool> All() const;

 private:
  const ProcessNames* const names_;
  std::vector<bool> meets_;  // by rank: exchanges something with a rank of this process
};

// The processes that decide, in this order, once the hosts of all are known: process 0, the first
// ones of two more hosts, and where there are fewer hosts the next processes.
constexpr int kMostDeciders = 3;
std::vector<int> DecidersOf(const ProcessNames& names);

}  // namespace stringline
