// A walk over the tree of an expression. A variable is a slot in a vector, and so is a function's
// parameter: no function can call itself, so frames are not needed. An error is kept and its node
// gives 0; the caller checks failed() afterwards.
#include "schedlang/elaborate/eval.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/base/sl_check.h"

namespace stringline {
namespace {

constexpr size_t kMostValues = 8;  // in a message

const char* TextOf(Operator op) {
  switch (op) {
    case Operator::kAdd:
      return "+";
    case Operator::kSubtract:
    case Operator::kNegate:
      return "-";
    case Operator::kMultiply:
      return "*";
    case Operator::kDivide:
      return "/";
    default:
      return "%";
  }
}

}  // namespace

void AddFailure(EvalFailure failure, std::string where, Diagnostics* diagnostics) {
  Diagnostic& finding = diagnostics->Add(failure.code, failure.span, std::move(failure.text));
  finding.where = std::move(where);
  finding.notes = std::move(failure.notes);
}

EvalFailure Evaluator::TakeFailure() {
  SL_CHECK(failed());
  EvalFailure failure = *std::move(failure_);
  failure_.reset();
  return failure;
}

int64_t Evaluator::Fail(Code code, Span span, std::string text) {
  if (!failure_) failure_ = EvalFailure{code, span, std::move(text), {}};
  return 0;
}

bool Evaluator::EndAtLimit(Span span) {
  return End(span, absl::StrCat("elaboration is stopped here: more than ", steps_.limit, " steps"));
}

bool Evaluator::End(Span span, std::string why) {
  steps_.left = 0;
  Fail(Code::kTooLong, span, std::move(why));
  return false;
}

int64_t Evaluator::Evaluate(int32_t id) {
  const ExpressionNode& node = program_.nodes[id];
  if (!CountSteps(1, node.span)) return 0;
  switch (node.op) {
    case Operator::kNumber:
      return node.value;
    case Operator::kSlot:
      return slots_[node.a];
    case Operator::kCall:
      return EvaluateCall(node);
    case Operator::kMin:
    case Operator::kMax:
      return EvaluateExtreme(node);
    case Operator::kConditional:
      return Evaluate(Evaluate(node.a) != 0 ? node.b : node.c);
    case Operator::kPipeStage:
      return EvaluatePipeStage(node);
    case Operator::kNot:
      return Evaluate(node.a) == 0;
    case Operator::kOr:
      return Evaluate(node.a) != 0 || Evaluate(node.b) != 0;
    case Operator::kAnd:
      return Evaluate(node.a) != 0 && Evaluate(node.b) != 0;
    case Operator::kNegate: {
      const int64_t value = Evaluate(node.a);
      if (value != INT64_MIN) return -value;
      return Fail(Code::kOverflow, node.span, absl::StrCat("-(", value, ") overflows 64 bits"));
    }
    default:
      return EvaluateBinary(node);
  }
}

int64_t Evaluator::EvaluateBinary(const ExpressionNode& node) {
  const int64_t left = Evaluate(node.a);
  const int64_t right = Evaluate(node.b);
  if (failed()) return 0;
  int64_t result = 0;
  bool overflow = false;
  switch (node.op) {
    case Operator::kEqual:
      return left == right;
    case Operator::kUnequal:
      return left != right;
    case Operator::kLess:
      return left < right;
    case Operator::kLessEqual:
      return left <= right;
    case Operator::kGreater:
      return left > right;
    case Operator::kGreaterEqual:
      return left >= right;
    case Operator::kAdd:
      overflow = __builtin_add_overflow(left, right, &result);
      break;
    case Operator::kSubtract:
      overflow = __builtin_sub_overflow(left, right, &result);
      break;
    case Operator::kMultiply:
      overflow = __builtin_mul_overflow(left, right, &result);
      break;
    default:
      return Divide(node, left, right);
  }
  if (!overflow) return result;
  return Fail(Code::kOverflow, node.span,
              absl::StrCat(left, " ", TextOf(node.op), " ", right, " overflows 64 bits"));
}

int64_t Evaluator::Divide(const ExpressionNode& node, int64_t left, int64_t right) {
  if (right <= 0) {
    return Fail(Code::kBadDivisor, program_.nodes[node.b].span,
                absl::StrCat("the divisor in ", left, " ", TextOf(node.op), " ", right, " is ",
                             right == 0 ? "zero" : "negative", ValuesIn(node.b)));
  }
  int64_t quotient = left / right;
  int64_t rest = left % right;
  if (rest < 0) {
    rest += right;
    --quotient;
  }
  return node.op == Operator::kDivide ? quotient : rest;
}

int64_t Evaluator::EvaluateExtreme(const ExpressionNode& node) {
  int64_t best = Evaluate(program_.arguments[node.b]);
  for (int32_t i = 1; i < node.c && !failed(); ++i) {
    const int64_t value = Evaluate(program_.arguments[node.b + i]);
    best = node.op == Operator::kMin ? std::min(best, value) : std::max(best, value);
  }
  return best;
}

// All arguments are evaluated before any parameter is set: an argument may call the same function.
int64_t Evaluator::EvaluateCall(const ExpressionNode& node) {
  const Function& function = program_.functions[node.a];
  if (failed()) return 0;
  constexpr int32_t kFew = 4;
  std::array<int64_t, kFew> few;
  std::vector<int64_t> many(node.c > kFew ? node.c : 0);
  int64_t* values = node.c > kFew ? many.data() : few.data();
  for (int32_t i = 0; i < node.c; ++i) values[i] = Evaluate(program_.arguments[node.b + i]);
  if (failed()) return 0;
  std::copy(values, values + node.c, slots_.begin() + function.first_slot);
  const int64_t result = Evaluate(function.body);
  if (!failed()) return result;
  constexpr size_t kMostNotes = 4;
  if (failure_->notes.size() < kMostNotes) {
    failure_->notes.push_back(
        {node.span, absl::StrCat("in this call of '", function.name, "'"), ""});
  }
  return 0;
}

int64_t Evaluator::EvaluatePipeStage(const ExpressionNode& node) {
  const int64_t index = Evaluate(node.b);
  if (failed()) return 0;
  const Pipe& pipe = pipes_[node.a];
  if (index >= 0 && index < pipe.stages) return pipe.first_stage.value + index;
  return Fail(Code::kNoSuchStage, node.span,
              absl::StrCat("stage ", pipe.name, "[", index, "] does not exist: the stages of '",
                           pipe.name, "' are 0 .. ", pipe.stages - 1, ValuesIn(node.b)));
}

void Evaluator::CollectSlots(int32_t id, std::vector<int32_t>* slots) const {
  if (slots->size() == kMostValues) return;
  const ExpressionNode& node = program_.nodes[id];
  switch (node.op) {
    case Operator::kNumber:
      return;
    case Operator::kSlot:
      if (std::find(slots->begin(), slots->end(), node.a) == slots->end()) slots->push_back(node.a);
      return;
    case Operator::kPipeStage:
      CollectSlots(node.b, slots);
      return;
    case Operator::kCall:
    case Operator::kMin:
    case Operator::kMax:
      for (int32_t i = 0; i < node.c; ++i) CollectSlots(program_.arguments[node.b + i], slots);
      return;
    default:
      for (const int32_t child : {node.a, node.b, node.c}) {
        if (child >= 0) CollectSlots(child, slots);
      }
  }
}

std::string Evaluator::ValuesIn(int32_t node) const {
  std::vector<int32_t> slots;
  CollectSlots(node, &slots);
  std::string text;
  for (const int32_t slot : slots) {
    absl::StrAppend(&text, text.empty() ? ", with " : ", ", program_.slot_names[slot], " = ",
                    slots_[slot]);
  }
  return text;
}

}  // namespace stringline
