// A schedule with resolved names: every value has a slot, every expression is a node in a flat
// array. Between the user's tree and its elaboration; no other phase sees it.
//
// Since nothing is shadowed and no function can reach itself, one slot per definition is enough:
// frames are not needed, nor names during evaluation.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "schedlang/base/source.h"
#include "schedlang/plan/plan.h"

namespace stringline {

enum class Operator : uint8_t {
  kNumber,       // value
  kSlot,         // a: the slot
  kCall,         // a: the function; b, c: first and number of its arguments
  kMin,          // b, c: as in kCall
  kMax,          // b, c
  kConditional,  // a ? b : c
  kPipeStage,    // a: the pipe; b: which of its stages
  kNot,          // a
  kNegate,       // a
  kOr,           // a, b; so are all the others
  kAnd,
  kEqual,
  kUnequal,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kRemainder,
};

// An expression; a, b, c are node ids unless the operation says otherwise.
struct ExpressionNode {
  Operator op = Operator::kNumber;
  int32_t a = -1;
  int32_t b = -1;
  int32_t c = -1;
  int64_t value = 0;
  Span span;
};

struct Function {
  std::string name;
  int32_t first_slot = 0;  // its parameters have the slots from here on
  int32_t parameters = 0;
  int32_t body = -1;
  int depth = 0;  // depth of recursion when the body is evaluated
};

// A part of a group: an action, or the next action of an order.
struct PartStep {
  Span span;
  int32_t order = -1;  // the order; -1 for an action
  ActionKind kind = ActionKind::kForward;
  int32_t stage = -1;       // node; -1 for a bare W
  int32_t slice = -1;       // node; -1 if the counters decide
  int32_t microbatch = -1;  // node; -1 if the counters decide
  uint32_t place = 0;       // index into Program::places
};

// The values of a statement for all stages: a single value, a list, or an expression.
struct PerStageStep {
  std::vector<int32_t> nodes;
  bool is_list = false;
  int32_t slot = -1;  // holds the stage during evaluation of the node
};

// The subject of a cost: an action, a message, or memory held by a microbatch of a stage.
enum class CostOf : uint8_t {
  kAction,
  kMessage,
  kMicrobatch,
  kSavedForInput,
  kSavedForWeight,
  kStash,
  kInput
};

// The time of an action or a message while an order is made, the factors of microbatches in it, or
// an amount of memory.
struct CostStep {
  CostOf of = CostOf::kAction;
  ActionKind kind = ActionKind::kForward;  // for kAction
  Span span;
  PerStageStep value;
};

enum class Layout : uint8_t { kLine, kLoop, kV, kWave, kExpression };

// A layout allowed for the stages of a searched schedule.
struct PlacingStep {
  Span span;
  std::optional<Layout> layout;  // nothing: any
  int32_t stages_per_rank = -1;  // node; -1: the default
};

struct Step {
  enum class Kind : uint8_t {
    kLet,         // slot = node
    kRequire,     // node, else the message `text`
    kStages,      // Program::pipes[slot]
    kPad,         // node
    kChunks,      // node
    kAhead,       // node
    kSteps,       // node
    kVersions,    // node
    kSlices,      // node
    kWindow,      // node
    kSlack,       // node
    kOrder,       // slot: the order; body
    kRepeat,      // node times; slot: the loop variable or -1; body
    kIf,          // body: arms; the first whose node holds is performed
    kArm,         // node, or -1 for `else`; body
    kGroup,       // parts
    kCollective,  // parts: a single part, without a microbatch; an UPDATE, too
    kAt,          // node: the slot; parts
    kTighten,
    kFill,
    kHold,        // node
    kPrefer,      // kinds
    kCosts,       // costs
    kMinimize,    // text: makespan, span or period
    kWithin,      // node; text: activations or memory
    kPairs,       // kinds: F, and B or I; costs: the pair's cost, if given
    kIterations,  // node
    kPlace,       // places
    kLayers,      // node
  };
  Kind kind = Kind::kLet;
  Span span;
  int32_t node = -1;
  int32_t slot = -1;
  std::string text;
  std::vector<Step> body;
  std::vector<PartStep> parts;
  std::vector<ActionKind> kinds;
  std::vector<int32_t> nodes;
  std::vector<CostStep> costs;
  std::vector<PlacingStep> places;
};

struct StagesStep {
  Span span;  // the layout's
  int32_t count = -1;
  bool reversed = false;
  Layout layout = Layout::kLine;
  int32_t slot = -1;  // the stage's, for kExpression
  int32_t rank = -1;  // node, for kExpression
};

// A pipe, or the only row of stages of a schedule without pipes.
struct PipeStep {
  std::string name;  // empty: the schedule has no pipes
  Span span;
  StagesStep stages;
  int32_t microbatches = -1;  // node; -1: all of them
};

// An edge, or edges of all stages: a slot holds the stage where its name stands for each of them.
struct EdgeStep {
  Span span;
  int32_t from_slot = -1, to_slot = -1;  // -1: a single stage, given by the node
  int32_t from = -1, to = -1;            // nodes
  int32_t where = -1;                    // node; -1: all of them
};

// The stages that microbatches leave out: those of the slots for which the node holds.
struct SkipStep {
  Span span;
  int32_t stage_slot = -1, microbatch_slot = -1;
  int32_t where = -1;  // node
};

// `split`: as in the text, before lists are evaluated and stages are counted.
struct SplitStep {
  Split::Kind kind = Split::Kind::kEven;
  bool any = false;  // found by a search
  PerStageStep layers;
  std::vector<std::string> layout;
  Span span;
};

// The definition of a derived schedule, instead of a body.
struct DerivedStep {
  struct Argument {
    std::string name;  // empty: by its position
    Span span;
    int32_t node = -1;
  };
  // A change of all ranks' orders.
  struct Then {
    enum class What : uint8_t { kDefer, kRecompute, kOffload };
    What what = What::kDefer;
    Span span;
    int32_t node = -1;  // by how many actions, on each rank
  };
  std::vector<Argument> arguments;
  std::vector<Then> thens;
};

// The kind of a rank block.
enum class RankMode : uint8_t { kSequence, kTimetable, kGreedy, kSearch };

// `recompute`: none unless one of these says more.
struct RecomputeStep {
  bool all = false;
  bool any = false;     // found by a search
  PerStageStep stages;  // 1 for a stage that recomputes
  Span span;
};

// The copies to the host that a search places; none unless one of these says more.
struct OffloadStep {
  bool all = false;
  bool any = false;
  Span span;
};

// The rank that holds a value `on rank e`, for every stage.
struct OwnValueStep {
  size_t value = 0;  // index into Program::rows.values
  PerStageStep rank;
};

struct NamedOrder {
  std::string name;
  Span span;
};

struct Program {
  std::vector<ExpressionNode> nodes;
  std::vector<int32_t> arguments;  // node ids, those of a call side by side
  std::vector<Function> functions;
  std::vector<std::string> slot_names;  // the schedule's parameters come first
  std::vector<int32_t> defaults;        // per parameter: a node, or -1
  std::vector<Step> steps;              // the schedule's own
  std::vector<PipeStep> pipes;
  std::vector<EdgeStep> edges;  // empty: the stages of a pipe are a chain
  std::optional<Span> edges_span;
  std::optional<SkipStep> skip;
  std::optional<SplitStep> split;
  std::optional<RecomputeStep> recompute;
  std::optional<OffloadStep> offload;
  std::optional<Span> forward_only;      // 'forward only'
  std::optional<Span> prefers_remaking;  // a 'prefer' with R
  std::optional<Span> place;             // the search block's `place`
  std::optional<Span> layers;            // the search block's `layers`
  std::optional<Span> input;             // the search block's `costs input`
  std::vector<Overlap> overlaps;
  OwnRows rows;
  std::vector<OwnValueStep> own_values;
  std::optional<DerivedStep> derived;
  int32_t rank_slot = -1;
  RankMode mode = RankMode::kSequence;
  Span mode_span;           // the word for the mode
  uint32_t mode_place = 0;  // the same, as an index into places
  std::vector<Step> rank;   // the rank block
  std::vector<NamedOrder> orders;
  std::vector<Span> places;

  int32_t AddSlot(std::string name) {
    slot_names.push_back(std::move(name));
    return static_cast<int32_t>(slot_names.size()) - 1;
  }
};

}  // namespace stringline
