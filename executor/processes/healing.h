// The meeting of the processes that are left when others of a run were lost: they agree on which
// copies of the pipeline go on, from which state, and at which address they meet as a smaller run.
//
// Every process listens at an address of its own from its first start to its end, and tells the
// others which (Introduce). When a run has lost a process, every process that is left comes to the
// lowest one that lives: a listener that refuses connections is a process that has ended. The
// lowest one waits until every other process has come or refuses, decides (heal_decision.h), and
// tells. Connections prove the run's secret, as in any other start of the run.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/engine/held_version.h"
#include "executor/engine/world.h"
#include "executor/processes/frames.h"
#include "executor/processes/heal_decision.h"
#include "executor/processes/healed_place.h"
#include "executor/processes/hello.h"
#include "executor/processes/identity.h"

namespace stringline {

class Healing {
 public:
  // `returns`: processes that leave, or were lost, may come back (returning.h).
  Healing(Identity identity, bool returns) : identity_(std::move(identity)), returns_(returns) {}
  ~Healing();
  Healing(const Healing&) = delete;
  Healing& operator=(const Healing&) = delete;

  // The identity of this process in the run as it is now.
  const Identity& identity() const { return identity_; }
  // The processes of the run as it is now; none before Introduce.
  const std::vector<HealMember>& members() const { return members_; }

  // The processes tell each other where they listen. All of them call it, once they have joined.
  absl::Status Introduce(World* world);

  // Called when the run has lost a process and this process has left it: `held` are the versions of
  // the state that it holds, `data` the copies so far. An error, of which all are told: nobody can
  // go on. Waits for a process that lives at most `wait_ms`, as others do for this one: longer
  // after all last met, at `met_ns`, they may have gone on without it
  // (FoundProcesses::stood_still).
  struct Meeting {
    std::vector<HeldVersion> held;
    int data = 0;
    int64_t wait_ms = 0;
    int64_t met_ns = 0;
  };
  absl::StatusOr<HealedPlace> Meet(const Meeting& meeting);

  // From now on this process is the one of the decision, which does not tell it to leave.
  void Enter(const HealedPlace& place);

  // Listens at a free port of `address` from now on, if it does not yet.
  absl::Status Listen(const std::string& address);
  int port() const;
  // Copies of the listening sockets, for a Newcomers to own.
  std::vector<int> Listeners() const;
  // The introduction of this process in the run as it is now, for a purpose.
  Hello HelloFor(const std::string& purpose) const;

 private:
  enum class Seen : uint8_t { kComes, kRefuses, kSilent };

  Hello HelloOfMeeting(const Meeting& meeting) const;
  // The decision of the process `leader`; kRefuses or kSilent in `seen` if it leads nobody.
  absl::StatusOr<HealedPlace> Follow(int leader, const Meeting& meeting, int64_t until_ns,
                                     Seen* seen);
  absl::StatusOr<HealedPlace> Lead(const Meeting& meeting, int64_t until_ns);
  // Tells the processes that came what was decided; the part of this one.
  absl::StatusOr<HealedPlace> Tell(const HealDecision& decision, std::vector<FrameSocket>* sockets);

  Identity identity_;
  const bool returns_;
  std::vector<int> listeners_;
  std::vector<HealMember> members_;  // by process
};

}  // namespace stringline
