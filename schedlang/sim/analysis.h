// Where the time of a step goes. Pure: a lowered plan and its timeline, simulated or measured, ->
// causes, critical path, messages.
//
// Every idle nanosecond of a rank, from the start of the step to its last end, has one cause:
//
//   warm-up     before the rank's first computation
//   cool-down   after its last one
//   activation  the next group waits for an activation that is being computed or sent
//   gradient    the same for a gradient
//   queue       the value exists, but its message stands behind others of its communicator
//   collective  the parameters of the stage are still being gathered
//   memory      the value exists, but the receiver has no buffer for it yet
//
// They add up exactly: the causes of all ranks are ranks x makespan - work.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "schedlang/plan.h"
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
};
inline constexpr int kIdleCauses = 7;
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

// A message: the events of its two ends.
struct MessageEvents {
  uint32_t send = 0;
  uint32_t recv = 0;
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

// `timeline.events` are those of `lowered`, in the same places.
Analysis Analyze(const Plan& lowered, const Timeline& timeline);

}  // namespace stringline
