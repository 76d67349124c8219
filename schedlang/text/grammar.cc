// The grammar of schedule files, in Boost.Spirit X3, over tokens instead of characters.
//
//   file       = { use | schedule }
//   use        = 'use' string ';'
//   schedule   = 'schedule' name '(' option { ',' option } ')' ( block | derived )
//   derived    = '=' name '(' argument { ',' argument } ')' { then } ';'
//   then       = 'then' ( 'defer' 'W' | 'recompute' | 'offload' ) 'by' expression
//   argument   = [ name '=' ] expression
//   option     = name [ '=' expression ]
//   block      = '{' { statement } '}'
//   statement  = 'let' name [ '(' name { ',' name } ')' ] '=' expression end
//              | 'require' expression message end
//              | stages
//              | 'pipe' name '{' stages 'microbatches' expression end '}'
//              | 'pad' 'microbatches' 'to' expression end
//              | 'chunks' expression end
//              | 'unshard' 'ahead' ':' expression end
//              | ( 'steps' | 'versions' | 'slices' | 'window' | 'slack' ) expression end
//              | 'edges' edge { ',' edge } end
//              | 'skip' name '@' name 'where' expression end
//              | 'forward' 'only' end
//              | 'value' name 'of' name
//                [ 'on' ( 'host' | 'each' 'rank' | 'rank' expression ) ] end
//              | 'action' name name [ 'on' name ] [ 'by' 'each' 'rank' | 'with' 'all' 'ranks' ]
//                '{' { ( 'needs' | 'gives' | 'frees' ) value_of { ',' value_of } end } '}'
//              | 'split' ( 'even' | 'balanced' | 'any' | string | list | by_stage ) end
//              | 'recompute' ( 'none' | 'all' | 'any' | list | by_stage ) end
//              | 'offload' ( 'none' | 'all' | 'any' ) end
//              | 'overlap' letter { '&' letter } ';'
//              | 'overlap' letter { '&' letter }
//                '{' 'compute' '{' { part_name } '}' 'network' '{' { part_name } '}' '}'
//              | 'rank' name [ 'timetable' | 'greedy' | 'search' ] block
//              | 'order' name block
//              | 'repeat' expression [ 'as' name ] block
//              | 'if' expression block { 'else' 'if' expression block } [ 'else' block ]
//              | ( 'unshard' | 'reshard' | 'reduce' | 'update' ) expression end
//              | 'at' expression ':' ( group | 'update' expression end )
//              | 'tighten' end
//              | 'fill' 'W' end
//              | 'hold' 'at' 'most' expression end
//              | 'prefer' preferred { ',' preferred } end
//              | 'costs' cost { ',' cost } end
//              | 'minimize' ( 'makespan' | 'span' | 'period' ) end
//              | 'within' ( 'activations' | 'memory' ) expression end
//              | 'pairs' letter '&' letter [ 'costs' value ] end
//              | 'iterations' expression end
//              | 'place' name [ expression ] { ',' name [ expression ] } end
//              | 'layers' expression end
//              | group
//   part_name  = ( letter | number [ '.' letter ] ) '.' name
//   stages     = 'stages' expression 'on' [ 'reversed' ] name [ '->' expression ] end
//   edge       = expression '->' expression [ 'where' expression ]
//   group      = part { '&' part } end
//   part       = ( 'F' | 'B' | 'I' | 'R' | 'D' | 'U' ) of
//              | 'W' [ of ]
//              | name [ of ]
//   of         = expression [ '[' expression ']' ] [ '@' expression ]
//   value_of   = name name
//   cost       = ( letter | 'p2p' | 'microbatch' | 'saved_for_I' | 'saved_for_W' | 'stash'
//                | 'input' ) value
//   value      = list | by_stage | expression
//   list       = '[' expression { ',' expression } ']'
//   by_stage   = name '->' expression
//   end        = ';', or nothing before '}'
//   expression = operand { operator operand | '?' expression ':' operand }
//   operand    = { 'not' | '-' } ( number | name [ '(' expression { ',' expression } ')' ]
//                                | name '[' expression ']' | '(' expression ')' )
//   letter     = 'F' | 'B' | 'I' | 'W'
//   preferred  = letter | 'R'
//
// The resolver decides the place of a statement. A rule either reads a token (the terminals below)
// or builds a node from the results of its parts; spans come from the tokens.
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/text/parse.h"
#include "schedlang/text/precedence.h"
#include "schedlang/text/syntax_finding.h"
#include "schedlang/text/terminals.h"
#include "schedlang/text/tokens.h"

namespace stringline {
namespace {

namespace x3 = boost::spirit::x3;
using terminals::kAfterBareW, terminals::kBeginsStage, terminals::kSteps, terminals::kUpdate,
    terminals::kBinary, terminals::kCollective, terminals::kCostKey, terminals::kEnd,
    terminals::kFileName, terminals::kFurtherLetter, terminals::kLayout, terminals::kLayoutString,
    terminals::kLetter, terminals::kLimited, terminals::kMessage, terminals::kNewName,
    terminals::kNumberToken, terminals::kObjective, terminals::kOwnName, terminals::kPreferred,
    terminals::kPrefix, terminals::kUsedName, terminals::Position, terminals::Word;

// Semantic actions: assign a parser's result. A token turns into its span or its name.

template <typename T>
void Assign(T& from, T* to) {
  *to = std::move(from);
}

void Assign(const Token& token, Span* to) { *to = token.span; }
void Assign(const Token& token, ast::Name* to) { *to = {std::string(token.text), token.span}; }
void Assign(const Token& token, std::string* to) { *to = std::string(token.text); }

template <typename From, typename To>
void Assign(From& from, std::optional<To>* to) {
  Assign(from, &to->emplace());
}

// Assigns to a member of the rule's node.
template <auto member>
constexpr auto into =
    [](auto& context) { Assign(x3::_attr(context), &(x3::_val(context).*member)); };

// Appends to a member that is a vector.
template <auto member>
constexpr auto append =
    [](auto& context) { Assign(x3::_attr(context), &(x3::_val(context).*member).emplace_back()); };

constexpr auto kWhole = [](auto& context) { x3::_val(context) = std::move(x3::_attr(context)); };

constexpr auto kIntoNode = [](auto& context) {
  x3::_val(context).node = std::move(x3::_attr(context));
};

// Expressions.

// An expression during parsing: its pieces in a row.
struct Row {
  std::vector<RowPiece> pieces;
};

constexpr auto kAppendSign = [](auto& context) {
  const Token& token = x3::_attr(context);
  x3::_val(context).pieces.push_back({token.span, std::string(token.text), std::nullopt});
};

constexpr auto kAppendOperand = [](auto& context) {
  ast::Expr& operand = x3::_attr(context);
  const Span span = operand.span;
  x3::_val(context).pieces.push_back({span, "", std::move(operand)});
};

constexpr auto kAppendRow = [](auto& context) {
  for (RowPiece& piece : x3::_attr(context).pieces) {
    x3::_val(context).pieces.push_back(std::move(piece));
  }
};

constexpr auto kGroupRow = [](auto& context) {
  auto built = BuildTree(std::move(x3::_attr(context).pieces));
  if (auto* refusal = std::get_if<Refusal>(&built)) throw std::move(*refusal);
  x3::_val(context) = std::get<ast::Expr>(std::move(built));
};

constexpr auto kNumber = [](auto& context) {
  const Token& token = x3::_attr(context);
  int64_t value = 0;
  if (token.text.find_first_not_of("0123456789") != absl::string_view::npos) {
    throw Refusal{Code::kSyntax, token.span,
                  absl::StrCat(Describe(token), " is not a number", HintForNumber(token.text))};
  }
  if (!absl::SimpleAtoi(token.text, &value)) {
    throw Refusal{Code::kNumberTooLarge, token.span,
                  absl::StrCat("the number ", Describe(token), " does not fit into 64 bits")};
  }
  x3::_val(context) = {token.span, 1, ast::Number{value}};
};

constexpr auto kReference = [](auto& context) {
  const Token& token = x3::_attr(context);
  x3::_val(context) = {token.span, 1, ast::Reference{std::string(token.text)}};
};

// The reference turns out to be a call: its first argument was read.
constexpr auto kArgument = [](auto& context) {
  ast::Expr& call = x3::_val(context);
  if (auto* reference = std::get_if<ast::Reference>(&call.node)) {
    call.node = ast::Call{{std::move(reference->name), call.span}, {}};
  }
  ast::Expr& argument = x3::_attr(context);
  call.depth = std::max(call.depth, argument.depth + 1);
  std::get<ast::Call>(call.node).arguments.push_back(std::move(argument));
};

// The reference turns out to be a stage of a pipe.
constexpr auto kIndex = [](auto& context) {
  ast::Expr& whole = x3::_val(context);
  std::string name = std::move(std::get<ast::Reference>(whole.node).name);
  ast::Expr& index = x3::_attr(context);
  whole.depth = index.depth + 1;
  whole.node =
      ast::Index{{std::move(name), whole.span}, std::make_unique<ast::Expr>(std::move(index))};
};

constexpr auto kOpen = [](auto& context) {
  x3::_val(context).span.begin = x3::_attr(context).span.begin;
};

constexpr auto kInner = [](auto& context) {
  const uint32_t begin = x3::_val(context).span.begin;
  x3::_val(context) = std::move(x3::_attr(context));
  x3::_val(context).span.begin = begin;
};

constexpr auto kClose = [](auto& context) {
  x3::_val(context).span.end = x3::_attr(context).span.end;
};

const x3::rule<struct ExpressionTag, ast::Expr> expression = "an expression";
const x3::rule<struct RowTag, Row> row = "an expression";
const x3::rule<struct OperandTag, Row> operand = "an expression";
const x3::rule<struct PrimaryTag, ast::Expr> primary = "an expression";
const x3::rule<struct NumberTag, ast::Expr> number = "a number";
const x3::rule<struct ReferenceTag, ast::Expr> reference = "a name";
const x3::rule<struct ParenthesesTag, ast::Expr> parentheses = "an expression";

// clang-format off
const auto expression_def = row[kGroupRow];

const auto row_def =
    operand[kAppendRow] >>
    *((Word("?")[kAppendSign] > expression[kAppendOperand] > Word(":") > operand[kAppendRow]) |
      (kBinary[kAppendSign] > operand[kAppendRow]));

const auto operand_def = *kPrefix[kAppendSign] >> primary[kAppendOperand];

const auto primary_def = number[kWhole] | reference[kWhole] | parentheses[kWhole];

const auto number_def = kNumberToken[kNumber];

const auto reference_def =
    kUsedName[kReference] >>
    -((Word("(") > expression[kArgument] > *(Word(",") > expression[kArgument]) >
       Word(")")[kClose]) |
      (Word("[") > expression[kIndex] > Word("]")[kClose]));

const auto parentheses_def = Word("(")[kOpen] > expression[kInner] > Word(")")[kClose];
// clang-format on

BOOST_SPIRIT_DEFINE(expression, row, operand, primary, number, reference, parentheses)

// Statements.

std::string Unquoted(const Token& token) {
  return std::string(token.text.substr(1, token.text.size() - 2));
}

constexpr auto kMessageText = [](auto& context) {
  x3::_val(context).message = Unquoted(x3::_attr(context));
};

constexpr auto kUsedPath = [](auto& context) {
  x3::_val(context).span = x3::_attr(context).span;
  x3::_val(context).path = Unquoted(x3::_attr(context));
};

constexpr auto kList = [](auto& context) { x3::_val(context).is_list = true; };

constexpr auto kReversed = [](auto& context) { x3::_val(context).reversed = true; };

constexpr auto kActionLetter = [](auto& context) {
  x3::_val(context).span = x3::_attr(context).span;
  x3::_val(context).letter = x3::_attr(context).text[0];
};

// An expression of an action extends the action's span to its end.
template <auto member>
constexpr auto extend = [](auto& context) {
  x3::_val(context).span.end = x3::_attr(context).span.end;
  Assign(x3::_attr(context), &(x3::_val(context).*member));
};

constexpr auto kOrderName = [](auto& context) {
  x3::_val(context).span = x3::_attr(context).span;
  x3::_val(context).name = std::string(x3::_attr(context).text);
};

// A node with nothing but a span.
constexpr auto kOnlySpan = [](auto& context) { x3::_val(context).span = x3::_attr(context).span; };

constexpr auto kHome = [](auto& context) {
  x3::_val(context).home = std::string(x3::_attr(context).text);
};

constexpr auto kBy = [](auto& context) {
  x3::_val(context).by = std::string(x3::_attr(context).text);
};

using ast::At, ast::Block, ast::Collective, ast::Costs, ast::Count, ast::Derived, ast::File,
    ast::Fill, ast::Edges, ast::ForwardOnly, ast::Skip, ast::Group, ast::Hold, ast::If,
    ast::Iterations, ast::Layers, ast::Let, ast::Minimize, ast::Offload, ast::Option, ast::Order,
    ast::OwnAction, ast::OwnValue, ast::Overlap, ast::Pad, ast::Pairs, ast::Part, ast::PerStage,
    ast::Pipe, ast::Place, ast::Prefer, ast::Rank, ast::Recompute, ast::Repeat, ast::Require,
    ast::Schedule, ast::Split, ast::Stages, ast::Statement, ast::Tighten, ast::Use, ast::Within;

const x3::rule<struct BlockTag, Block> block = "'{'";
const x3::rule<struct StatementTag, Statement> statement = "a statement";
const x3::rule<struct LetTag, Let> let = "'let'";
const x3::rule<struct RequireTag, Require> require = "'require'";
const x3::rule<struct StagesTag, Stages> stages = "'stages'";
const x3::rule<struct PipeTag, Pipe> pipe = "'pipe'";
const x3::rule<struct PadTag, Pad> pad = "'pad'";
const x3::rule<struct ChunksTag, Count> chunks = "'chunks'";
const x3::rule<struct AheadTag, Count> ahead = "'unshard'";
const x3::rule<struct StepsTag, Count> steps = "'steps'";
const x3::rule<struct EdgeTag, Edges::Row> edge = "an edge";
const x3::rule<struct EdgesTag, Edges> edges = "'edges'";
const x3::rule<struct SkipTag, Skip> skip = "'skip'";
const x3::rule<struct ForwardOnlyTag, ForwardOnly> forward_only = "'forward only'";
const x3::rule<struct OwnValueTag, OwnValue> own_value = "'value'";
const x3::rule<struct EffectRowTag, OwnAction::Effect::Row> effect_row = "a value";
const x3::rule<struct EffectTag, OwnAction::Effect> effect = "'needs', 'gives' or 'frees'";
const x3::rule<struct OwnActionTag, OwnAction> own_action = "'action'";
const x3::rule<struct ListTag, PerStage> list =
    "'even', 'balanced', 'any', a list in '[ ]', 's -> e' or a layout in quotes";
const x3::rule<struct ByStageTag, PerStage> by_stage = "a name";
const x3::rule<struct ForAllTag, PerStage> for_all = "an expression";
const x3::rule<struct SplitTag, Split> split = "'split'";
const x3::rule<struct RecomputeTag, Recompute> recompute = "'recompute'";
const x3::rule<struct OffloadTag, Offload> offload = "'offload'";
const x3::rule<struct OverlapPartTag, Overlap::Part> overlap_part = "an action";
const x3::rule<struct OverlapTag, Overlap> overlap = "'overlap'";
const x3::rule<struct RankTag, Rank> rank = "'rank'";
const x3::rule<struct OrderTag, Order> order = "'order'";
const x3::rule<struct RepeatTag, Repeat> repeat = "'repeat'";
const x3::rule<struct ArmTag, If::Arm> arm = "an expression";
const x3::rule<struct IfTag, If> if_else = "'if'";
const x3::rule<struct PartTag, Part> part = "an action";
const x3::rule<struct GroupTag, Group> group = "an action";
const x3::rule<struct CollectiveTag, Collective> collective = "an action";
const x3::rule<struct AtTag, At> at = "'at'";
const x3::rule<struct TightenTag, Tighten> tighten = "'tighten'";
const x3::rule<struct FillTag, Fill> fill = "'fill'";
const x3::rule<struct HoldTag, Hold> hold = "'hold'";
const x3::rule<struct PreferTag, Prefer> prefer = "'prefer'";
const x3::rule<struct CostTag, Costs::Row> cost =
    "an action, 'p2p', 'microbatch', 'saved_for_I', 'saved_for_W', 'stash' or 'input'";
const x3::rule<struct MinimizeTag, Minimize> minimize = "'minimize'";
const x3::rule<struct WithinTag, Within> within = "'within'";
const x3::rule<struct PairsTag, Pairs> pairs = "'pairs'";
const x3::rule<struct IterationsTag, Iterations> iterations = "'iterations'";
const x3::rule<struct PlaceRowTag, Place::Row> place_row = "a layout";
const x3::rule<struct PlaceTag, Place> place = "'place'";
const x3::rule<struct LayersTag, Layers> layers = "'layers'";
const x3::rule<struct CostsTag, Costs> costs = "'costs'";
const x3::rule<struct OrderRuleTag, Statement> order_rule = "a statement";
const x3::rule<struct EndOfStatementTag> end = "';'";
const x3::rule<struct ArgumentTag, Derived::Argument> argument = "an expression";
const x3::rule<struct ThenTag, Derived::Then> then = "'then'";
const x3::rule<struct DerivedTag, Derived> derived = "'='";
const x3::rule<struct OptionTag, Option> option = "a name";
const x3::rule<struct ScheduleTag, Schedule> schedule = "'schedule'";
const x3::rule<struct UseTag, Use> use = "'use'";
const x3::rule<struct FileTag, File> file = "'schedule'";

// clang-format off
const auto end_def = x3::omit[Word(";")] | &Word("}");

const auto block_def =
    Word("{")[into<&Block::open>] >
    *statement[append<&Block::statements>] >
    Word("}", "a statement or '}'")[into<&Block::close>];

const auto let_def =
    Word("let") > kNewName[into<&Let::name>] >
    -(Word("(") > kNewName[append<&Let::parameters>] >
      *(Word(",") > kNewName[append<&Let::parameters>]) > Word(")")) >
    Word("=") > expression[into<&Let::value>] > end;

const auto require_def =
    Word("require")[into<&Require::span>] > expression[into<&Require::condition>] >
    kMessage[kMessageText] > end;

const auto stages_def =
    Word("stages")[into<&Stages::span>] > expression[into<&Stages::count>] > Word("on") >
    -((Word("reversed") >> !Word("->"))[kReversed]) > kLayout[into<&Stages::layout>] >
    -(Word("->") > expression[into<&Stages::rank>]) > end;

const auto pipe_def =
    Word("pipe")[into<&Pipe::span>] > kNewName[into<&Pipe::name>] > Word("{") >
    x3::expect[stages[into<&Pipe::stages>]] > Word("microbatches") >
    expression[into<&Pipe::microbatches>] > end > Word("}");

const auto list_def =
    Word("[")[kList] > expression[append<&PerStage::values>] >
    *(Word(",") > expression[append<&PerStage::values>]) > Word("]");

const auto by_stage_def =
    (kNewName >> &Word("->"))[into<&PerStage::variable>] > Word("->") >
    expression[append<&PerStage::values>];

const auto for_all_def = x3::expect[expression[append<&PerStage::values>]];

const auto split_def =
    Word("split")[into<&Split::span>] >
    (by_stage[into<&Split::layers>] | Word("even")[into<&Split::kind>] |
     Word("balanced")[into<&Split::kind>] | Word("any")[into<&Split::kind>] |
     kLayoutString[into<&Split::layout>] | x3::expect[list[into<&Split::layers>]]) > end;

const auto recompute_def =
    Word("recompute")[into<&Recompute::span>] >
    (by_stage[into<&Recompute::stages>] | Word("none")[into<&Recompute::kind>] |
     Word("all")[into<&Recompute::kind>] | Word("any")[into<&Recompute::kind>] |
     x3::expect[list[into<&Recompute::stages>]]) > end;

// An order may have this name, so without one of the three words it is no such statement.
const auto offload_def =
    Word("offload")[into<&Offload::span>] >>
    (Word("none")[into<&Offload::kind>] | Word("all")[into<&Offload::kind>] |
     Word("any")[into<&Offload::kind>]) > end;

const auto overlap_part_def =
    (kLetter[into<&Overlap::Part::letter>] |
     (kNumberToken[into<&Overlap::Part::place>] >>
      -(Word(".") >> kLetter[into<&Overlap::Part::letter>]))) > Word(".") >
    kUsedName[into<&Overlap::Part::name>];

const auto overlap_def =
    Word("overlap")[into<&Overlap::span>] > kLetter[append<&Overlap::letters>] >
    *(Word("&") > kLetter[append<&Overlap::letters>]) >
    (Word(";")[into<&Overlap::semicolon>] |
     (Word("{", "';' or '{'") >
      Word("compute") > Word("{") > *overlap_part[append<&Overlap::compute>] >
      Word("}", "an action or '}'") >
      Word("network") > Word("{") > *overlap_part[append<&Overlap::network>] >
      Word("}", "an action or '}'") > Word("}")));

const auto pad_def =
    Word("pad")[into<&Pad::span>] > Word("microbatches") > Word("to") >
    expression[into<&Pad::count>] > end;

const auto chunks_def =
    Word("chunks")[into<&Count::word>][kOnlySpan] > expression[into<&Count::count>] > end;

const auto ahead_def =
    Word("unshard")[into<&Count::word>][kOnlySpan] >> Word("ahead") >> Word(":") >
    expression[into<&Count::count>] > end;

// Words that are free as names: behind them stands a number, or a stage.
const auto steps_def =
    (&(kSteps >> !kAfterBareW) >> kSteps[into<&Count::word>][kOnlySpan]) >
    expression[into<&Count::count>] > end;

const auto edge_def =
    expression[into<&Edges::Row::from>] > Word("->") > expression[into<&Edges::Row::to>] >
    -(Word("where") > expression[into<&Edges::Row::where>]);

// An order may have this name.
const auto edges_def =
    (&(Word("edges") >> !kAfterBareW) >> Word("edges")[into<&Edges::span>]) >
    x3::expect[edge[append<&Edges::rows>]] > *(Word(",") > x3::expect[edge[append<&Edges::rows>]]) >
    end;

// An order may have this name.
const auto skip_def =
    (&(Word("skip") >> kNewName >> Word("@")) >> Word("skip")[into<&Skip::span>]) >
    kNewName[into<&Skip::stage>] > Word("@") > kNewName[into<&Skip::microbatch>] > Word("where") >
    expression[into<&Skip::where>] > end;

// An order may have this name.
const auto forward_only_def =
    Word("forward")[into<&ForwardOnly::span>] >> Word("only") > end;

const auto own_value_def =
    (&(Word("value") >> kNewName >> Word("of")) >> Word("value")[into<&OwnValue::span>]) >
    kNewName[into<&OwnValue::name>] > Word("of") > kNewName[into<&OwnValue::stage>] >
    -(Word("on") > (Word("host")[kHome] | (Word("each")[kHome] > Word("rank")) |
                    (Word("rank", "'host', 'each rank' or 'rank'")[kHome] >
                     expression[into<&OwnValue::rank>]))) > end;

const auto effect_row_def =
    kNewName[into<&OwnAction::Effect::Row::value>] > kNewName[into<&OwnAction::Effect::Row::stage>];

const auto effect_def =
    (Word("needs")[into<&OwnAction::Effect::word>] | Word("gives")[into<&OwnAction::Effect::word>] |
     Word("frees")[into<&OwnAction::Effect::word>]) >
    effect_row[append<&OwnAction::Effect::rows>] >
    *(Word(",") > effect_row[append<&OwnAction::Effect::rows>]) > end;

const auto own_action_def =
    (&(Word("action") >> kNewName >> kNewName) >> Word("action")[into<&OwnAction::span>]) >
    kNewName[into<&OwnAction::name>] > kNewName[into<&OwnAction::stage>] >
    -(Word("on") > kNewName[into<&OwnAction::lane>]) >
    -((Word("by") > Word("each")[kBy] > Word("rank")) |
      (Word("with") > Word("all")[kBy] > Word("ranks"))) >
    Word("{", "'on', 'by each rank', 'with all ranks' or '{'") >
    *effect[append<&OwnAction::effects>] > Word("}", "'needs', 'gives', 'frees' or '}'");

const auto rank_def =
    Word("rank")[into<&Rank::span>] > kNewName[into<&Rank::variable>] >
    -(Word("timetable")[into<&Rank::mode>] | Word("greedy")[into<&Rank::mode>] |
      Word("search")[into<&Rank::mode>]) >
    block[into<&Rank::body>];

const auto order_def = Word("order") > kNewName[into<&Order::name>] > block[into<&Order::body>];

const auto repeat_def =
    Word("repeat")[into<&Repeat::span>] > expression[into<&Repeat::count>] >
    -(Word("as") > kNewName[into<&Repeat::variable>]) >
    block[into<&Repeat::body>];

const auto arm_def = expression[into<&If::Arm::condition>] > block[into<&If::Arm::body>];

const auto if_else_def =
    Word("if")[into<&If::span>] > arm[append<&If::arms>] >
    *((Word("else") >> Word("if")) > arm[append<&If::arms>]) >
    -(Word("else") > block[into<&If::otherwise>]);

const auto stage_and_microbatch =
    x3::expect[expression[extend<&Part::stage>]] >>
    -(Word("[") > expression[extend<&Part::slice>] > Word("]")[kClose]) >>
    -(Word("@") > expression[extend<&Part::microbatch>]);

const auto part_def =
    (Word("W")[kActionLetter] >> (&kAfterBareW | stage_and_microbatch)) |
    (kLetter[kActionLetter] >> stage_and_microbatch) |
    (&(kFurtherLetter >> !kAfterBareW) >> kFurtherLetter[kActionLetter] >> stage_and_microbatch) |
    (&(kOwnName >> kBeginsStage) >> kOwnName[kOrderName] >> stage_and_microbatch) |
    kUsedName[kOrderName];

const auto group_def =
    (part[append<&Group::parts>] >> *(Word("&") > part[append<&Group::parts>])) > end;

const auto collective_def =
    (kCollective[into<&Collective::word>][kOnlySpan] |
     (&(kUpdate >> !kAfterBareW) >> kUpdate[into<&Collective::word>][kOnlySpan])) >
    expression[extend<&Collective::stage>] > end;

const auto at_def =
    Word("at")[into<&At::span>] > expression[into<&At::slot>] > Word(":") >
    (collective[into<&At::collective>] | x3::expect[group[into<&At::group>]]);

const auto tighten_def = Word("tighten")[into<&Tighten::span>] > end;

const auto fill_def = Word("fill")[into<&Fill::span>] > Word("W") > end;

const auto hold_def =
    Word("hold")[into<&Hold::span>] > Word("at") > Word("most") > expression[into<&Hold::most>] >
    end;

const auto prefer_def =
    Word("prefer")[into<&Prefer::span>] > kPreferred[append<&Prefer::letters>] >
    *(Word(",") > kPreferred[append<&Prefer::letters>]) > end;

const auto cost_def =
    kCostKey[into<&Costs::Row::key>] >
    (list[into<&Costs::Row::value>] | by_stage[into<&Costs::Row::value>] |
     for_all[into<&Costs::Row::value>]);

const auto costs_def =
    Word("costs")[into<&Costs::span>] > cost[append<&Costs::rows>] >
    *(Word(",") > cost[append<&Costs::rows>]) > end;

const auto minimize_def =
    Word("minimize")[into<&Minimize::span>] > kObjective[into<&Minimize::objective>] > end;

const auto within_def =
    Word("within")[into<&Within::span>] > kLimited[into<&Within::limited>] >
    expression[into<&Within::most>] > end;

const auto pairs_def =
    Word("pairs")[into<&Pairs::span>] > kLetter[append<&Pairs::letters>] > Word("&") >
    kLetter[append<&Pairs::letters>] >
    -(Word("costs") >
      (list[into<&Pairs::cost>] | by_stage[into<&Pairs::cost>] | for_all[into<&Pairs::cost>])) >
    end;

const auto iterations_def =
    Word("iterations")[into<&Iterations::span>] > expression[into<&Iterations::count>] > end;

const auto place_row_def =
    kLayout[into<&Place::Row::layout>] >> -expression[into<&Place::Row::turns>];

const auto place_def =
    Word("place")[into<&Place::span>] > place_row[append<&Place::rows>] >
    *(Word(",") > place_row[append<&Place::rows>]) > end;

const auto layers_def =
    Word("layers")[into<&Layers::span>] > expression[into<&Layers::count>] > end;

const auto in_schedule =
    let[kIntoNode] | require[kIntoNode] | stages[kIntoNode] | pipe[kIntoNode] | pad[kIntoNode] |
    chunks[kIntoNode] | ahead[kIntoNode] | steps[kIntoNode] | edges[kIntoNode] |
    skip[kIntoNode] | forward_only[kIntoNode] | split[kIntoNode] | recompute[kIntoNode] |
    overlap[kIntoNode] | rank[kIntoNode] | own_value[kIntoNode] | own_action[kIntoNode];

// A separate parser, so that nested blocks take less of the stack.
const auto order_rule_def =
    tighten[kIntoNode] | fill[kIntoNode] | hold[kIntoNode] | prefer[kIntoNode] |
    costs[kIntoNode] | minimize[kIntoNode] | within[kIntoNode] | pairs[kIntoNode] |
    iterations[kIntoNode] | place[kIntoNode] | layers[kIntoNode] | offload[kIntoNode];

const auto in_rank =
    order[kIntoNode] | repeat[kIntoNode] | if_else[kIntoNode] | collective[kIntoNode] |
    at[kIntoNode] | order_rule[kWhole] | group[kIntoNode];

const auto statement_def = in_schedule | in_rank;

const auto argument_def =
    -((kUsedName >> &Word("="))[into<&Derived::Argument::name>] > Word("=")) >>
    x3::expect[expression[into<&Derived::Argument::value>]];

const auto then_def =
    Word("then")[into<&Derived::Then::span>] >
    ((Word("defer")[into<&Derived::Then::word>] > Word("W")) |
     Word("recompute")[into<&Derived::Then::word>] |
     x3::expect[Word("offload", "'defer', 'recompute' or 'offload'")[into<&Derived::Then::word>]]) >
    Word("by") > expression[into<&Derived::Then::count>];

const auto derived_def =
    Word("=") > kUsedName[into<&Derived::base>] > Word("(") >
    argument[append<&Derived::arguments>] > *(Word(",") > argument[append<&Derived::arguments>]) >
    Word(")") > *then[append<&Derived::thens>] > Word(";", "'then' or ';'");

const auto option_def =
    kNewName[into<&Option::name>] >> -(Word("=") > expression[into<&Option::value>]);

const auto schedule_def =
    Word("schedule") > kNewName[into<&Schedule::name>] >
    Word("(") > option[append<&Schedule::parameters>] >
    *(Word(",") > option[append<&Schedule::parameters>]) > Word(")") >
    (derived[into<&Schedule::derived>] | x3::expect[block[into<&Schedule::body>]]);

const auto use_def = Word("use") > kFileName[kUsedPath] > Word(";");

const auto file_def = *(use[append<&File::uses>] | schedule[append<&File::schedules>]) > kEnd;
// clang-format on

BOOST_SPIRIT_DEFINE(block, statement, let, require, stages, pipe, pad, chunks, ahead, steps, edge,
                    edges, skip, forward_only, list, by_stage, for_all, own_value, effect_row,
                    effect, own_action, split, recompute, offload, overlap_part, overlap, rank,
                    order, repeat, arm, if_else, part, group, collective, at, tighten, fill, hold,
                    prefer, cost, costs, minimize, within, pairs, iterations, place_row, place,
                    layers, order_rule, end, option, argument, then, derived, schedule, use, file)

}  // namespace

std::optional<ast::File> Parse(const Source& source, Diagnostics* diagnostics,
                               uint32_t first_offset) {
  const std::vector<Token> tokens = Tokenize(source.text(), first_offset);
  if (const Token* deep = FirstTooDeep(tokens, kDeepestNesting)) {
    diagnostics->Add(Code::kTooDeep, deep->span,
                     absl::StrCat("nested more than ", kDeepestNesting, " deep here"));
    return std::nullopt;
  }
  ast::File result;
  try {
    Position first = tokens.begin();
    const bool parsed = x3::parse(first, tokens.end(), file, result);
    SL_CHECK(parsed) << "a file is refused only by an expectation";
  } catch (const x3::expectation_failure<Position>& failure) {
    const size_t index = failure.where() - tokens.begin();
    AddSyntaxFinding(tokens, index, failure.which(), diagnostics);
    return std::nullopt;
  } catch (const Refusal& refusal) {
    diagnostics->Add(refusal.code, refusal.span, refusal.text);
    return std::nullopt;
  }
  if (result.schedules.empty()) {
    AddSyntaxFinding(tokens, tokens.size() - 1, "'schedule'", diagnostics);
    return std::nullopt;
  }
  return result;
}

}  // namespace stringline
