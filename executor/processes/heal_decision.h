// The choice of the copies of the pipeline that go on when a run has lost processes.
//
//   units      the processes of a copy of the pipeline, or of a few whole copies in one process
//   go on      of the units without a lost process the first ones, as many as divide their number
//              before, as --restarts does; the others leave
//   the state  the newest version of which those that came hold every share
//
// A process that neither comes nor refuses connections, as on a host that cannot be reached, may
// live and decide on its own; and so may processes that have ended, while this one stood still:
// then only more than half of the processes go on, or half with process 0.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "executor/engine/held_version.h"

namespace stringline {

// The processes as they are found after a loss; all by process.
struct FoundProcesses {
  int data = 0;                                               // copies of the pipeline
  std::vector<std::optional<std::vector<HeldVersion>>> held;  // nullopt: it did not come
  std::vector<bool> ended;  // known not to be there any more; of those that did not come
  std::vector<std::string> names;
  // True if the others may have gone on, and ended, without this process, which stood still.
  bool stood_still = false;
  bool returns = false;  // processes that leave wait to come back
};

struct HealDecision {
  std::vector<int> members;  // the processes that go on, ascending; empty: none can
  int data = 0;
  std::pair<int, int64_t> age;
  // The processes that leave and give their shares to one that goes on: from, to.
  std::vector<std::pair<int, int>> gifts;
  std::string told;  // or the reason why none can
};

HealDecision DecideHealing(const FoundProcesses& found);

// "copies 0, 2 of 4 go on from step 53 in 4 processes".
std::string PrintGoingOn(const std::vector<int>& copies, int of, int64_t step, size_t processes);

// The number of processes that are a unit.
int ProcessesOfUnit(int data, int processes);
// The most units that divide `all`, of so many.
int MostDividing(int units, int all);

// InvalidArgument unless copies of the pipeline are whole processes, or processes are whole copies.
absl::Status CheckHealable(int data, int processes);

}  // namespace stringline
