// The elaborated schedule: for every rank, the actions it performs, in order.
//
// This is the project's narrow waist. Parser and elaborator end here; lowering, checker, simulator
// and executor begin here and never see a loop, a parameter or an expression. Its text form is what
// golden tests compare:
//
//   plan one_f_one_b P=2 M=2             ("lowered" at the end for a lowered one)
//   stages 0 1
//   rank 0: 0F0 0F1 0B0 0B1
//   rank 1: 1F0 1B0 1F1&1B1
//
// `stages` gives the rank of every stage. An action prints as stage, kind, microbatch; `a&b` are
// parts that share the rank. A lowered plan also holds sends and receives (0SEND_F0, 1RECV_F0),
// written as torch does: the stage is the one whose rank performs it, the peer follows from it.
// Sends and receives joined by `&` are one grouped call. Collectives (1UNSHARD) have no microbatch.
//
// With pipes there is a line for each instead, and the actions say which one they belong to:
//
//   plan both_ways P=2 M=4
//   pipe down M=2 stages 0 1
//   pipe up M=2 stages 1 0
//   rank 0: down[0]F0 up[1]F0 up[1]B0 …
//
// What a schedule says beside its orders follows in lines of its own, if it says it: `split …`,
// `overlap …`, `costs …`, `search …` (the structs Split, Overlap, OrderCosts and Searched below).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "schedlang/base/diagnostics.h"
#include "schedlang/base/ids.h"
#include "schedlang/base/source.h"

namespace stringline {

enum class ActionKind : uint8_t {
#define X(kind, print, meaning) kind,
#include "schedlang/actions.def"
#undef X
};
inline constexpr int kActionKinds = 11;

const char* PrintedKind(ActionKind kind);    // "F", "SEND_F", …
const char* MeaningOfKind(ActionKind kind);  // the table's third column

constexpr bool IsCompute(ActionKind kind) { return kind <= ActionKind::kWeightGradient; }
constexpr bool IsSend(ActionKind kind) {
  return kind == ActionKind::kSendForward || kind == ActionKind::kSendBackward;
}
constexpr bool IsRecv(ActionKind kind) {
  return kind == ActionKind::kRecvForward || kind == ActionKind::kRecvBackward;
}

constexpr bool IsMessage(ActionKind kind) { return IsSend(kind) || IsRecv(kind); }
constexpr bool IsCollective(ActionKind kind) { return kind >= ActionKind::kUnshard; }

struct Action {
  ActionKind kind = ActionKind::kForward;
  bool joined = false;  // shares the rank with the action before it: the b of `a & b`
  StageId stage;
  MicrobatchId microbatch;  // of its pipe; none for a collective
  uint32_t place = 0;       // index into Plan::places: where it was written
  int32_t iteration = -1;   // index into Plan::iterations: the innermost loop pass; -1 for none
};

// One pass of one loop: the `i`-th, inside pass `outer` of the loop around it (-1: no loop).
struct Iteration {
  int32_t outer = -1;
  int32_t i = 0;
};

// Where a stage lives, and its neighbours in its pipe.
struct Stage {
  RankId rank;
  StageId previous;  // none for a pipe's first stage
  StageId next;      // none for a pipe's last stage
  int32_t pipe = 0;  // index into Plan::pipes
};

// One of the pipes of a bidirectional schedule: stages in a row, and the microbatches that run
// through them. All pipes hold the same model, cut alike: the k-th stages of two pipes are
// replicas, whose gradients are summed.
struct Pipe {
  std::string name;
  StageId first_stage;
  int stages = 0;
  int first_microbatch = 0;  // its microbatch m is first_microbatch + m of the step's data
  int microbatches = 0;
};

// Which layers of the model each stage holds.
struct Split {
  enum class Kind : uint8_t {
    kEven,      // as equal as the layer count allows; the default
    kBalanced,  // the least possible slowest stage, by the cost model
    kLayers,    // `layers` of each stage
    kLayout,    // `layout` of each stage: E embedding, t layer, m multi-token prediction, L loss
  };
  Kind kind = Kind::kEven;
  std::vector<int> layers;
  std::vector<std::string> layout;
  Span span;
};

// How the parts of a group of these kinds share the rank: the order of its named parts on the
// compute lane and on the network lane.
struct Overlap {
  struct Part {
    ActionKind of = ActionKind::kForward;  // W: the weight gradients of the group's B
    std::string name;                      // attn, dispatch, experts, combine
    Span span;
  };
  std::vector<ActionKind> kinds;
  std::vector<Span> kind_spans;  // where each of them stands
  std::vector<Part> compute;
  std::vector<Part> network;
  Span span;
};

// The costs that a greedy order or a searched one was made with, in units of no meaning.
struct OrderCosts {
  // Of F, B, I and W: one for all stages, or one for each stage of a pipe. All empty: the order is
  // neither.
  std::array<std::vector<int64_t>, 4> actions;
  int64_t p2p = 0;  // of a message to another rank

  bool empty() const { return actions[0].empty(); }
  // `kind` is F, B, I or W; `stage` counts from the first one of its pipe.
  int64_t of(ActionKind kind, int stage) const {
    const std::vector<int64_t>& costs = actions[static_cast<size_t>(kind)];
    return costs.size() == 1 ? costs[0] : costs[static_cast<size_t>(stage)];
  }
  friend bool operator==(const OrderCosts&, const OrderCosts&) = default;
};

// What an optimiser says of the orders it has found, at those costs.
struct Searched {
  std::string objective;  // makespan, span or period: what was to be short; empty: not searched
  int64_t value = 0;      // how short it is
  int64_t bound = 0;      // no order is below

  bool empty() const { return objective.empty(); }
};

struct Parameter {
  std::string name;
  int64_t value = 0;
};

struct Plan {
  std::string schedule;               // its name
  std::vector<Parameter> parameters;  // P, M, then the options in the order declared
  int microbatches = 0;               // of the whole step
  std::vector<Stage> stages;
  std::vector<Pipe> pipes;  // empty: one pipe, of all stages and microbatches
  Split split;
  std::vector<Overlap> overlaps;
  OrderCosts costs;
  Searched searched;
  // The actions of rank r are actions[first[r]] .. actions[first[r + 1] - 1].
  std::vector<uint32_t> first = {0};
  std::vector<Action> actions;
  bool lowered = false;  // sends and receives are in it

  Span header;  // the schedule's name: where findings about it all point
  std::vector<Span> places;
  std::shared_ptr<const Source> source;  // what the places lie in, for who executes it; may be null
  std::vector<Iteration> iterations;

  int ranks() const { return static_cast<int>(first.size()) - 1; }
  absl::Span<const Action> of(RankId rank) const {
    return absl::MakeConstSpan(actions).subspan(first[rank.value],
                                                first[rank.value + 1] - first[rank.value]);
  }
  const Stage& stage(StageId id) const { return stages[id.value]; }
  // How many microbatches run through the stage's pipe.
  int microbatches_of(StageId id) const {
    return pipes.empty() ? microbatches : pipes[stage(id).pipe].microbatches;
  }
};

// The other stage of a send or a receive: where the message goes to or comes from.
StageId PeerStage(const Plan& plan, const Action& action);

// The parts of the group that begins at actions[begin]: that action and those joined to it.
absl::Span<const Action> GroupAt(absl::Span<const Action> actions, size_t begin);

// The stage as messages name it: "3", or "up[1]" where there are pipes.
std::string PrintStage(absl::Span<const Pipe> pipes, StageId stage);
// "3F7", "up[1]F7"; "3UNSHARD".
std::string PrintAction(absl::Span<const Pipe> pipes, ActionKind kind, StageId stage,
                        MicrobatchId microbatch);
std::string Print(const Plan& plan, const Action& action);
// "0F3&1B0": the group of parts that begins at actions[index].
std::string PrintGroup(const Plan& plan, absl::Span<const Action> actions, size_t index);
std::string Print(const Plan& plan);
std::string PrintParameters(const Plan& plan);  // "P=4 M=8"
// The lines `overlap …` and so on, as they stand in the text form.
std::string Print(const Overlap& overlap);
std::string Print(const Split& split);
std::string Print(const OrderCosts& costs);
std::string Print(const Searched& searched);
// "iteration 3, P=4 M=8": what a message puts behind its marker; the loops from the outside in.
std::string WhereOf(const Plan& plan, const Action& action);
Span SpanOf(const Plan& plan, const Action& action);
// " (zb_v.sched:41)", where it was written, or "" without a source.
std::string PrintLine(const Plan& plan, const Action& action);
// "3F7 (zb_v.sched:41)".
std::string PrintWithLine(const Plan& plan, const Action& action);

// Reads the text form back. The spans of the plan lie in `source`.
std::optional<Plan> ReadPlan(const Source& source, Diagnostics* diagnostics);

}  // namespace stringline
