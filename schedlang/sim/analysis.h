// Where the time of a step goes. Pure: a lowered plan and its timeline, simulated or measured, ->
// causes, critical path, messages.
//
// Every idle nanosecond of a rank, from the start of the step to its last end, has one cause:
//
//   warm-up     before the rank's first computation
//   cool-down   after its last one
//   activation  the next group waits for an activation to be computed and sent
//   gradient    the same for a gradient
//   queue       the value would be there already, had its message not stood behind others of its
//               communicator, or where messages are issued as they are written (WiringAsWritten)
//               behind computations; there also for as long as the list waits for a send
//   collective  the parameters of the stage are still being gathered
//   memory      the same, had the receiver had a buffer for it
//   other       nothing in the plan explains it: only in measured timelines
//
// They add up exactly: the causes of all ranks are ranks x makespan - work.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "schedlang/plan.h"
#include "schedlang/sim/wiring.h"
#include "schedlang/timeline.h"

namespace stringline {

enum class IdleCause : uint8_t {
  kWarmUp,
  kCoolDown,
  kActivation,
  kGradient,
  kQueue,
  kCollective,
  kMemory,
  kOther,
};
inline constexpr int kIdleCauses = 8;
const char* NameOf(IdleCause cause);  // "warm-up", …

// A stretch in which a rank computes nothing, for one reason.
struct IdleStretch {
  RankId rank;
  IdleCause cause = IdleCause::kWarmUp;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  // Indices of events: the first part of the group that waits (-1 for a cool-down), and what it
  // waits for: the computation that gives the value, for kQueue the message that went before.
  int32_t waiting = -1;
  int32_t waits_for = -1;

  int64_t length_ns() const { return end_ns - start_ns; }
};

// A message: the events of its two ends, and the computation that makes what it carries.
struct MessageEvents {
  uint32_t send = 0;
  uint32_t recv = 0;
  uint32_t maker = 0;
};

struct Analysis {
  int64_t makespan_ns = 0;
  std::vector<IdleStretch> idle;           // by rank, then time
  std::vector<uint32_t> first_idle = {0};  // rank r: idle[first_idle[r]] .. idle[first_idle[r+1]-1]
  // Nanoseconds by rank and cause.
  std::vector<std::array<int64_t, kIdleCauses>> causes;
  // The chain of events that ends last and could not have ended earlier, from the start of the
  // step: first parts of groups, and sends between ranks.
  std::vector<uint32_t> critical;
  std::vector<MessageEvents> messages;
};

// `timeline.events` are those of `lowered`, in the same places; `lowered` passes Check for the
// timeline's layout. `receive_buffers` is that of the simulation (wiring.h). Cost: linear in
// actions.
Analysis Analyze(const Plan& lowered, const Timeline& timeline, int receive_buffers = 0);
// The same with the wiring of the simulation.
Analysis Analyze(const Plan& lowered, const Timeline& timeline, const Wiring& wiring);

// The plan that a timeline performed: its actions, and stages where it says they live. Nothing that
// the plan alone knows is in it: places, costs, splits. None for a timeline in which a stage is on
// two ranks or on none.
std::optional<Plan> PlanOf(const Timeline& timeline);

}  // namespace stringline
