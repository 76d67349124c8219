// An interpreter of the rank block. A sequence performs its actions as it goes, on many ranks some
// of them at once. A timetable collects them, and numbers them in the order of their slots. A
// greedy or search block only gives rules, and all ranks are put in order together at the end.
#include "schedlang/elaborate/run.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/base/kept_memory.h"
#include "schedlang/base/threads.h"
#include "schedlang/elaborate/block_rules.h"
#include "schedlang/elaborate/rank_work.h"
#include "schedlang/orders/timetable.h"

namespace stringline {
namespace {

// An action of an order: its expressions are evaluated, its microbatch is not yet counted.
struct Written {
  Demand demand;
  Span span;
  bool joined = false;  // to the preceding action, by '&'
};

struct OrderState {
  std::vector<Written> actions;
  size_t next = 0;

  void Clear() {
    actions.clear();
    next = 0;
  }
};

// An action of a timetable without its number.
struct TimedDemand {
  int64_t slot = 0;
  Demand demand;
  Span span;
  uint32_t place = 0;
  bool joined = false;
  int32_t iteration = -1;
};

// An action of an order takes memory, and so counts as several steps.
constexpr int64_t kStepsToKeep = 5;

// Drops actions past the last microbatch of their pipe. The rest of a group stays.
void DropPadding(Plan* plan) {
  std::vector<uint32_t> first = {0};
  uint32_t to = 0;
  for (int r = 0; r < plan->ranks(); ++r) {
    bool kept = false;  // a part of the group
    for (uint32_t i = plan->first[r]; i < plan->first[r + 1]; ++i) {
      Action action = plan->actions[i];
      if (!action.joined) kept = false;
      if (IsOfMicrobatch(action.kind) &&
          action.microbatch.value >= plan->microbatches_of(action.stage)) {
        continue;
      }
      action.joined = kept;
      kept = true;
      plan->actions[to++] = action;
    }
    first.push_back(to);
  }
  plan->actions.resize(to);
  plan->first = std::move(first);
}

class Runner {
 public:
  Runner(const Program& program, int64_t padded, const ElaborateLimits& limits,
         Evaluator* evaluator, Plan* plan, Diagnostics* diagnostics)
      : program_(program),
        limits_(limits),
        evaluator_(evaluator),
        plan_(plan),
        diagnostics_(diagnostics),
        padded_(padded),
        work_(padded, limits, plan, diagnostics),
        rules_(program, limits, evaluator, &work_, plan, diagnostics) {}

  bool RunAll(int ranks) {
    const int microbatches = plan_->microbatches;
    // A timetable is filled before padding is dropped.
    if (program_.mode == RankMode::kTimetable) plan_->microbatches = static_cast<int>(padded_);
    const bool good = RunRanksInTurn(0, ranks) && Finish();
    plan_->microbatches = microbatches;
    if (good && program_.mode != RankMode::kSequence) DropPadding(plan_);
    return good;
  }

  // The ranks from `first` to before `end`.
  bool RunRanksInTurn(int first, int end) {
    bool good = true;
    orders_.resize(program_.orders.size());
    for (int rank = first; rank < end && !work_.stopped(); ++rank) {
      work_.StartRank(RankId(rank));
      evaluator_->Set(program_.rank_slot, rank);
      for (OrderState& order : orders_) order.Clear();
      written_ = 0;
      timed_.clear();
      rules_.StartRank();
      const bool rank_good = Run(program_.rank) && NumberTimed() && AllPerformed();
      good = rank_good && good;
      work_.EndRank();
    }
    return good;
  }

 private:
  // Decides the order for all ranks together.
  bool Finish() {
    if (program_.mode == RankMode::kTimetable) {
      if (!SlotsFit()) return false;
      Timetable timetable{plan_->first, std::move(plan_->actions), std::move(slots_)};
      if (tighten_ && !TightenOrFind(&timetable)) return false;
      if (fill_ && !FillOrFind(&timetable)) return false;
      plan_->first = std::move(timetable.first);
      plan_->actions = std::move(timetable.actions);
    }
    const bool by_rules = program_.mode == RankMode::kGreedy || program_.mode == RankMode::kSearch;
    return !by_rules || rules_.OrderRanks(padded_);
  }

  // Each returns false, after a finding, if the rank cannot go on.
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
      case Step::Kind::kAt:
        return RunAt(step);
      case Step::Kind::kTighten:
        tighten_ = step.span;
        return true;
      case Step::Kind::kFill:
        fill_ = step.span;
        return true;
      case Step::Kind::kGroup:
        return RunGroup(step);
      default:
        return rules_.Take(step);
    }
  }

  bool RunAt(const Step& step) {
    const int64_t slot = evaluator_->Evaluate(step.node);
    if (!Evaluated()) return false;
    bool joined = false;
    for (const PartStep& part : step.parts) {
      TimedDemand timed{.slot = slot, .span = part.span, .place = part.place, .joined = joined};
      if (!EvaluatePart(part, &timed.demand) || !Count(kStepsToKeep, part.span)) return false;
      timed.iteration = work_.CurrentIteration();
      timed_.push_back(timed);
      joined = true;
      if (static_cast<int64_t>(timed_.size()) <= limits_.actions) continue;
      work_.StopAtActionLimit(part.span);
      return false;
    }
    return true;
  }

  // Counts microbatches in the order of the slots.
  bool NumberTimed() {
    std::stable_sort(timed_.begin(), timed_.end(),
                     [](const TimedDemand& a, const TimedDemand& b) { return a.slot < b.slot; });
    for (size_t i = 0; i < timed_.size(); ++i) {
      const TimedDemand& timed = timed_[i];
      work_.SetIteration(timed.iteration);
      if (i > 0 && !timed.joined) {
        if (timed.slot == timed_[i - 1].slot) return SlotTaken(timed, timed_[i - 1]);
        work_.EndGroup();
      }
      const bool updates = timed.demand.kind == ActionKind::kUpdate;
      if (!timed.joined && !updates) work_.StartGroup();
      if (!Count(1, timed.span)) return false;
      if (updates ? !work_.PerformUpdate(timed.demand.stage, timed.place, timed.span)
                  : !work_.Perform(timed.demand, timed.place, timed.span)) {
        return false;
      }
      slots_.resize(plan_->actions.size(), timed.slot);
    }
    work_.EndGroup();
    work_.SetIteration(std::nullopt);
    return true;
  }

  bool FillOrFind(Timetable* timetable) {
    if (!plan_->forward_only) {
      FillWeightGradients(timetable);
      return true;
    }
    diagnostics_->Add(Code::kMisplaced, *fill_, "'fill W' in a schedule that is forward only")
        .where = PrintParameters(*plan_);
    return false;
  }

  bool TightenOrFind(Timetable* timetable) {
    const char* const why =
        plan_->forward_only
            ? "'tighten' in a schedule that is forward only: it moves actions by their memory"
        : plan_->slices > 1
            ? "'tighten' moves whole microbatches, and these have slices; write the slots so that "
              "none is left free"
            : nullptr;
    if (why != nullptr) {
      diagnostics_->Add(Code::kMisplaced, *tighten_, why).where = PrintParameters(*plan_);
      return false;
    }
    // A block of a few slots, repeated M times and begun a little later on every rank, is a row of
    // some slots for each microbatch and rank.
    const auto actions = static_cast<int64_t>(timetable->actions.size());
    const int64_t most = 10 * limits_.steps + 100 * actions * (plan_->ranks() + padded_);
    if (Tighten(*plan_, most, timetable)) return true;
    diagnostics_
        ->Add(Code::kTooLong, *tighten_,
              absl::StrCat("tightening is stopped here: it looks at more than ", most, " slots"))
        .where = PrintParameters(*plan_);
    return false;
  }

  // Checks that every rank's slots fit into a row from the first slot of all ranks.
  bool SlotsFit() {
    if (slots_.empty()) return true;
    const auto [first, last] = std::minmax_element(slots_.begin(), slots_.end());
    const auto span_of = [this](int64_t index) {
      return SpanOf(*plan_, plan_->actions[static_cast<size_t>(index)]);
    };
    const auto after = [first = *first](int64_t slot) {
      return static_cast<uint64_t>(slot) - static_cast<uint64_t>(first);
    };
    const uint64_t most = 1'000'000 + 1'000 * static_cast<uint64_t>(padded_);
    if (after(*last) > most) {
      diagnostics_
          ->Add(Code::kBadRule, span_of(last - slots_.begin()),
                absl::StrCat("slot ", *last, " is more than ", most, " after slot ", *first))
          .where = PrintParameters(*plan_);
      return false;
    }
    for (int r = 0; r < plan_->ranks(); ++r) {
      const uint32_t end = plan_->first[r + 1];
      if (end == plan_->first[r]) continue;
      if (!Count(static_cast<int64_t>(after(slots_[end - 1])), span_of(end - 1))) return false;
    }
    return true;
  }

  bool SlotTaken(const TimedDemand& timed, const TimedDemand& before) {
    Diagnostic& finding = work_.Find(Code::kSlotTaken, timed.span,
                                     absl::StrCat("slot ", timed.slot, " is taken already"));
    Action earlier;
    earlier.iteration = before.iteration;
    finding.notes.push_back({before.span, "by this one", WhereOf(*plan_, earlier)});
    return false;
  }

  bool RunCollective(const Step& step) {
    const PartStep& part = step.parts.front();
    Demand demand;
    if (!EvaluatePart(part, &demand)) return false;
    if (writing_ != nullptr) return WriteDown(demand, part.span, false);
    if (!Count(kStepsToKeep, part.span)) return false;
    if (part.kind == ActionKind::kUpdate) {
      return work_.PerformUpdate(demand.stage, part.place, part.span);
    }
    return work_.PerformCollective(part.kind, demand.stage, part.place, part.span);
  }

  // Counts steps of the elaboration; false, after a finding, at the limit.
  bool Count(int64_t steps, Span span) {
    return evaluator_->CountSteps(steps, span) || Evaluated();
  }

  bool Evaluated() { return work_.Evaluated(evaluator_); }

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
    // The passes are counted before the first, so a loop beyond the limit ends at once.
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
        if (!TakeFrom(part, step.parts.size() > 1)) return false;
        continue;
      }
      Demand demand;
      if (!EvaluatePart(part, &demand)) return false;
      if (writing_ == nullptr) {
        if (!Count(1, part.span) || !work_.Perform(demand, part.place, part.span)) return false;
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
      const bool everywhere = program_.rows.IsOfEveryRank(part.kind) && work_.HasStage(stage);
      if (!everywhere && !work_.OwnsStage(stage)) {
        work_.FindNotOwned(stage, program_.nodes[part.stage].span,
                           evaluator_->ValuesIn(part.stage));
        return false;
      }
      demand->stage = StageId(static_cast<int32_t>(stage));
    }
    if (part.slice >= 0) demand->slice = evaluator_->Evaluate(part.slice);
    if (part.microbatch >= 0) demand->microbatch = evaluator_->Evaluate(part.microbatch);
    return Evaluated();
  }

  bool WriteDown(const Demand& demand, Span span, bool joined) {
    if (!Count(kStepsToKeep, span)) return false;
    if (++written_ > limits_.actions) {
      work_.StopAtActionLimit(span);
      return false;
    }
    writing_->actions.push_back({demand, span, joined});
    return true;
  }

  // Performs the next action of the order, or the next group.
  bool TakeFrom(const PartStep& part, bool in_group) {
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
      if (!Count(1, part.span)) return false;
      if (in_group && !SharesGroup(written, part)) return false;
      const bool performed =
          written.demand.kind == ActionKind::kUpdate
              ? work_.PerformUpdate(written.demand.stage, part.place, part.span)
              : work_.Perform(written.demand, part.place, part.span, &written.span);
      if (!performed) return false;
    } while (order.next < order.actions.size() && order.actions[order.next].joined);
    return true;
  }

  // A finding for an action that runs alone, where the order gives it as a part of a group.
  bool SharesGroup(const Written& written, const PartStep& part) {
    const ActionKind kind = written.demand.kind;
    if (!RunsAlone(kind)) return true;
    work_
        .Find(Code::kMisplaced, part.span,
              absl::StrCat("the next action of order '", program_.orders[part.order].name,
                           "' shares no group: ", PrintedKind(program_.rows, kind), " runs alone"))
        .notes.push_back({written.span, "it is written here", ""});
    return false;
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
  Plan* plan_;
  Diagnostics* diagnostics_;
  const int64_t padded_;
  RankWork work_;
  std::vector<OrderState> orders_;
  OrderState* writing_ = nullptr;  // the order under construction
  int64_t written_ = 0;
  // Timetables.
  std::vector<TimedDemand> timed_;  // for the current rank
  std::vector<int64_t> slots_;      // by action of the plan
  std::optional<Span> tighten_;
  std::optional<Span> fill_;
  BlockRules rules_;
};

// Some of a sequence's ranks, run on a copy of all that they change.
struct RanksApart {
  RanksApart(const Evaluator& of_all, const Plan& plan)
      : steps(of_all.steps()), evaluator(of_all, &steps), plan(plan) {}

  StepBudget steps;
  Evaluator evaluator;
  Plan plan;
  Diagnostics findings;
};

// Appends the ranks of the part, whose loops count their passes from 0.
void Append(const Plan& part, Plan* plan) {
  const auto passes = static_cast<int32_t>(plan->iterations.size());
  const auto actions = static_cast<uint32_t>(plan->actions.size());
  plan->iterations.reserve(plan->iterations.size() + part.iterations.size());
  for (Iteration iteration : part.iterations) {
    if (iteration.outer >= 0) iteration.outer += passes;
    plan->iterations.push_back(iteration);
  }
  for (Action action : part.actions) {
    if (action.iteration >= 0) action.iteration += passes;
    plan->actions.push_back(action);
  }
  for (size_t r = 1; r < part.first.size(); ++r) plan->first.push_back(actions + part.first[r]);
}

// Runs the ranks of a sequence on several threads. False, with nothing changed, after a finding, or
// if all together exceed a limit: then they are run in turn, which says where.
bool RunApart(const Program& program, int64_t padded, const ElaborateLimits& limits,
              size_t most_actions, Evaluator* evaluator, Plan* plan) {
  const auto ranks = static_cast<int>(plan->parameters.front().value);
  const int count = std::min(ThreadsFor(most_actions), ranks);
  if (count == 1) return false;
  std::deque<RanksApart> parts;
  for (int k = 0; k < count; ++k) {
    parts.emplace_back(*evaluator, *plan);
    parts.back().plan.actions.reserve(k == 0 ? most_actions : most_actions / count);
  }
  std::atomic<bool> good = true;
  ForEachOnCores(count, most_actions, [&](int k) {
    RanksApart& part = parts[static_cast<size_t>(k)];
    Runner runner(program, padded, limits, &part.evaluator, &part.plan, &part.findings);
    for (int rank = k * ranks / count; rank < (k + 1) * ranks / count && good; ++rank) {
      if (!runner.RunRanksInTurn(rank, rank + 1)) good = false;
    }
  });
  int64_t steps = 0;
  size_t actions = 0;
  for (const RanksApart& part : parts) {
    steps += evaluator->steps().left - part.steps.left;
    actions += part.plan.actions.size();
  }
  const bool fits =
      steps <= evaluator->steps().left && actions <= static_cast<size_t>(limits.actions);
  if (!good || !fits || !evaluator->CountSteps(steps, plan->header)) return false;
  *plan = std::move(parts.front().plan);
  ReserveOnCores(actions - plan->actions.size(), &plan->actions);
  for (size_t k = 1; k < parts.size(); ++k) Append(parts[k].plan, plan);
  return true;
}

}  // namespace

bool RunRanks(const Program& program, int64_t padded_microbatches, const ElaborateLimits& limits,
              Evaluator* evaluator, Plan* plan, Diagnostics* diagnostics) {
  const auto ranks = static_cast<int>(plan->parameters.front().value);
  // F, I and W, where nothing is recomputed or copied.
  const size_t most = std::min(3 * plan->stages.size() * static_cast<size_t>(plan->microbatches),
                               static_cast<size_t>(limits.actions));
  if (program.mode == RankMode::kSequence &&
      RunApart(program, padded_microbatches, limits, most, evaluator, plan)) {
    return true;
  }
  plan->actions.reserve(most);
  return Runner(program, padded_microbatches, limits, evaluator, plan, diagnostics).RunAll(ranks);
}

}  // namespace stringline
