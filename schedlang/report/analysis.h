// The uses of a step's time. Pure: a lowered plan and its timeline, simulated or measured, ->
// causes, critical path, messages.
//
// Every idle nanosecond of a rank, from the start of the step to its last end, has one cause:
//
//   warm-up     before the rank's first computation
//   cool-down   after its last one
//   activation  the next group waits for an activation to be computed and sent
//   gradient    the same for a gradient
//   queue       the value would be ready already, had its message not stood behind others of its
//               communicator, or where messages are issued as they are written (WiringAsWritten)
//               behind computations; then also for as long as the list waits for a send
//   collective  the parameters of the stage are still being gathered
//   memory      the value would be ready already, had the receiver had a buffer
//   other       nothing in the plan explains the idle time: only in measured timelines
//
// They add up exactly: the causes of all ranks are ranks x makespan - work.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "schedlang/plan/links.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/timeline.h"

namespace stringline {

enum class IdleCause : uint8_t {
  kWarmUp,
  kCoolDown,
  kActivation,
  kGradient,
  kQueue,
  kCollective,
  kMemory,
  kCopy,
  kOther,
};
inline constexpr int kIdleCauses = 9;
const char* NameOf(IdleCause cause);  // "warm-up", …

// A stretch without computation on a rank, for a single reason. Waits for buckets within a
// computation (plan/buckets.h) count as one at its end.
struct IdleStretch {
  RankId rank;
  IdleCause cause = IdleCause::kWarmUp;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  // Indices of events: the first part of the waiting group (-1 for a cool-down), and its reason:
  // the computation that gives the value, for kQueue the message before.
  int32_t waiting = -1;
  int32_t waits_for = -1;

  int64_t length_ns() const { return end_ns - start_ns; }
};

// Nanoseconds by rank and cause.
using CausesByRank = std::vector<std::array<int64_t, kIdleCauses>>;

// A message: the events of its two ends, and the computation that makes its value.
struct MessageEvents {
  uint32_t send = 0;
  uint32_t recv = 0;
  uint32_t maker = 0;
};

struct Analysis {
  int64_t makespan_ns = 0;
  std::vector<IdleStretch> idle;           // by rank, then time
  std::vector<uint32_t> first_idle = {0};  // rank r: idle[first_idle[r]] .. idle[first_idle[r+1]-1]
  CausesByRank causes;
  // The critical path: the chain of events with the latest end, none of which could have ended
  // earlier, from the start of the step; first parts of groups, and sends between ranks.
  std::vector<uint32_t> critical;
  std::vector<MessageEvents> messages;
};

// `timeline.events` are the events of `lowered`, in the same order; `lowered` passes Check for the
// timeline's layout. `receive_buffers` is the simulation's (links.h). Cost: linear in actions.
Analysis Analyze(const Plan& lowered, const Timeline& timeline, int receive_buffers = 0);
// The same with the wiring of the simulation.
Analysis Analyze(const Plan& lowered, const Timeline& timeline, const Wiring& wiring);
// Its causes alone, of a timeline with this makespan.
CausesByRank CausesOfIdle(const Plan& lowered, const Timeline& timeline, const Wiring& wiring,
                          int64_t makespan_ns);

// The plan that a timeline performed: its actions, and the ranks of its stages. Knowledge of the
// plan alone (places, costs, splits) is missing. None for a timeline in which a stage is on two
// ranks or on none.
std::optional<Plan> PlanOf(const Timeline& timeline);

}  // namespace stringline
