// The way back into a run that heals, for processes that were lost and started again, or that left
// since their copies of the pipeline were too many or too few.
//
// Process 0 listens at the address at which the run began, the only one that a new process knows
// (ReturnDoor). A process that comes back knocks there (KnockToReturn): it proves the secret, shows
// that it would train the same, and waits. When whole copies wait that make the run larger, and the
// state is held in memory, all processes agree on a larger run (Grow), which begins like one that
// has lost processes: its new ones hold nothing, and get their state from the others.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/engine/world.h"
#include "executor/processes/frames.h"
#include "executor/processes/healed_place.h"
#include "executor/processes/healing.h"
#include "executor/processes/hello.h"
#include "executor/processes/identity.h"
#include "executor/processes/newcomers.h"

namespace stringline {

// The run as it began, as its processes and those that come back know it.
struct RunAtStart {
  Identity identity;  // of this process
  int data = 1;       // copies of the pipeline
  ConfigLines config;
  int of_unit() const;
};

class ReturnDoor {
 public:
  explicit ReturnDoor(const RunAtStart* start) : start_(start) {}
  ~ReturnDoor();
  ReturnDoor(const ReturnDoor&) = delete;
  ReturnDoor& operator=(const ReturnDoor&) = delete;

  // Listens from now on, unless it does. Unavailable with the reason.
  absl::Status Open();
  // The number of processes that wait.
  int Waiting();
  // Names and addresses of so many of them, those first that came first.
  std::vector<HealMember> First(int count) const;
  // Lets them in, with numbers from `from` on.
  void Admit(HealedPlace place, int count, int from);
  // The run has ended: tells those that wait.
  void Close();

 private:
  struct Guest {
    HealMember member;
    FrameSocket socket;
  };
  void Take(Newcomers::Arrival arrival);

  const RunAtStart* const start_;
  std::optional<Newcomers> newcomers_;
  std::vector<Guest> guests_;
};

// The number of copies, of `data` at first, with which a run of so many processes could go on if
// these `waiting` ones came back: more than now, or as many as now.
int CopiesWith(int waiting, int processes, const RunAtStart& start);

// All processes decide that the run goes on from its state of this age with those that wait at the
// door, which process 0 has. Errors as World::Exchange.
absl::StatusOr<HealedPlace> Grow(const RunAtStart& start, const Healing& healing, ReturnDoor* door,
                                 const std::pair<int, int64_t>& age, World* world);

// Waits at the door of the run until it takes this process in. Cancelled: it has ended, or nobody
// listens there; InvalidArgument: it would train something else. `healing` listens from then on.
absl::StatusOr<HealedPlace> KnockToReturn(const RunAtStart& start, Healing* healing);

}  // namespace stringline
