// The present and last completed work of ranks, to explain why other ranks wait for them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stringline {

struct RankState {
  int rank = 0;           // in the mesh
  std::string doing;      // "computes 3F1 (zb_v.sched:12)"; "": unknown
  int64_t doing_ns = 0;   // for so long
  bool computes = false;  // `doing` is a computation
  // The message or collective that holds up its next computation, or the present computation, which
  // may wait in an all-to-all of its own, as the index of the action; -1: none, or unknown.
  int64_t needs = -1;
  std::string completed;  // its last action, "3F0 (zb_v.sched:12)"; "": none yet
  int64_t ago_ns = 0;     // so long ago
};

class RankStates {
 public:
  virtual ~RankStates() = default;
  // The states of this process's ranks. May be called from any thread.
  virtual std::vector<RankState> Now() const = 0;
};

}  // namespace stringline
