#include "schedlang/text/precedence.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/text/parse.h"

namespace stringline {
namespace {

using ast::Expr;
using ast::Operator;

// The precedence of an operator; `? :` is loosest, at 0.
struct OperatorRow {
  const char* text;
  Operator op;
  int precedence;
};

constexpr int kComparison = 4;

constexpr OperatorRow kBinary[] = {
    {"or", Operator::kOr, 1},
    {"and", Operator::kAnd, 2},
    {"==", Operator::kEqual, kComparison},
    {"!=", Operator::kUnequal, kComparison},
    {"<", Operator::kLess, kComparison},
    {"<=", Operator::kLessEqual, kComparison},
    {">", Operator::kGreater, kComparison},
    {">=", Operator::kGreaterEqual, kComparison},
    {"+", Operator::kAdd, 5},
    {"-", Operator::kSubtract, 5},
    {"*", Operator::kMultiply, 6},
    {"/", Operator::kDivide, 6},
    {"%", Operator::kRemainder, 6},
};

constexpr OperatorRow kPrefix[] = {
    {"not", Operator::kNot, 3},
    {"-", Operator::kNegate, 7},
};

template <size_t n>
const OperatorRow* Find(const OperatorRow (&rows)[n], absl::string_view text) {
  for (const OperatorRow& row : rows) {
    if (text == row.text) return &row;
  }
  return nullptr;
}

// Precedence climbing over the row. After the first refusal everything returns quickly; the tree
// built so far is thrown away.
class Climber {
 public:
  explicit Climber(std::vector<RowPiece> row) : row_(std::move(row)) {}

  std::variant<Expr, Refusal> Build() {
    Expr tree = Climb(0, 1);
    if (refusal_) return *std::move(refusal_);
    return tree;
  }

 private:
  bool Ended() const { return refusal_ || next_ >= row_.size(); }

  // An expression whose operators hold at least as tightly as `loosest`.
  Expr Climb(int loosest, int depth) {
    if (depth > kDeepestNesting) RefuseDepth(row_[std::min(next_, row_.size() - 1)].span);
    if (Ended()) return Expr{};
    Expr left = Operand(depth);
    while (!Ended()) {
      const RowPiece& piece = row_[next_];
      if (piece.op == "?") {
        if (loosest > 0) break;
        left = TakeConditional(std::move(left), depth);
        continue;
      }
      const OperatorRow* row = Find(kBinary, piece.op);
      if (row == nullptr || row->precedence < loosest) break;
      const Span sign = piece.span;
      ++next_;
      Expr right = Climb(row->precedence + 1, depth + 1);
      left = Join(row->op, std::move(left), std::move(right));
      if (row->precedence == kComparison) RefuseChain(sign);
    }
    return left;
  }

  Expr Operand(int depth) {
    RowPiece& piece = row_[next_++];
    if (piece.operand) return *std::move(piece.operand);
    const OperatorRow* row = Find(kPrefix, piece.op);
    const uint32_t begin = piece.span.begin;
    Expr operand = Climb(row->precedence, depth + 1);
    Expr whole;
    whole.span = {begin, operand.span.end};
    whole.depth = 1 + operand.depth;
    whole.node = ast::Unary{row->op, std::make_unique<Expr>(std::move(operand))};
    return Bounded(std::move(whole));
  }

  // `next_` is at the '?'.
  Expr TakeConditional(Expr condition, int depth) {
    ++next_;
    Expr yes = *std::move(row_[next_++].operand);
    Expr no = Climb(0, depth + 1);
    Expr whole;
    whole.span = {condition.span.begin, no.span.end};
    whole.depth = 1 + std::max({condition.depth, yes.depth, no.depth});
    whole.node = ast::Conditional{std::make_unique<Expr>(std::move(condition)),
                                  std::make_unique<Expr>(std::move(yes)),
                                  std::make_unique<Expr>(std::move(no))};
    return Bounded(std::move(whole));
  }

  Expr Join(Operator op, Expr left, Expr right) {
    Expr whole;
    whole.span = {left.span.begin, right.span.end};
    whole.depth = 1 + std::max(left.depth, right.depth);
    whole.node = ast::Binary{op, std::make_unique<Expr>(std::move(left)),
                             std::make_unique<Expr>(std::move(right))};
    return Bounded(std::move(whole));
  }

  Expr Bounded(Expr expr) {
    if (expr.depth > kDeepestNesting) RefuseDepth(row_[next_ - 1].span);
    return expr;
  }

  void RefuseDepth(Span span) {
    if (refusal_) return;
    refusal_ =
        Refusal{Code::kTooDeep, span,
                absl::StrCat("an expression is nested more than ", kDeepestNesting, " deep here")};
  }

  void RefuseChain(Span first) {
    if (Ended()) return;
    const OperatorRow* row = Find(kBinary, row_[next_].op);
    if (row == nullptr || row->precedence != kComparison) return;
    const Span second = row_[next_].span;
    refusal_ = Refusal{Code::kChainedComparison, Span{first.begin, second.end},
                       "a comparison of a comparison; between two bounds is 'a <= b and b <= c'"};
  }

  std::vector<RowPiece> row_;
  size_t next_ = 0;
  std::optional<Refusal> refusal_;
};

}  // namespace

bool IsPrefixOperator(absl::string_view text) { return Find(kPrefix, text) != nullptr; }
bool IsBinaryOperator(absl::string_view text) { return Find(kBinary, text) != nullptr; }

std::variant<ast::Expr, Refusal> BuildTree(std::vector<RowPiece> row) {
  return Climber(std::move(row)).Build();
}

}  // namespace stringline
