// Evaluates expressions: 64-bit integers, with every error found.
//
// Results that do not fit are errors; `/` rounds to minus infinity and `%` is the remainder, so
// both want a positive divisor. Comparisons, `and`, `or` and `not` give 0 or 1, and everything but
// 0 is true. `and`, `or` and `? :` evaluate only the operands they need.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schedlang/base/diagnostics.h"
#include "schedlang/base/stop.h"
#include "schedlang/elaborate/program.h"

namespace stringline {

struct EvalFailure {
  Code code;
  Span span;
  std::string text;
  std::vector<Note> notes;  // the calls around the failure, innermost first
};

// Makes a finding of the failure; `where` as in Diagnostic.
void AddFailure(EvalFailure failure, std::string where, Diagnostics* diagnostics);

// The remaining steps, shared by all elaborations for a plan.
struct StepBudget {
  explicit StepBudget(int64_t steps, const Stop* stop_wish = nullptr)
      : left(steps), limit(steps), stop(stop_wish, 4096) {}
  void Allow(int64_t more) {
    left += more;
    limit += more;
  }

  int64_t left;
  int64_t limit;
  SparseStop stop;
};

class Evaluator {
 public:
  // Every evaluated node is a step. A step beyond those left is a failure.
  Evaluator(const Program& program, StepBudget* steps)
      : program_(program), slots_(program.slot_names.size()), steps_(*steps) {}
  // A copy that counts its steps elsewhere.
  Evaluator(const Evaluator& other, StepBudget* steps)
      : program_(other.program_), slots_(other.slots_), pipes_(other.pipes_), steps_(*steps) {}

  // The value of a node. If the evaluation fails, 0, and failed() holds until TakeFailure().
  int64_t Evaluate(int32_t node);
  void Set(int32_t slot, int64_t value) { slots_[slot] = value; }
  // The stages of the next pipe; only then may expressions that name it be evaluated.
  void AddPipe(const Pipe& pipe) { pipes_.push_back(pipe); }

  bool failed() const { return failure_.has_value(); }
  EvalFailure TakeFailure();

  // Counts steps ahead; false, and failed(), if more than are left.
  bool CountSteps(int64_t steps, Span span) {
    if (steps > steps_.left) return EndAtLimit(span);
    if (steps_.stop.IsWished()) return End(span, "elaboration was stopped here");
    steps_.left -= steps;
    return true;
  }
  // Allows so many more steps.
  void AllowSteps(int64_t more) { steps_.Allow(more); }
  const StepBudget& steps() const { return steps_; }

  // ", with M = 2, warmup = 4": the values in the expression; "" if it names none.
  std::string ValuesIn(int32_t node) const;

 private:
  bool EndAtLimit(Span span);  // fails: no steps are left
  bool End(Span span, std::string why);
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
