// A schedule whose names are resolved: every value has a slot, every expression is a node in one
// flat array. Between the tree that the user wrote and its elaboration; nothing else sees it.
//
// Since nothing is shadowed and no function can reach itself, one slot per definition is enough:
// there are no frames, and evaluating needs no names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedlang/base/source.h"
#include "schedlang/plan.h"

namespace stringline {

enum class Operator : uint8_t {
  kNumber,       // value
  kSlot,         // a: the slot
  kCall,         // a: the function; b, c: first and number of its arguments
  kMin,          // b, c: as in kCall
  kMax,          // b, c
  kConditional,  // a ? b : c
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
  int depth = 0;  // how deep evaluating the body recurses
};

// A part of a group: an action, or the next one of an order.
struct PartStep {
  Span span;
  int32_t order = -1;  // the order; -1 for an action
  ActionKind kind = ActionKind::kForward;
  int32_t stage = -1;       // node; -1 for a bare W
  int32_t microbatch = -1;  // node; -1 if the counters decide
  uint32_t place = 0;       // index into Program::places
};

struct Step {
  enum class Kind : uint8_t {
    kLet,      // slot = node
    kRequire,  // node, else the message `text`
    kStages,   // Program::stages
    kPad,      // node
    kOrder,    // slot: the order; body
    kRepeat,   // node times; slot: the loop variable or -1; body
    kIf,       // body: arms; the first one whose node holds is performed
    kArm,      // node, or -1 for `else`; body
    kGroup,    // parts
  };
  Kind kind = Kind::kLet;
  Span span;
  int32_t node = -1;
  int32_t slot = -1;
  std::string text;
  std::vector<Step> body;
  std::vector<PartStep> parts;
};

enum class Layout : uint8_t { kLine, kLoop, kV, kWave, kExpression };

struct StagesStep {
  Span span;  // of the layout
  int32_t count = -1;
  bool reversed = false;
  Layout layout = Layout::kLine;
  int32_t slot = -1;  // of the stage, for kExpression
  int32_t rank = -1;  // node, for kExpression
};

struct NamedOrder {
  std::string name;
  Span span;
};

struct Program {
  std::vector<ExpressionNode> nodes;
  std::vector<int32_t> arguments;  // node ids, those of one call side by side
  std::vector<Function> functions;
  std::vector<std::string> slot_names;  // the schedule's parameters come first
  std::vector<int32_t> defaults;        // per parameter: a node, or -1
  std::vector<Step> steps;              // of the schedule itself
  StagesStep stages;
  int32_t rank_slot = -1;
  std::vector<Step> rank;  // the rank block
  std::vector<NamedOrder> orders;
  std::vector<Span> places;
};

}  // namespace stringline
