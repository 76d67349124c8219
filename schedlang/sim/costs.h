// What actions cost. A `CostSpec` is what a person writes (on the command line or in a YAML file),
// for any schedule; a `CostModel` is that for one plan: a number for every stage and action.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schedlang/parts/pair_order.h"
#include "schedlang/plan.h"
#include "schedlang/sharding.h"
#include "schedlang/sim/formula.h"
#include "schedlang/sim/overlapped.h"
#include "schedlang/sim/work_shares.h"
#include "schedlang/values.h"

namespace stringline {

// From a model's shape and a machine's speed (formula.h).
struct CostFormula {
  ModelShape model;
  MachineSpeed machine;
  friend bool operator==(const CostFormula&, const CostFormula&) = default;
};

// Values by the keys of cost_keys.h, in the key's unit: one for all stages, or one per stage. What
// is not among them a formula gives, if there is one. Where a stage may have its own, `work` says
// what one value is for (work_shares.h); not for messages, and not for parts, which are a layer's.
struct CostSpec {
  std::map<std::string, std::vector<int64_t>> values;
  std::optional<CostFormula> formula;
  WorkScope work = WorkScope::kStage;
  std::optional<Sharding> sharding;  // nothing: not said

  // Whether schedules with more stages do as much work at these costs.
  bool IsOfModel() const { return formula.has_value() || work != WorkScope::kStage; }
  friend bool operator==(const CostSpec&, const CostSpec&) = default;
};

// "F=18522,I=18086,W=9337,p2p=601" or with lists "F=[1,2,3],B=2ms,message=16MiB,bandwidth=25GB/s".
// Errors: InvalidArgument naming the key.
absl::StatusOr<CostSpec> ParseCosts(absl::string_view text);

// The same keys as a YAML map; a key with a dot may also be a map: `node: {ranks: 8}`. `work` is
// stage, rank or model, `sharding` a word of sharding.h. A formula is given by a model's shape, in
// the sections and by the keys of a run file (read_shape.h), and by `hardware`, a file (as those in
// sim/hardware, its path seen from the cost file) with `flops`, `memory`, `memory_bandwidth`,
// `efficiency`, and links. Errors name file, line and key.
absl::StatusOr<CostSpec> ReadCostFile(const std::string& path);
// The same of a text that has been read; its path is what files are seen from.
absl::StatusOr<CostSpec> ReadCosts(const Source& source);

// What a command line says of copies instead of the cost file: "data=16,shard=8", "parameters",
// "25MiB"; "": as the file says. Errors: what cannot be, and a mesh or a bucket without a model.
struct CopiesRequest {
  std::string mesh;
  std::string sharding;
  std::string bucket;

  bool IsGiven() const { return !mesh.empty() || !sharding.empty() || !bucket.empty(); }
};
absl::Status ChangeCopies(const CopiesRequest& request, CostSpec* spec);

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
  int32_t link = -1;  // messages on one link at a time slow each other (shared_links.h); -1: never
  int64_t all_ns() const { return latency_ns + transfer_ns; }
};

// Bytes of a stage, as values.def has them: what is always there, and what a microbatch holds. Of
// kMessages an activation that the stage sends, and the gradient that comes back.
struct StageMemory {
  std::array<int64_t, kMemoryClasses> bytes = {};
  // Of gradients that are shared out once they are reduced: more than is always there, from the
  // first weight gradient to the end of REDUCE_GRAD.
  int64_t unreduced = 0;
  // Of a stage that recomputes: what is made again while its I runs, and for its W; while B runs,
  // both (recompute.h).
  int64_t remade_for_input = 0;
  int64_t remade_for_weight = 0;
  int64_t& operator[](MemoryClass c) { return bytes[static_cast<size_t>(c)]; }
  int64_t operator[](MemoryClass c) const { return bytes[static_cast<size_t>(c)]; }
};

// Nanoseconds, by stage.
struct CostModel {
  std::vector<int64_t> forward;
  std::vector<int64_t> backward;
  std::vector<int64_t> input_gradient;
  std::vector<int64_t> weight_gradient;
  // An `F a & B b`, by stage a; empty: the sum of its parts, as for every other group.
  std::vector<int64_t> forward_backward;
  // Parts of every stage; empty: a group is one thing. With them, an `F a & B b` and an
  // `F a & I b` take what overlapped.h says, at [a * stages + b] (PricePairs); -1 where the plan
  // that they were computed for has no such pair.
  std::vector<PartCosts> parts;
  std::array<bool, 4> by_parts = {};  // by kind: one alone is simulated part by part, too
  std::vector<int64_t> overlapped_whole;
  std::vector<int64_t> overlapped_input;
  std::vector<int64_t> again;  // what B and I have of their stage's F; empty: none recomputes
  int64_t slowdown = 0;        // millionths
  int64_t hop = 0;             // the latency of every message, unless it depends:
  // By the stage that sends it, what an activation and a gradient take; empty: `hop`.
  std::vector<Hop> activation_hops;
  std::vector<Hop> gradient_hops;
  // Collectives; empty: no time.
  std::vector<int64_t> unshard;
  std::vector<int64_t> reduce;
  std::vector<int64_t> update;      // after the step, so in no timeline (data_parallel.h)
  CollectiveChoice collectives;     // what a plan gets that does not say it itself
  std::vector<StageMemory> memory;  // empty: not known
  int64_t capacity = 0;             // bytes that a rank can hold; 0: not known
  int receive_buffers = 0;          // of a rank (wiring.h); 0: any number
  int64_t jitter = 0;               // standard deviation of durations, in millionths
  Noise noise;
};

// What the message of this send takes.
inline Hop HopOf(const CostModel& costs, const Action& send) {
  const std::vector<Hop>& hops =
      send.kind == ActionKind::kSendForward ? costs.activation_hops : costs.gradient_hops;
  return hops.empty() ? Hop{costs.hop, 0} : hops[send.stage.value];
}

// Without any cost of computation it takes what UnitCosts says. B defaults to I + W; F, B, I and W
// default to the sums of their parts, which otherwise are stretched to what is given. Errors: a
// cost that the plan needs and nobody gave; a list whose length is not the number of stages; a
// bandwidth without the size of messages.
absl::StatusOr<CostModel> ResolveCosts(const CostSpec& spec, const Plan& plan);

// Computes what the pairs of this plan take by their parts, whatever plan the costs were resolved
// for or measured on: pairs of stages differ from plan to plan, and so may the order of parts.
// Nothing without parts, or where `forward_backward` says it.
void PricePairs(const Plan& plan, CostModel* costs);

// The cost of the group of parts that begins at group[0] (one part: that action's cost).
int64_t GroupCost(const CostModel& costs, absl::Span<const Action> group);

}  // namespace stringline
