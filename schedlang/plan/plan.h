// The elaborated schedule: for every rank, the actions it performs, in order.
//
// This is the project's narrow waist. Parser and elaborator end here; lowering, checker, simulator
// and executor begin here and never see a loop, a parameter or an expression. Golden tests compare
// its text form:
//
//   plan one_f_one_b P=2 M=2             ("lowered" at the end for a lowered one)
//   stages 0 1
//   rank 0: 0F0 0F1 0B0 0B1
//   rank 1: 1F0 1B0 1F1&1B1
//
// A plan of several steps says so in its second line, and numbers microbatches on through them; the
// number of an UPDATE is its step:
//
//   plan two_steps P=1 M=1
//   steps 2 versions 1
//   stages 0
//   rank 0: 0F0 0B0 0UPDATE0 0F1 0B1 0UPDATE1
//
// A plan whose microbatches have slices says how many in a line `slices 4`; there 1F3.2 is the
// forward of slice 2 of microbatch 3. A plan without backwards has a line `forward only`.
//
// A schedule's own values and actions have a line each, `value …` and `action …` (rows.h), before
// the stages; an action that each rank does stands in the lists of all of them.
//
// `stages` gives the rank of every stage. An action prints as stage, kind, microbatch; `a&b` are
// parts that share the rank. A lowered plan also holds sends and receives (0SEND_F0, 1RECV_F0),
// written as torch does: with the stage of the acting rank; the peer follows from it. Sends and
// receives joined by `&` are one grouped call. Collectives (1UNSHARD) have no microbatch.
//
// A line `skip 2@1 2@3` says that microbatches 1 and 3 of each step leave stage 2 out. Where stages
// are no chain (stage_graph.h), a line `edges 0>1 0>2 1>2` follows the stages. Messages
// then name their peer, too: 0SEND_F3>2 goes to stage 2, and 2RECV_F3>0 comes from stage 0.
//
// A plan with pipes has a line for each instead of `stages`, and its actions name their pipe:
//
//   plan both_ways P=2 M=4
//   pipe down M=2 stages 0 1
//   pipe up M=2 stages 1 0
//   rank 0: down[0]F0 up[1]F0 up[1]B0 …
//
// A schedule's further statements follow in lines of their own, if present: `split …`,
// `overlap …`, `chunks …`, `ahead …`, `window …`, `costs …`, `search …` (the members of Plan
// below).
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
#include "schedlang/plan/action_kind.h"
#include "schedlang/plan/rows.h"
#include "schedlang/plan/stage_graph.h"

namespace stringline {

struct Action {
  ActionKind kind = ActionKind::kForward;
  bool joined = false;  // shares the rank with the preceding action: the b of `a & b`
  // The rank of an own action that every rank does (rows.h), or the stage at the other end of a
  // message between stages that are no chain; -1: the stage alone tells it.
  int16_t other = -1;
  StageId stage;
  // In its pipe, its slices counted (Plan::slices); of an UPDATE its step; none for a collective.
  MicrobatchId microbatch;
  uint32_t place = 0;      // index into Plan::places: the place in the source
  int32_t iteration = -1;  // index into Plan::iterations: the innermost loop pass; -1 for none
};

// Pass `i` of a loop, inside pass `outer` of the loop around it (-1: no loop).
struct Iteration {
  int32_t outer = -1;
  int32_t i = 0;
};

struct Stage {
  RankId rank;
  int32_t pipe = 0;  // index into Plan::pipes
  // True if the plan lists an R of the stage: its F keeps what R begins with (FindRemaking).
  bool remakes = false;
};

// A stage that a microbatch of a step leaves out: what would enter the stage goes to those behind
// it.
struct Skip {
  StageId stage;
  int32_t microbatch = 0;
  friend auto operator<=>(const Skip&, const Skip&) = default;
};

// A pipe of a bidirectional schedule: stages in a row, and the microbatches that run through them.
// All pipes hold the same model, cut alike: the k-th stages of two pipes are replicas, and their
// gradients are summed.
struct Pipe {
  std::string name;
  StageId first_stage;
  int stages = 0;
  int first_microbatch = 0;  // the microbatches of the pipes before it, of all steps
  int microbatches = 0;      // of all steps of the plan, their slices counted
};

// The assignment of the model's layers to stages.
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

// The parts of a group of these kinds share the rank, in the order of its named parts on the
// compute lane and on the network lane, or by default in that of group_order.h.
struct Overlap {
  struct Part {
    ActionKind of = ActionKind::kForward;  // W: the weight gradients of a B, too
    std::string name;                      // attn, dispatch, experts, combine
    Span span;
    int place = -1;  // index into `kinds` of its action; -1: its letter does not tell
  };
  std::vector<ActionKind> kinds;
  std::vector<Span> kind_spans;  // the place of each kind
  bool by_default = false;       // both lanes are empty
  std::vector<Part> compute;
  std::vector<Part> network;
  Span span;
};

// The costs that a greedy order or a searched one was made with, in units of no meaning. Lists are
// one value for all stages, or one for each stage of a pipe.
struct OrderCosts {
  // An F beside a B, or beside an I. Both lists empty: such a group takes as long as its actions in
  // a row.
  struct Pair {
    std::vector<int64_t> takes;  // by the stage of the F
    std::vector<int64_t> saves;  // or: the actions in a row, less the smaller of their two stages'

    friend bool operator==(const Pair&, const Pair&) = default;
  };

  // F, B, I and W; empty for a kind whose cost the schedule does not say. F's is empty only in a
  // plan whose order is neither greedy nor searched.
  std::array<std::vector<int64_t>, kOrderedKinds> actions;
  int64_t p2p = 0;  // a message to another rank
  // By microbatch of a step, pipe after pipe: how many times as long it takes. Empty: all are
  // alike.
  std::vector<int64_t> microbatches;
  Pair beside_backward;
  Pair beside_input;

  bool empty() const { return actions[0].empty(); }
  // `kind` is F, B, I or W; `stage` counts from the first stage of its pipe.
  int64_t of(ActionKind kind, int stage) const {
    const std::vector<int64_t>& costs = actions[static_cast<size_t>(kind)];
    return costs.size() == 1 ? costs[0] : costs[static_cast<size_t>(stage)];
  }
  friend bool operator==(const OrderCosts&, const OrderCosts&) = default;
};

// The optimiser's result for the orders that it found, at the plan's OrderCosts.
struct Searched {
  std::string objective;  // the minimised quantity: makespan, span or period; empty: not searched
  int64_t value = 0;      // the value reached
  int64_t bound = 0;      // a lower bound on all orders

  bool empty() const { return objective.empty(); }
};

struct Parameter {
  std::string name;
  int64_t value = 0;
};

inline constexpr int kMostChunks = 16;
inline constexpr int kMostStagesAhead = 1'000'000;
inline constexpr int kMostSteps = 10'000;
inline constexpr int kMostVersions = 64;
inline constexpr int kMostSlices = 1024;
inline constexpr int kMostWindow = 4096;
inline constexpr int kMostSlack = 1 << 20;

struct Plan {
  std::string schedule;               // its name
  std::vector<Parameter> parameters;  // P, M, then the options in the order declared
  int microbatches = 0;               // of all steps, their slices counted
  // A plan may hold several steps of training, each with as many microbatches: those of step k of a
  // stage follow those of step k - 1.
  int steps = 1;
  // The versions of its weights that a stage holds. Its F, R, B and I of step k read the weights
  // behind UPDATE k - versions, or the first ones: weights that are at most versions - 1 steps old.
  int versions = 1;
  // The slices of each microbatch's sequence. Numbers of microbatches count slices: slice k of
  // microbatch m is number m * slices + k, here, in pipes and in actions. Its F reads the keys of
  // the slices before it, and its B or I their gradients from the slices behind it.
  int slices = 1;
  // True for a plan without backwards, of which an F keeps nothing but the keys of its slice.
  bool forward_only = false;
  std::vector<Stage> stages;
  // The graph of these stages; after a change of them by hand: SetChains. Where some microbatches
  // leave stages out, all edges that any of them goes over.
  StageGraph graph;
  // The stages that microbatches of a step leave out, and then the graphs that they go through, the
  // first without leaving out any, and by microbatch of a step its graph. Set by SetSkips.
  std::vector<Skip> skips;
  std::vector<StageGraph> ways;
  std::vector<int32_t> way_of;
  std::vector<Pipe> pipes;  // empty: a single pipe, of all stages and microbatches
  OwnRows rows;             // the schedule's own values and actions
  Split split;
  // By stage, 1 if it recomputes: of a microbatch it keeps its input only, and its F is done again,
  // by the stage's R actions or, if the plan lists none, as the beginning of its B or I. Empty: no
  // stage does.
  std::vector<int> recompute;
  std::vector<Overlap> overlaps;
  // The chunks into which the sequences of a microbatch are cut inside a stage: their parts share
  // the rank, so that one chunk's all-to-alls lie under another's computation (group_order.h).
  int chunks = 1;
  // The number of stages whose parameters a rank gathers before it needs them, if they are shared
  // out and the plan lists no UNSHARD (lower/collectives.h).
  int gathers_ahead = 1;
  // Ready order (ready.h): a rank performs what is ready first among the first `window`
  // computations left of its list, and each of its stages may hold `slack` activations more than
  // in the order of the list. 0: the order of the list.
  int window = 0;
  int slack = 0;
  OrderCosts costs;
  Searched searched;
  // The actions of rank r are actions[first[r]] .. actions[first[r + 1] - 1].
  std::vector<uint32_t> first = {0};
  std::vector<Action> actions;
  bool lowered = false;  // contains sends and receives

  Span header;  // the schedule's name: the place of findings about all of it
  std::vector<Span> places;
  std::shared_ptr<const Source> source;  // the text of the places, for the executor; may be null
  std::vector<Iteration> iterations;

  int ranks() const { return static_cast<int>(first.size()) - 1; }
  absl::Span<const Action> of(RankId rank) const {
    return absl::MakeConstSpan(actions).subspan(first[rank.value],
                                                first[rank.value + 1] - first[rank.value]);
  }
  const Stage& stage(StageId id) const { return stages[id.value]; }
  // True for two stages on one rank, which pass values without a message.
  bool SameRank(StageId a, StageId b) const { return stage(a).rank == stage(b).rank; }
  // Sets the graph: the stages of each pipe are a chain.
  void SetChains();
  // Lets microbatches leave stages out of the graph that is there, for a plan of one pipe. Returns
  // the reason why one of them cannot be left out, or "".
  std::string SetSkips(std::vector<Skip> left_out);
  // The graph that the microbatch goes through, and that of one that leaves out nothing.
  const StageGraph& GraphOf(MicrobatchId microbatch) const {
    return ways.empty() ? graph : WayOf(microbatch);
  }
  const StageGraph& WholeGraph() const { return ways.empty() ? graph : ways[0]; }
  bool LeavesOut(StageId id, MicrobatchId microbatch) const {
    return !ways.empty() && IsLeftOut(id, microbatch);
  }
  // The number of microbatches of a step, slices not counted.
  int microbatches_in_step() const { return microbatches / steps / slices; }
  // The number of microbatches of a step that the stage has, their slices counted.
  int MicrobatchesOfStep(StageId id) const;
  // The number of microbatches of the stage's pipe.
  int microbatches_of(StageId id) const {
    return pipes.empty() ? microbatches : pipes[stage(id).pipe].microbatches;
  }
  // The step of an UPDATE, or of an action's microbatch.
  int StepOf(const Action& action) const {
    if (steps == 1) return 0;
    if (action.kind == ActionKind::kUpdate) return action.microbatch.value;
    return action.microbatch.value / (microbatches_of(action.stage) / steps);
  }
  // The slice of an action on a microbatch.
  int SliceOf(const Action& action) const {
    return slices == 1 ? 0 : action.microbatch.value % slices;
  }
  // The microbatch of all steps which a plan of that step alone would number `microbatch`, counted
  // through all pipes.
  MicrobatchId OfStep(int step, int32_t microbatch) const;

 private:
  size_t InStep(MicrobatchId microbatch) const {
    return static_cast<size_t>(microbatch.value / slices) % way_of.size();
  }
  const StageGraph& WayOf(MicrobatchId microbatch) const {
    return ways[static_cast<size_t>(way_of[InStep(microbatch)])];
  }
  bool IsLeftOut(StageId id, MicrobatchId microbatch) const;
};

// The rank whose list holds the action.
inline RankId RankOf(const Plan& plan, const Action& action) {
  const bool of_every_rank = action.other >= 0 && !IsMessage(action.kind);
  return of_every_rank ? RankId(action.other) : plan.stage(action.stage).rank;
}
// The first rank, and the first stage, beyond those that Action::other can name.
inline constexpr int kMostRanksOfRows = 1 << 15;
inline constexpr int kMostStagesOfEdges = 1 << 15;

// True if the plan lists a D, a U, or an own copy.
bool HasCopies(const Plan& plan);
// True if it lists an UPDATE.
bool HasUpdates(const Plan& plan);
// True if the rule `updates` has something to say of it: more than one step or version, or UPDATEs.
bool HasSteps(const Plan& plan);

// Sets Stage::remakes of all stages by the plan's actions.
void FindRemaking(Plan* plan);

// True for the messages at the stage that the edge leaves.
constexpr bool IsAtFrom(ActionKind message) {
  return message == ActionKind::kSendForward || message == ActionKind::kRecvBackward;
}
// The edge of a send or a receive; null if there is none.
const Edge* EdgeByName(const Plan& plan, const Action& message);
inline const Edge* EdgeOf(const Plan& plan, const Action& message) {
  if (!plan.graph.is_chain()) [[unlikely]]
    return EdgeByName(plan, message);
  return IsAtFrom(message.kind) ? plan.graph.FirstOut(message.stage)
                                : plan.graph.FirstIn(message.stage);
}
// The other stage of a send or a receive: the message's destination or origin.
inline StageId PeerStage(const Plan& plan, const Action& action) {
  const Edge* const edge = EdgeOf(plan, action);
  if (edge == nullptr) return StageId();
  return IsAtFrom(action.kind) ? edge->to : edge->from;
}
// The message of this kind over an edge: a send or a receive at its own end, of the microbatch and
// the place of `at`.
inline Action MessageOver(const Plan& plan, const Edge& edge, ActionKind kind, const Action& at) {
  Action message = at;
  message.kind = kind;
  message.joined = false;
  message.stage = IsAtFrom(kind) ? edge.from : edge.to;
  const StageId peer = IsAtFrom(kind) ? edge.to : edge.from;
  message.other = plan.graph.is_chain() ? int16_t{-1} : static_cast<int16_t>(peer.value);
  return message;
}

// The group that begins at actions[begin]: the action and those joined to it.
inline absl::Span<const Action> GroupAt(absl::Span<const Action> actions, size_t begin) {
  size_t end = begin + 1;
  while (end < actions.size() && actions[end].joined) ++end;
  return actions.subspan(begin, end - begin);
}

// The stage as messages name it: "3", or "up[1]" in plans with pipes.
std::string PrintStage(absl::Span<const Pipe> pipes, StageId stage);
// "7", or "7.1" in a plan whose microbatches have slices.
std::string PrintMicrobatch(int slices, MicrobatchId microbatch);
// "3", or "1.75" where 7 slices of a quarter each are counted: activations in microbatches.
std::string PrintActivations(int slices, int count);
// "3F7", "up[1]F7", "3F7.1"; "3UNSHARD"; "0SEND_F7>2" for a message with this Action::other.
std::string PrintAction(absl::Span<const Pipe> pipes, const OwnRows& rows, int slices,
                        ActionKind kind, StageId stage, MicrobatchId microbatch, int other = -1);
std::string Print(const Plan& plan, const Action& action);
// "0F3&1B0": the group that begins at actions[index].
std::string PrintGroup(const Plan& plan, absl::Span<const Action> actions, size_t index);
std::string Print(const Plan& plan);
// "skip 2@1 2@3\n", or nothing: the line of the text form.
std::string Print(const std::vector<Skip>& skips);
std::string PrintParameters(const Plan& plan);  // "P=4 M=8"
// "F.attn", or "2.attn" and "2.W.attn" where several actions of the block have the letter.
std::string Print(const Overlap& overlap, const Overlap::Part& part);
// The lines `overlap …` and so on, as they stand in the text form.
std::string Print(const Overlap& overlap);
std::string Print(const Split& split);
std::string Print(const OrderCosts& costs);
std::string Print(const Searched& searched);
// "iteration 3, P=4 M=8": the words behind a message's marker; loops from the outside in.
std::string WhereOf(const Plan& plan, const Action& action);
Span SpanOf(const Plan& plan, const Action& action);
// " (zb_v.sched:41)", the action's place in the source, or "" without a source.
std::string PrintLine(const Plan& plan, const Action& action);
// "3F7 (zb_v.sched:41)".
std::string PrintWithLine(const Plan& plan, const Action& action);

// Reads the text form back. The spans of the plan lie in `source`.
std::optional<Plan> ReadPlan(const Source& source, Diagnostics* diagnostics);

}  // namespace stringline
