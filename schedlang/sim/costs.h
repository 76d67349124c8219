// What actions cost. A `CostSpec` is what a person writes (on the command line or in a YAML file),
// for any schedule; a `CostModel` is that for one plan: a number for every stage and action.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schedlang/plan.h"

namespace stringline {

// Keys: F B I W (one value, or one per stage), FB (an `F a & B b`; one value, or one per stage a),
// p2p (latency of a hop, one value). Values are integer nanoseconds.
struct CostSpec {
  std::map<std::string, std::vector<int64_t>> values;
  friend bool operator==(const CostSpec&, const CostSpec&) = default;
};

// "F=18522,I=18086,W=9337,p2p=601" or with lists "F=[1,2,3],B=2ms". A plain number is in
// microseconds; the suffixes ns, us, ms and s are understood; fractions are rounded to nanoseconds.
// Errors: InvalidArgument naming the key.
absl::StatusOr<CostSpec> ParseCosts(absl::string_view text);

// The same keys as a YAML map. Errors name file, line and key.
absl::StatusOr<CostSpec> ReadCostFile(const std::string& path);

// What is used where nothing is said: F = I = W = 1 ms, B = 2 ms, p2p = 0.
CostSpec UnitCosts();

// Durations drawn at random around what was asked for: a factor for every action.
struct Noise {
  std::vector<float> factors;  // by action; empty: none

  bool empty() const { return factors.empty(); }
  int64_t Of(uint32_t action, int64_t ns) const {
    return static_cast<int64_t>(static_cast<double>(ns) * factors[action] + 0.5);
  }
};

// What a message takes once both its ends are there: `transfer_ns`, during which it occupies their
// queues, and then `latency_ns`, during which the next one may follow it.
struct Hop {
  int64_t latency_ns = 0;
  int64_t transfer_ns = 0;
  int64_t all_ns() const { return latency_ns + transfer_ns; }
};

// Nanoseconds, by stage.
struct CostModel {
  std::vector<int64_t> forward;
  std::vector<int64_t> backward;
  std::vector<int64_t> input_gradient;
  std::vector<int64_t> weight_gradient;
  // An `F a & B b`, by stage a; empty: the sum of its parts, as for every other group.
  std::vector<int64_t> forward_backward;
  int64_t hop = 0;  // the latency of every message, unless it depends:
  // By the stage that sends it, what an activation and a gradient take; empty: `hop`.
  std::vector<Hop> activation_hops;
  std::vector<Hop> gradient_hops;
  // Collectives; empty: no time.
  std::vector<int64_t> unshard;
  std::vector<int64_t> reduce;
  Noise noise;
};

// What the message of this send takes.
inline Hop HopOf(const CostModel& costs, const Action& send) {
  const std::vector<Hop>& hops =
      send.kind == ActionKind::kSendForward ? costs.activation_hops : costs.gradient_hops;
  return hops.empty() ? Hop{costs.hop, 0} : hops[send.stage.value];
}

// B defaults to I + W. Errors: a cost that the plan needs and nobody gave; a list whose length is
// not the number of stages; a negative or absurdly large value.
absl::StatusOr<CostModel> ResolveCosts(const CostSpec& spec, const Plan& plan);

// The cost of the group of parts that begins at group[0] (one part: that action's cost).
int64_t GroupCost(const CostModel& costs, absl::Span<const Action> group);

}  // namespace stringline
