// What ranks do and have done, for whoever wants to know why others wait for them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stringline {

struct RankState {
  int rank = 0;           // of the mesh
  std::string doing;      // "computes 3F1 (zb_v.sched:12)"; "": nothing that is known
  int64_t doing_ns = 0;   // for so long
  bool computes = false;  // which is an action, and waits for nobody
  // The message or collective that its next computation needs, as the index of its action: of what
  // it waits for, what holds it up. -1: none, or it is not known.
  int64_t needs = -1;
  std::string completed;  // its last action, "3F0 (zb_v.sched:12)"; "": none yet
  int64_t ago_ns = 0;     // so long ago
};

class RankStates {
 public:
  virtual ~RankStates() = default;
  // Of the ranks of this process. From any thread.
  virtual std::vector<RankState> Now() const = 0;
};

}  // namespace stringline
