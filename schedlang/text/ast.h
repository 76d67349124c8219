// A `.sched` file as a tree: its text before any name lookup or computation.
//
// The parser builds the tree and the elaborator reads it; no type of the grammar library appears.
// Every node bears the span for messages about it. Adding a statement: a struct here, its place
// in `Statement::node`, a rule in grammar.cc, a line in resolve.cc, a step in run.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "schedlang/base/source.h"

namespace stringline::ast {

struct Name {
  std::string text;
  Span span;
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

enum class Operator : uint8_t {
  kOr,
  kAnd,
  kNot,
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
  kNegate,
};

struct Number {
  int64_t value = 0;
};

struct Reference {
  std::string name;
};

struct Unary {
  Operator op = Operator::kNegate;
  ExprPtr operand;
};

struct Binary {
  Operator op = Operator::kAdd;
  ExprPtr left;
  ExprPtr right;
};

struct Conditional {
  ExprPtr condition;
  ExprPtr yes;
  ExprPtr no;
};

struct Call {
  Name name;
  std::vector<Expr> arguments;
};

// `down[r]`: the stage ids of a pipe.
struct Index {
  Name pipe;
  ExprPtr index;
};

struct Expr {
  Span span;
  int depth = 1;  // the tree below and with this node; at most kDeepestNesting
  std::variant<Number, Reference, Unary, Binary, Conditional, Call, Index> node;
};

struct Statement;

struct Block {
  Span open;   // its '{'
  Span close;  // its '}'
  std::vector<Statement> statements;
};

// `let name = value;`, or with parameters `let name(x, y) = value;`.
struct Let {
  Name name;
  std::vector<Name> parameters;
  Expr value;
};

// `require condition "message";`
struct Require {
  Span span;
  Expr condition;
  std::string message;
};

// `stages count on layout;`, `on reversed layout;`, `on variable -> rank;`
struct Stages {
  Span span;  // the word
  Expr count;
  bool reversed = false;
  Name layout;  // line, loop, v, wave; or the variable, if `rank` is given
  std::optional<Expr> rank;
};

// `pipe name { stages …; microbatches count; }`
struct Pipe {
  Span span;
  Name name;
  Stages stages;
  Expr microbatches;
};

// `pad microbatches to count;`
struct Pad {
  Span span;
  Expr count;
};

// `steps count;` `versions count;` `slices count;` `window count;` `slack count;` `chunks count;`
// `unshard ahead: count;`
struct Count {
  Span span;
  Name word;
  Expr count;
};

// `edges from -> to where condition, …;`
struct Edges {
  struct Row {
    Expr from;
    Expr to;
    std::optional<Expr> where;
  };
  Span span;  // the word
  std::vector<Row> rows;
};

// `skip stage @ microbatch where condition;`
struct Skip {
  Span span;  // the word
  Name stage;
  Name microbatch;
  Expr where;
};

// `forward only;`
struct ForwardOnly {
  Span span;
};

// `rank variable { … }`, and with `timetable`, `greedy` or `search` before the block
struct Rank {
  Span span;
  Name variable;
  std::optional<Name> mode;
  Block body;
};

// `order name { … }`
struct Order {
  Name name;
  Block body;
};

// `repeat count as variable { … }`
struct Repeat {
  Span span;
  Expr count;
  std::optional<Name> variable;
  Block body;
};

// `if c { … } else if d { … } else { … }`: an arm for every condition, in order.
struct If {
  struct Arm {
    Expr condition;
    Block body;
  };
  Span span;
  std::vector<Arm> arms;
  std::optional<Block> otherwise;
};

// A part of a group: an action (`letter` is F, B, I, W, R, D or U), or the name of an order, or
// with a stage that of an own action.
struct Part {
  Span span;
  char letter = 0;  // 0: the next action of the order called `name`, or the own action
  std::string name;
  std::optional<Expr> stage;  // none for a bare W
  // After the stage, in '[ ]'. Behind a name the brackets belong to the stage's expression, as
  // those of a stage of a pipe do: `F r [k]` (ExpressionResolver::ResolveStage).
  std::optional<Expr> slice;
  std::optional<Expr> microbatch;  // after '@'
};

// `a & b & …;`: a single part, or several that share the rank.
struct Group {
  std::vector<Part> parts;
};

// `unshard stage;` `reshard stage;` `reduce stage;` `update stage;`
struct Collective {
  Span span;  // with the stage
  Name word;
  Expr stage;
};

// In a timetable: `at slot : group;`
// `at slot : a & b;` `at slot : update stage;`
struct At {
  Span span;
  Expr slot;
  Group group;  // empty: the other one
  std::optional<Collective> collective;
};

struct Tighten {
  Span span;
};

// `fill W;`
struct Fill {
  Span span;
};

// In a greedy block: `hold at most count;`
struct Hold {
  Span span;
  Expr most;
};

// In a greedy or a search block: `prefer B, F;`: letters.
struct Prefer {
  Span span;
  std::vector<Name> letters;
};

// A value for every stage: `e` for all of them, `[e, e]` for each, or `variable -> e`.
struct PerStage {
  std::vector<Expr> values;  // a single value, or those of the list
  bool is_list = false;
  std::optional<Name> variable;
};

// `costs F 1, B [2, 3], p2p 1;`
struct Costs {
  struct Row {
    Name key;  // a letter, p2p, microbatch; or saved_for_I, saved_for_W, stash, input
    PerStage value;
  };
  Span span;
  std::vector<Row> rows;
};

// In a search block: `minimize makespan;`
struct Minimize {
  Span span;
  Name objective;
};

// `within activations most;` `within memory most;`
struct Within {
  Span span;
  Name limited;
  Expr most;
};

// `pairs F & B;` `pairs F & B costs 3;`
struct Pairs {
  Span span;
  std::vector<Name> letters;
  std::optional<PerStage> cost;
};

// `iterations count;`
struct Iterations {
  Span span;
  Expr count;
};

// `place v, loop 3;` `place any;`
struct Place {
  struct Row {
    Name layout;
    std::optional<Expr> turns;  // stages of a rank
  };
  Span span;
  std::vector<Row> rows;
};

// `layers count;`
struct Layers {
  Span span;
  Expr count;
};

// `overlap F & B { compute { F.attn … } network { … } }`; parts of `F & F` are `1.attn` and
// `2.attn`, of `B & B` `1.W.attn`, too.
struct Overlap {
  struct Part {
    Name place;  // a number; empty: not given
    Name letter;
    Name name;
  };
  Span span;
  std::vector<Name> letters;
  std::optional<Span> semicolon;  // instead of a block: `overlap F & F;`
  std::vector<Part> compute;
  std::vector<Part> network;
};

// `split even;` `split balanced;` `split any;` `split [3, 4];` `split s -> e;` `split "Ett|ttL";`
struct Split {
  Span span;
  std::string kind;  // even, balanced, any; empty for the other three
  PerStage layers;
  std::optional<Name> layout;  // with its quotes
};

// `recompute none;` `recompute all;` `recompute any;` `recompute [1, 0];` `recompute s -> e;`
struct Recompute {
  Span span;
  std::string kind;  // none, all, any; empty for the other two
  PerStage stages;
};

// `offload none;` `offload all;` `offload any;` in a search block
struct Offload {
  Span span;
  std::string kind;
};

// `value name of stage on host;` `on each rank`, `on rank e`
struct OwnValue {
  Span span;
  Name name;
  Name stage;
  std::string home;          // host, each, rank; empty: the stage's device
  std::optional<Expr> rank;  // after `on rank`
};

// `action name stage on lane by each rank { needs value stage, …; gives …; frees …; }`
struct OwnAction {
  struct Effect {
    Name word;  // needs, gives, frees
    struct Row {
      Name value;
      Name stage;
    };
    std::vector<Row> rows;
  };
  Span span;
  Name name;
  Name stage;
  std::optional<Name> lane;
  std::string by;  // each, all; empty: the stage's rank
  std::vector<Effect> effects;
};

struct Statement {
  std::variant<Let, Require, Stages, Pipe, Pad, Rank, Order, Repeat, If, Group, Collective, At,
               Tighten, Fill, Hold, Prefer, Costs, Minimize, Within, Pairs, Iterations, Place,
               Layers, Overlap, Split, Recompute, Offload, Count, Edges, Skip, ForwardOnly,
               OwnValue, OwnAction>
      node;
};

// A name of a schedule's header, with its default if given.
struct Option {
  Name name;
  std::optional<Expr> value;
};

// `= base(arguments) then defer W by count then recompute by count …`: the definition of a derived
// schedule, instead of a body.
struct Derived {
  struct Argument {
    std::optional<Name> name;
    Expr value;
  };
  struct Then {
    Span span;
    Name word;  // defer, recompute or offload
    Expr count;
  };
  Name base;
  std::vector<Argument> arguments;
  std::vector<Then> thens;
};

struct Schedule {
  Name name;
  std::vector<Option> parameters;
  Block body;
  std::optional<Derived> derived;
};

struct File;

// `use "path";`
struct Use {
  Span span;  // the path, with its quotes
  std::string path;
  std::shared_ptr<const File> file;  // the tree of that file, once read (text/uses.h)
};

struct File {
  std::vector<Use> uses;
  std::vector<Schedule> schedules;
};

}  // namespace stringline::ast
