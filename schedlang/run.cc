#include "schedlang/run.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/rank_work.h"

namespace stringline {
namespace {

// One action of an order: what stands before it in the text is evaluated, its microbatch is not.
struct Written {
  Demand demand;
  Span span;
  bool joined = false;  // to the action before it, by '&'
};

struct OrderState {
  std::vector<Written> actions;
  size_t next = 0;
};

class Runner {
 public:
  Runner(const Program& program, int64_t padded, const ElaborateLimits& limits,
         Evaluator* evaluator, Plan* plan, Diagnostics* diagnostics)
      : program_(program),
        limits_(limits),
        evaluator_(evaluator),
        diagnostics_(diagnostics),
        work_(padded, limits, plan, diagnostics) {}

  bool RunAll(int ranks) {
    bool good = true;
    for (int rank = 0; rank < ranks && !work_.stopped(); ++rank) {
      work_.StartRank(RankId(rank));
      evaluator_->Set(program_.rank_slot, rank);
      orders_.assign(program_.orders.size(), {});
      written_ = 0;
      const bool rank_good = Run(program_.rank) && AllPerformed();
      good = rank_good && good;
      work_.EndRank();
    }
    return good;
  }

 private:
  // All of these return false when the rank cannot go on, after a finding.
  bool Run(const std::vector<Step>& steps) {
    for (const Step& step : steps) {
      if (!RunStep(step)) return false;
    }
    return true;
  }

  bool RunStep(const Step& step) {
    switch (step.kind) {
      case Step::Kind::kLet:
        evaluator_->Set(step.slot, evaluator_->Evaluate(step.node));
        return Evaluated();
      case Step::Kind::kRequire:
        return Require(step);
      case Step::Kind::kOrder:
        return WriteOrder(step);
      case Step::Kind::kRepeat:
        return Repeat(step);
      case Step::Kind::kIf:
        return RunIf(step);
      case Step::Kind::kCollective:
        return RunCollective(step);
      default:
        return RunGroup(step);
    }
  }

  bool RunCollective(const Step& step) {
    const PartStep& part = step.parts.front();
    Demand demand;
    if (!EvaluatePart(part, &demand)) return false;
    work_.PerformCollective(part.kind, demand.stage, part.place);
    return true;
  }

  bool Evaluated() {
    if (!evaluator_->failed()) return true;
    EvalFailure failure = evaluator_->TakeFailure();
    if (failure.code == Code::kTooLong) work_.Stop();
    AddFailure(std::move(failure), work_.Where(), diagnostics_);
    return false;
  }

  bool Require(const Step& step) {
    const bool holds = evaluator_->Evaluate(step.node) != 0;
    if (!Evaluated()) return false;
    if (holds) return true;
    work_.Find(Code::kRequire, step.span, absl::StrCat(step.text, evaluator_->ValuesIn(step.node)));
    return false;
  }

  bool Repeat(const Step& step) {
    const int64_t count = evaluator_->Evaluate(step.node);
    if (!Evaluated()) return false;
    if (count < 0) {
      work_.Find(Code::kNegativeCount, step.span,
                 absl::StrCat("the count is ", count, evaluator_->ValuesIn(step.node)));
      return false;
    }
    // The passes are counted before the first one, so a loop that is too long ends at once.
    if (!evaluator_->CountSteps(count, step.span)) return Evaluated();
    if (step.body.empty()) return true;
    work_.OpenLoop();
    for (int64_t i = 0; i < count; ++i) {
      work_.StartPass(i);
      if (step.slot >= 0) evaluator_->Set(step.slot, i);
      if (!Run(step.body)) return false;
    }
    work_.CloseLoop();
    return true;
  }

  bool RunIf(const Step& step) {
    for (const Step& arm : step.body) {
      const bool holds = arm.node < 0 || evaluator_->Evaluate(arm.node) != 0;
      if (!Evaluated()) return false;
      if (holds) return Run(arm.body);
    }
    return true;
  }

  bool WriteOrder(const Step& step) {
    writing_ = &orders_[step.slot];
    const bool good = Run(step.body);
    writing_ = nullptr;
    return good;
  }

  bool RunGroup(const Step& step) {
    if (writing_ == nullptr) work_.StartGroup();
    bool joined = false;
    for (const PartStep& part : step.parts) {
      if (part.order >= 0) {
        if (!TakeFrom(part)) return false;
        continue;
      }
      Demand demand;
      if (!EvaluatePart(part, &demand)) return false;
      if (writing_ == nullptr) {
        if (!work_.Perform(demand, part.place, part.span)) return false;
      } else if (!WriteDown(demand, part.span, joined)) {
        return false;
      }
      joined = true;
    }
    if (writing_ == nullptr) work_.EndGroup();
    return true;
  }

  bool EvaluatePart(const PartStep& part, Demand* demand) {
    demand->kind = part.kind;
    if (part.stage >= 0) {
      const int64_t stage = evaluator_->Evaluate(part.stage);
      if (!Evaluated()) return false;
      if (!work_.OwnsStage(stage, program_.nodes[part.stage].span,
                           evaluator_->ValuesIn(part.stage))) {
        return false;
      }
      demand->stage = StageId(static_cast<int32_t>(stage));
    }
    if (part.microbatch >= 0) {
      demand->microbatch = evaluator_->Evaluate(part.microbatch);
      return Evaluated();
    }
    return true;
  }

  bool WriteDown(const Demand& demand, Span span, bool joined) {
    if (++written_ > limits_.actions) {
      work_.StopAtActionLimit(span);
      return false;
    }
    writing_->actions.push_back({demand, span, joined});
    return true;
  }

  bool TakeFrom(const PartStep& part) {
    OrderState& order = orders_[part.order];
    if (order.next == order.actions.size()) {
      const size_t all = order.actions.size();
      work_.Find(Code::kEmptyOrder, part.span,
                 all == 0 ? absl::StrCat("order '", program_.orders[part.order].name, "' is empty")
                          : absl::StrCat("order '", program_.orders[part.order].name,
                                         "' has no action left: all ", all, " are performed"));
      return false;
    }
    do {
      const Written& written = order.actions[order.next++];
      if (!work_.Perform(written.demand, part.place, part.span, &written.span)) return false;
    } while (order.next < order.actions.size() && order.actions[order.next].joined);
    return true;
  }

  bool AllPerformed() {
    bool good = true;
    for (size_t i = 0; i < orders_.size(); ++i) {
      const size_t left = orders_[i].actions.size() - orders_[i].next;
      if (left == 0) continue;
      work_.Find(Code::kLeftInOrder, program_.orders[i].span,
                 absl::StrCat(left, " of the ", orders_[i].actions.size(), " actions of order '",
                              program_.orders[i].name, "' are never performed"));
      good = false;
    }
    return good;
  }

  const Program& program_;
  const ElaborateLimits& limits_;
  Evaluator* evaluator_;
  Diagnostics* diagnostics_;
  RankWork work_;
  std::vector<OrderState> orders_;
  OrderState* writing_ = nullptr;  // the order that is being written down
  int64_t written_ = 0;
};

}  // namespace

bool RunRanks(const Program& program, int64_t padded_microbatches, const ElaborateLimits& limits,
              Evaluator* evaluator, Plan* plan, Diagnostics* diagnostics) {
  const auto ranks = static_cast<int>(plan->parameters.front().value);
  return Runner(program, padded_microbatches, limits, evaluator, plan, diagnostics).RunAll(ranks);
}

}  // namespace stringline
