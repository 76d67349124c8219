// Costs of actions. A `CostSpec` is written by a person (on the command line or in a YAML file) for
// any schedule; a `CostModel` holds the costs for one plan: a number for every stage and action.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schedlang/costs/formula.h"
#include "schedlang/costs/link_costs.h"
#include "schedlang/costs/overlapped.h"
#include "schedlang/costs/work_shares.h"
#include "schedlang/plan/group_order.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/sharding.h"
#include "schedlang/plan/values.h"

namespace stringline {

// From a model's shape and a machine's speed (formula.h).
struct CostFormula {
  ModelShape model;
  MachineSpeed machine;
  std::vector<SlowPair> slow_pairs = {};  // the planner's: they slow collectives (data_parallel.h)
  friend bool operator==(const CostFormula&, const CostFormula&) = default;
};

// Values by the keys of cost_keys.h, in the key's unit: one for all stages, or one per stage. A
// formula, if given, computes the missing values. For keys that a stage may have for itself, `work`
// is the scope of a scalar (work_shares.h); not for messages, and not for parts, which are a
// layer's.
// The error of each key that is no built-in cost's, with its file and line.
using UnknownKeys = std::map<std::string, std::string>;

// The microbatches of a step, if they are unequal: of each the lengths of its sequences, in tokens
// or in multiples of the usual one (kFactorOne is one).
struct UnequalMicrobatches {
  std::vector<std::vector<int64_t>> lengths;  // empty: microbatches are alike
  bool in_tokens = false;
  std::string place;  // of the key, for errors: "x.yaml:3: microbatch"

  bool empty() const { return lengths.empty(); }
  friend bool operator==(const UnequalMicrobatches&, const UnequalMicrobatches&) = default;
};
inline constexpr int64_t kFactorOne = 1'000'000;

struct CostSpec {
  std::map<std::string, std::vector<int64_t>> values;
  UnequalMicrobatches microbatches;
  std::vector<LinkCost> links = {};  // of messages between two ranks, in place of the values above
  bool spares_links = false;  // of several plans: one that sends nothing over a link may be priced
  std::optional<CostFormula> formula;
  WorkScope work = WorkScope::kStage;
  std::optional<Sharding> sharding;  // nothing: not said
  UnknownKeys unless_own;            // keys that may be of a schedule's own actions and values

  // True if schedules with more stages do as much work at these costs.
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
// The same for a text in memory; the files that the text names are relative to its path.
absl::StatusOr<CostSpec> ReadCosts(const Source& source);

// The same keys and sections as values of a program: {{"F", 18522}, {"I", "18.1ms"}, {"W", {1, 2}},
// {"node", CostTable{{"ranks", 8}}}}. A number is in the key's plain unit; files are relative to
// the working folder. Errors name the field `costs`.
struct CostValue;
using CostTable = std::vector<std::pair<std::string, CostValue>>;
struct CostValue {
  std::variant<std::string, std::vector<CostValue>, CostTable> value;

  CostValue(const char* text) : value(text) {}                        // NOLINT: a value as written
  CostValue(std::string text) : value(std::move(text)) {}             // NOLINT: the same
  CostValue(int number) : CostValue(int64_t{number}) {}               // NOLINT: a number is a value
  CostValue(int64_t number) : value(std::to_string(number)) {}        // NOLINT: the same
  CostValue(double number);                                           // NOLINT: the same
  CostValue(std::vector<CostValue> list) : value(std::move(list)) {}  // NOLINT: by stage
  CostValue(CostTable table) : value(std::move(table)) {}             // NOLINT: keys behind a dot
};
absl::StatusOr<CostSpec> ReadCosts(const CostTable& table);

// A command line's values for copies, which replace the cost file's: "data=16,shard=8",
// "parameters", "25MiB"; "": as the file says. Errors: invalid values, and a mesh or a bucket
// without a model.
struct CopiesRequest {
  std::string mesh;
  std::string sharding;
  std::string bucket;

  bool IsGiven() const { return !mesh.empty() || !sharding.empty() || !bucket.empty(); }
};
absl::Status ChangeCopies(const CopiesRequest& request, CostSpec* spec);

// The costs used when none are given: F = I = W = D = U = 1 ms, B = 2 ms, UPDATE = p2p = 0.
CostSpec UnitCosts();

// Durations drawn at random around their costs: a factor for every action.
struct Noise {
  std::vector<float> factors;  // by action; empty: none

  bool empty() const { return factors.empty(); }
  int64_t Of(uint32_t action, int64_t ns) const {
    return std::llround(static_cast<double>(ns) * factors[action]);
  }
};

// The time of a message once both its ends are ready: `transfer_ns`, in which the message occupies
// their queues, and then `latency_ns`, in which the next message may follow.
struct Hop {
  int64_t latency_ns = 0;
  int64_t transfer_ns = 0;
  int32_t link = -1;  // messages on one link at a time slow each other (shared_links.h); -1: never
  int64_t all_ns() const { return latency_ns + transfer_ns; }
};

// Bytes of a stage, by the classes of values.def: those always held, and those held for a
// microbatch. kMessages: an activation that the stage sends, and the gradient that comes back.
struct StageMemory {
  std::array<int64_t, kMemoryClasses> bytes = {};
  // For gradients that are shared out once they are reduced: the bytes above those always held,
  // from the first weight gradient to the end of REDUCE_GRAD.
  int64_t unreduced = 0;
  // For a stage that recomputes: bytes made again while its I runs, and for its W; while B runs,
  // both (recompute.h).
  int64_t remade_for_input = 0;
  int64_t remade_for_weight = 0;
  int64_t& operator[](MemoryClass c) { return bytes[static_cast<size_t>(c)]; }
  int64_t operator[](MemoryClass c) const { return bytes[static_cast<size_t>(c)]; }
};

// The shares of slices and of unequal microbatches (microbatch_shares.h). In a plan with slices
// every cost is a slice's, on average. Empty: all are alike.
struct MicrobatchShares {
  struct Range {
    int first = 0;
    int count = 0;
  };
  int slices = 1;
  std::vector<Range> of_stage;  // by stage: its pipe's microbatches in a step
  // By microbatch of a step: its tokens, against those of the usual one. Empty: microbatches are
  // alike.
  std::vector<double> tokens;
  // By microbatch, if they differ, and then by slice: the attention of its queries to all keys so
  // far, against the average slice of the usual microbatch.
  std::vector<double> scores;
  // The share of attention in a cost, by kind, then stage; none for a kind without.
  std::array<std::vector<double>, kComputeKinds> attention;

  bool empty() const { return scores.empty(); }
};

// The kinds and stages of a group, in the order listed.
using GroupKey = absl::InlinedVector<std::pair<ActionKind, int32_t>, 4>;
GroupKey KeyOf(absl::Span<const Action> group);

// The times of a schedule's own actions, by kind and stage.
struct OwnCosts {
  std::array<std::vector<int64_t>, kActionKinds> by_stage;
  int64_t Of(ActionKind kind, StageId stage) const {
    return by_stage[static_cast<size_t>(kind)][static_cast<size_t>(stage.value)];
  }
};

// Nanoseconds, by stage.
struct CostModel {
  std::vector<int64_t> forward;
  std::vector<int64_t> backward;
  std::vector<int64_t> input_gradient;
  std::vector<int64_t> weight_gradient;
  // An `F a & B b`, by stage a; empty: the sum of its parts, as for every other group.
  std::vector<int64_t> forward_backward;
  // An `F a & I b` likewise; and by stage, how much less such a pair takes than its actions in a
  // row: the smaller of its two stages' savings. Only an order's own costs say these (OrderCosts).
  std::vector<int64_t> forward_input;
  std::vector<int64_t> saved_beside_backward;
  std::vector<int64_t> saved_beside_input;
  // Parts of every stage; empty: a group is simulated as a whole.
  std::vector<PartCosts> parts;
  std::array<bool, kComputeKinds> by_parts =
      {};  // by kind: an action alone is simulated part by part, too
  // The times of the groups whose parts overlap (overlapped.h), and of actions alone whose chunks
  // do, for the plan for which they were computed (PriceGroups); empty without such groups.
  std::map<GroupKey, int64_t> overlapped;
  // By stage that recomputes, its F done again: contained in its B and I, or done by its R
  // (Stage::remakes). Empty: no stage has such actions.
  std::vector<int64_t> again;
  std::vector<int64_t> recompute;
  int64_t slowdown = 0;     // millionths
  int64_t part_jitter = 0;  // the standard deviation of a part's duration, in millionths of it
  int64_t hop = 0;          // the latency of every message, unless it depends:
  // By edge of the plan's graph, the times of its activation and its gradient; empty: `hop`.
  std::vector<Hop> activation_hops;
  std::vector<Hop> gradient_hops;
  // Collectives; empty: no time.
  std::vector<int64_t> unshard;
  std::vector<int64_t> reduce;
  std::vector<int64_t> buckets;  // in which both come, at least 1 (plan/buckets.h); empty: 1
  // Copies to the host and back, in a plan that has them.
  std::vector<int64_t> offload;
  std::vector<int64_t> fetch;
  // The cost of an UPDATE, in a plan that lists them. Behind a step without them, updated
  // parameters are gathered in no timeline (data_parallel.h); an UPDATE contains that.
  std::vector<int64_t> update;
  std::vector<int64_t> gather_updated;
  // By stage, the time that a step without UPDATE takes behind its timeline: the optimizer's step,
  // and what nothing hides of gathering updated parameters. Empty: not known.
  std::vector<int64_t> behind_step;
  OwnCosts own;
  MicrobatchShares shares;          // in all of the above but collectives and updates
  CollectiveChoice collectives;     // a plan's collectives, unless the plan says them itself
  std::vector<StageMemory> memory;  // empty: not known
  int64_t capacity = 0;             // bytes that a rank can hold; 0: not known
  int64_t host_capacity = 0;        // bytes of copies that a rank's host can hold; 0: not known
  int receive_buffers = 0;          // per rank (links.h); 0: any number
  int64_t jitter = 0;               // standard deviation of durations, in millionths
  int64_t microbatch_jitter = 0;    // the same of a microbatch's, all of its computations alike
  Noise noise;
  bool of_order = false;  // computation has the costs for which the plan's order was made
                          // (OrderCosts)
};

// True if durations are drawn at random around the costs.
inline bool HasJitter(const CostModel& costs) {
  return costs.jitter > 0 || costs.microbatch_jitter > 0;
}

// The time of the action's microbatch, or slice of it, where the usual one takes `ns`. An action
// without a microbatch is of the usual one.
int64_t OfShare(const MicrobatchShares& shares, const Action& action, int64_t ns);
inline int64_t OfMicrobatch(const CostModel& costs, const Action& action, int64_t ns) {
  return costs.shares.empty() ? ns : OfShare(costs.shares, action, ns);
}

inline int64_t BucketsOf(const CostModel& costs, StageId stage) {
  return costs.buckets.empty() ? 1 : costs.buckets[static_cast<size_t>(stage.value)];
}
// True for a stage with layers of parts.
inline bool IsCut(const CostModel& costs, StageId stage) {
  return !costs.parts.empty() && costs.parts[static_cast<size_t>(stage.value)].layers > 0;
}
// The buckets that computations of the stage meet in equal pieces of their time.
inline int64_t BucketsMet(const CostModel& costs, StageId stage) {
  return IsCut(costs, stage) ? 1 : BucketsOf(costs, stage);
}
// True if every computation takes the time of its parts: they are the costs of actions, and nothing
// stretches them.
bool TakesItsParts(const CostModel& costs);

// True if any message shares the bandwidth of a link.
inline bool SharesLinks(const CostModel& costs) {
  const auto shares = [](const Hop& hop) { return hop.link >= 0; };
  return std::any_of(costs.activation_hops.begin(), costs.activation_hops.end(), shares) ||
         std::any_of(costs.gradient_hops.begin(), costs.gradient_hops.end(), shares);
}

// The time of this send's message over its edge.
inline Hop HopOf(const CostModel& costs, const Edge& edge, const Action& send) {
  const std::vector<Hop>& hops =
      send.kind == ActionKind::kSendForward ? costs.activation_hops : costs.gradient_hops;
  if (hops.empty()) return {costs.hop, 0};
  Hop hop = hops[static_cast<size_t>(edge.id)];
  hop.transfer_ns = OfMicrobatch(costs, send, hop.transfer_ns);
  return hop;
}
inline Hop HopOf(const Plan& plan, const CostModel& costs, const Action& send) {
  return costs.activation_hops.empty() ? Hop{costs.hop, 0}
                                       : HopOf(costs, *EdgeOf(plan, send), send);
}

// Without any cost of computation the plan's own costs are taken, a unit of OrderCosts being a
// millisecond; or UnitCosts, if the plan has none or `work` is another scope than a stage. A list
// may also give one value for each stage of a pipe. Stages recompute as the spec says, or else
// as the plan does (Plan::recompute); costs are those without. R defaults to F. B defaults to I +
// W; F, B, I and W default to the sums of their parts, which otherwise are stretched to the given
// total. Errors: a missing cost that the plan needs (a D and a U take the bytes over
// host.bandwidth, unless costs say D and U, and as long as an F where no costs are given); a list
// whose length is not a number of stages; a bandwidth without the size of messages; a link over
// which the plan sends nothing, unless the spec spares it.
absl::StatusOr<CostModel> ResolveCosts(const CostSpec& spec, const Plan& plan);

// True for a group of `plan` that takes the time of its parts, side by side: an F beside a B or I
// without a cost of its own, and, if all kinds have costs of parts, a group that the schedule lets
// overlap, and an action alone whose microbatch is in chunks.
bool OverlapsInParts(const Plan& plan, const CostModel& costs, absl::Span<const Action> group);

// The rules by which groups of the plan take time.
LaneRules RulesOf(const Plan& plan, const CostModel& costs);

// The parts of such a group, or of an action alone; stages of `costs.parts` as in `plan`.
std::vector<PartTime> PartsOfGroup(const Plan& plan, const CostModel& costs,
                                   absl::Span<const Action> group);

// Computes the times of this plan's groups from their parts, whatever plan the costs were resolved
// for or measured on: groups of stages differ from plan to plan, and so may the order of parts.
void PriceGroups(const Plan& plan, CostModel* costs);

// The cost of the group of parts that begins at group[0] (of a single part: the action's cost).
int64_t GroupCost(const CostModel& costs, absl::Span<const Action> group);

}  // namespace stringline
