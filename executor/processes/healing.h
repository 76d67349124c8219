// The meeting of the processes that are left when others of a run were lost: they agree on which
// copies of the pipeline go on, from which step, and at which address they meet as a smaller run.
//
// Every process listens at an address of its own from its first start to its end, and tells the
// others which (Introduce). When a run has lost a process, every process that is left comes to the
// lowest one that lives: a listener that refuses connections is a process that has died. The lowest
// one waits until every other process has come or refuses, decides, and tells. Connections prove
// the run's secret, as in any other start of the run.
//
//   units      the processes of a copy of the pipeline, or of a few whole copies in one process
//   go on      of the units without a lost process the first ones, as many as divide their number
//              before, as --restarts does; the others leave
//   the step   the newest one whose state all of these hold
//
// A process that neither comes nor refuses, as on a host that cannot be reached, may live and
// decide on its own: then only more than half of the processes go on, or half with process 0.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/engine/world.h"
#include "executor/processes/frames.h"
#include "executor/processes/hello.h"
#include "executor/processes/identity.h"

namespace stringline {

// The decision, for one process.
struct HealedPlace {
  int process = -1;  // in the smaller run; -1: this process leaves
  int processes = 0;
  int data = 0;  // copies of the pipeline that go on
  int64_t step = 0;
  std::string told;  // "process 1 with ranks 2, 3 on gpu1 was lost: copies 0, 2 of 4 go on …"
  std::string host;  // of the smaller run's process 0
  int port = 0;
};

// The decision of the process that leads, apart from its own addresses.
struct HealDecision {
  std::vector<int> members;  // the processes that go on, ascending; empty: none can
  int data = 0;
  int64_t step = 0;
  std::string told;  // or the reason why none can
};

// Decides. `held` are the steps whose state a process holds, by process; nullopt: it did not come.
// `died` tells for each other one whether it is known to have died. `names` are by process.
HealDecision DecideHealing(int data, absl::Span<const std::optional<std::vector<int64_t>>> held,
                           const std::vector<bool>& died, absl::Span<const std::string> names);

// InvalidArgument unless copies of the pipeline are whole processes, or processes are whole copies.
absl::Status CheckHealable(int data, int processes);

class Healing {
 public:
  explicit Healing(Identity identity) : identity_(std::move(identity)) {}
  ~Healing();
  Healing(const Healing&) = delete;
  Healing& operator=(const Healing&) = delete;

  // The identity of this process in the run as it is now.
  const Identity& identity() const { return identity_; }
  int times() const { return times_; }  // that the run has healed

  // The processes tell each other where they listen. All of them call it, once they have joined.
  absl::Status Introduce(World* world);

  // Called when the run has lost a process and this process has left it: `held` are the steps whose
  // state it holds, `data` the copies so far. Afterwards identity() is the one in the smaller run.
  // An error, of which all are told: nobody can go on. Waits for a process that lives at most
  // `wait_ms`.
  absl::StatusOr<HealedPlace> Meet(const std::vector<int64_t>& held, int data, int64_t wait_ms);

 private:
  struct Member {
    std::string name;
    std::string host;
    int port = 0;
  };
  enum class Seen : uint8_t { kComes, kRefuses, kSilent };

  Hello OwnHello(const std::vector<int64_t>& held) const;
  // The decision of the process `leader`; kRefuses or kSilent in `seen` if it leads nobody.
  absl::StatusOr<HealedPlace> Follow(int leader, const std::vector<int64_t>& held, int64_t until_ns,
                                     Seen* seen);
  absl::StatusOr<HealedPlace> Lead(const std::vector<int64_t>& held, int data, int64_t until_ns);
  // Tells the processes that came what was decided; the part of this one.
  absl::StatusOr<HealedPlace> Tell(const HealDecision& decision, std::vector<FrameSocket>* sockets);
  absl::StatusOr<HealedPlace> GoTo(absl::StatusOr<HealedPlace> place);
  std::vector<int> Listeners() const;

  Identity identity_;
  std::vector<int> listeners_;
  std::vector<Member> members_;  // by process
  int times_ = 0;
};

}  // namespace stringline
