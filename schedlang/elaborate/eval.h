// Evaluates expressions: 64-bit integers, with every error found.
//
// Results that do not fit are errors; `/` rounds to minus infinity and `%` is what is left then, so
// both want a positive divisor. Comparisons, `and`, `or` and `not` give 0 or 1, and everything but
// 0 is true. `and`, `or` and `? :` evaluate only what they need.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schedlang/base/diagnostics.h"
#include "schedlang/elaborate/program.h"

namespace stringline {

struct EvalFailure {
  Code code;
  Span span;
  std::string text;
  std::vector<Note> notes;  // the calls it happened in, innermost first
};

// Makes a finding of it; `where` as in Diagnostic.
void AddFailure(EvalFailure failure, std::string where, Diagnostics* diagnostics);

// How many steps may still be made, in all that is elaborated for one plan.
struct StepBudget {
  explicit StepBudget(int64_t steps) : left(steps), limit(steps) {}
  void Allow(int64_t more) {
    left += more;
    limit += more;
  }

  int64_t left;
  int64_t limit;
};

class Evaluator {
 public:
  // Every node that is evaluated is a step. One more than `steps` has left is a failure.
  Evaluator(const Program& program, StepBudget* steps)
      : program_(program), slots_(program.slot_names.size()), steps_(*steps) {}

  // The value of a node. If the evaluation fails, 0, and failed() holds until TakeFailure().
  int64_t Evaluate(int32_t node);
  void Set(int32_t slot, int64_t value) { slots_[slot] = value; }
  // The stages of the next pipe; expressions that name it are evaluated only after this.
  void AddPipe(const Pipe& pipe) { pipes_.push_back(pipe); }

  bool failed() const { return failure_.has_value(); }
  EvalFailure TakeFailure();

  // Counts steps ahead; false, and failed(), if they are more than may still be made.
  bool CountSteps(int64_t steps, Span span) {
    if (steps > steps_.left) return Stop(span);
    steps_.left -= steps;
    return true;
  }
  // So many more may be made.
  void AllowSteps(int64_t more) { steps_.Allow(more); }

  // ", with M = 2, warmup = 4": the values the expression is made from; "" if it names none.
  std::string ValuesIn(int32_t node) const;

 private:
  bool Stop(Span span);  // there are no steps left
  int64_t Fail(Code code, Span span, std::string text);
  int64_t EvaluateBinary(const ExpressionNode& node);
  int64_t Divide(const ExpressionNode& node, int64_t left, int64_t right);
  int64_t EvaluateExtreme(const ExpressionNode& node);
  int64_t EvaluateCall(const ExpressionNode& node);
  int64_t EvaluatePipeStage(const ExpressionNode& node);
  void CollectSlots(int32_t node, std::vector<int32_t>* slots) const;

  const Program& program_;
  std::vector<int64_t> slots_;
  std::vector<Pipe> pipes_;
  StepBudget& steps_;
  std::optional<EvalFailure> failure_;
};

}  // namespace stringline
