// A schedule's own statements are run first: they give parameters, stages and pipes. The rank block
// then runs once for every rank (run.cc). A derived schedule elaborates its base, with its own
// arguments, and changes the resulting plan.
#include "schedlang/elaborate/elaborate.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/types/span.h"
#include "schedlang/costs/work_shares.h"
#include "schedlang/elaborate/edges.h"
#include "schedlang/elaborate/eval.h"
#include "schedlang/elaborate/layout.h"
#include "schedlang/elaborate/per_stage.h"
#include "schedlang/elaborate/program.h"
#include "schedlang/elaborate/resolve.h"
#include "schedlang/elaborate/resolve_rows.h"
#include "schedlang/elaborate/run.h"
#include "schedlang/orders/defer.h"
#include "schedlang/orders/place_ahead.h"
#include "schedlang/plan/repeat_steps.h"

namespace stringline {
namespace {

constexpr size_t kDeepestDerivation = 100;

// False after a finding for every name shared by two schedules.
bool AreUnique(const ast::File& file, Diagnostics* diagnostics) {
  std::map<absl::string_view, Span> first;
  bool unique = true;
  for (const ast::Schedule& schedule : file.schedules) {
    const auto [it, is_new] = first.emplace(schedule.name.text, schedule.name.span);
    if (is_new) continue;
    diagnostics
        ->Add(Code::kRedefined, schedule.name.span,
              absl::StrCat("a second schedule '", schedule.name.text, "'"))
        .notes.push_back({it->second, "the first one is here", ""});
    unique = false;
  }
  return unique;
}

// The schedule called `name`, or the last for "". Null after a finding.
const ast::Schedule* SelectSchedule(const ast::File& file, const std::string& name,
                                    Diagnostics* diagnostics) {
  if (!AreUnique(file, diagnostics)) return nullptr;
  if (name.empty()) return &file.schedules.back();
  std::vector<std::string> names;
  for (const ast::Schedule& schedule : file.schedules) {
    if (schedule.name.text == name) return &schedule;
    names.push_back(schedule.name.text);
  }
  const std::string closest = ClosestName(name, names);
  const std::string hint = closest.empty() ? absl::StrCat("it has ", absl::StrJoin(names, ", "))
                                           : absl::StrCat("did you mean '", closest, "'?");
  diagnostics->Add(Code::kUnknownSchedule, file.schedules.back().name.span,
                   absl::StrCat("the file has no schedule '", name, "'; ", hint));
  return nullptr;
}

// A statement of a schedule that is a number between bounds.
struct CountRow {
  Step::Kind kind;
  int Plan::*member;
  int least, most;
  const char* bounds;  // in words, %s being "1 to 16"
};
constexpr CountRow kCounts[] = {
    {Step::Kind::kChunks, &Plan::chunks, 1, kMostChunks, "a microbatch has %s chunks"},
    {Step::Kind::kAhead, &Plan::gathers_ahead, 0, kMostStagesAhead,
     "parameters are gathered %s stages ahead"},
    {Step::Kind::kSteps, &Plan::steps, 1, kMostSteps, "a plan has %s steps"},
    {Step::Kind::kVersions, &Plan::versions, 1, kMostVersions,
     "a stage holds %s versions of its weights"},
    {Step::Kind::kSlices, &Plan::slices, 1, kMostSlices, "a microbatch has %s slices"},
    {Step::Kind::kWindow, &Plan::window, 1, kMostWindow, "a window is of %s actions"},
    {Step::Kind::kSlack, &Plan::slack, 0, kMostSlack, "a slack is of %s activations"},
};

class Elaboration {
 public:
  Elaboration(const ast::Schedule& schedule, const Program& program,
              const std::vector<Parameter>& given, Diagnostics* diagnostics,
              const ElaborateLimits& limits, StepBudget* steps)
      : schedule_(schedule),
        program_(program),
        given_(given),
        diagnostics_(diagnostics),
        limits_(limits),
        evaluator_(program, steps) {}

  // A derived schedule: its base, elaborated with the evaluated arguments, and then changed.
  template <typename ElaborateBase>
  std::optional<Plan> RunDerived(const ast::Schedule& base, ElaborateBase elaborate_base) {
    plan_.schedule = schedule_.name.text;
    if (!CheckGiven() || !Bind()) return std::nullopt;
    std::vector<Parameter> arguments;
    if (!EvaluateArguments(base, &arguments)) return std::nullopt;
    std::optional<Plan> plan = elaborate_base(arguments);
    if (!plan) return std::nullopt;
    plan->schedule = plan_.schedule;
    plan->parameters = plan_.parameters;
    plan->header = schedule_.name.span;
    if (!program_.derived->thens.empty()) plan->searched = {};  // a changed order
    for (const DerivedStep::Then& then : program_.derived->thens) {
      std::vector<int64_t> by;
      if (!EvaluateThen(then, plan->ranks(), &by)) return std::nullopt;
      if (!MayChange(*plan, base, then)) return std::nullopt;
      switch (then.what) {
        case DerivedStep::Then::What::kDefer:
          plan = DeferWeightGradients(*plan, by);
          break;
        case DerivedStep::Then::What::kRecompute:
          plan = PlaceRecomputes(*plan, by);
          break;
        case DerivedStep::Then::What::kOffload:
          plan = PlaceCopies(*plan, by);
          break;
      }
    }
    return plan;
  }

  std::optional<Plan> Run() {
    plan_.schedule = schedule_.name.text;
    plan_.header = schedule_.name.span;
    plan_.places = program_.places;
    if (!CheckGiven() || !Bind() || !RunSteps()) return std::nullopt;
    plan_.microbatches = static_cast<int>(plan_.parameters[1].value);
    plan_.overlaps = program_.overlaps;
    plan_.forward_only = program_.forward_only.has_value();
    if (!PipesAndSplitFit() || !RowsFit()) return std::nullopt;
    padded_ *= plan_.steps;
    if (!FitsLimits()) return std::nullopt;
    padded_ *= plan_.slices;
    CountStepsAndSlices(&plan_);
    if (!FitEdges(program_, &evaluator_, &plan_, diagnostics_)) return std::nullopt;
    if (!RunRanks(program_, padded_, limits_, &evaluator_, &plan_, diagnostics_)) {
      return std::nullopt;
    }
    FindRemaking(&plan_);
    return std::move(plan_);
  }

 private:
  Diagnostic& Find(Code code, Span span, std::string text) {
    return diagnostics_->Add(code, span, std::move(text));
  }

  // The values of the base's parameters: by position, then by name.
  bool EvaluateArguments(const ast::Schedule& base, std::vector<Parameter>* arguments) {
    const std::vector<DerivedStep::Argument>& given = program_.derived->arguments;
    for (size_t i = 0; i < given.size(); ++i) {
      const DerivedStep::Argument& argument = given[i];
      if (argument.name.empty() && i >= base.parameters.size()) {
        Find(Code::kWrongArity, argument.span,
             absl::StrCat("'", base.name.text, "' has only ", base.parameters.size(),
                          " parameters"));
        return false;
      }
      const std::string name = argument.name.empty() ? base.parameters[i].name.text : argument.name;
      const int64_t value = evaluator_.Evaluate(argument.node);
      if (!Evaluated()) return false;
      if (!FitsBase(base, name, argument, value, *arguments)) return false;
      arguments->push_back({name, value});
    }
    return true;
  }

  // The name must be a parameter of the base, given once; P and M must keep their values.
  bool FitsBase(const ast::Schedule& base, const std::string& name,
                const DerivedStep::Argument& argument, int64_t value,
                const std::vector<Parameter>& before) {
    std::vector<std::string> names;
    for (const ast::Option& option : base.parameters) names.push_back(option.name.text);
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      const std::string closest = ClosestName(name, names);
      Find(Code::kUnknownParameter, argument.span,
           absl::StrCat("'", base.name.text, "' has no parameter '", name, "'; ",
                        closest.empty() ? absl::StrCat("it has ", absl::StrJoin(names, ", "))
                                        : absl::StrCat("did you mean '", closest, "'?")));
      return false;
    }
    for (const Parameter& other : before) {
      if (other.name != name) continue;
      Find(Code::kBadParameter, argument.span, absl::StrCat("'", name, "' is given twice"));
      return false;
    }
    for (const Parameter& own : {plan_.parameters[0], plan_.parameters[1]}) {
      if (own.name != name || own.value == value) continue;
      Find(Code::kBadParameter, argument.span,
           absl::StrCat("'", name, "' is ", own.value, ", and ", value, " for the base; both run ",
                        "on the same ranks with the same microbatches"));
      return false;
    }
    return true;
  }

  bool EvaluateThen(const DerivedStep::Then& then, int ranks, std::vector<int64_t>* by) {
    const bool defers = then.what == DerivedStep::Then::What::kDefer;
    for (int r = 0; r < ranks; ++r) {
      evaluator_.Set(program_.rank_slot, r);
      by->push_back(evaluator_.Evaluate(then.node));
      if (!Evaluated()) return false;
      if (by->back() >= 0) continue;
      Find(Code::kNegativeCount, then.span,
           absl::StrCat(defers ? "weight gradients cannot come " : "R and U cannot come ",
                        -by->back(), defers ? " early" : " actions behind their B or I",
                        evaluator_.ValuesIn(then.node)))
          .where = absl::StrCat("rank ", r, ", ", PrintParameters(plan_));
      return false;
    }
    return true;
  }

  // Adds a finding, and returns false, if no B is left to defer a weight gradient of.
  bool HasBackward(const Plan& plan, const ast::Schedule& base, const DerivedStep::Then& then) {
    const auto is_whole = [](const Action& action) { return action.kind == ActionKind::kBackward; };
    if (std::any_of(plan.actions.begin(), plan.actions.end(), is_whole)) return true;
    Find(Code::kMisplaced, then.span,
         absl::StrCat("'then defer W' changes nothing: no B of '", base.name.text,
                      "' is left whose weight gradient could come later"))
        .where = PrintParameters(plan_);
    return false;
  }

  // Adds a finding, and returns false, if the change would change nothing, or the base has made it.
  bool MayChange(const Plan& plan, const ast::Schedule& base, const DerivedStep::Then& then) {
    if (plan.forward_only) {
      Find(Code::kMisplaced, then.span,
           absl::StrCat("'", base.name.text, "' is forward only: nothing of it is for a backward"))
          .where = PrintParameters(plan_);
      return false;
    }
    if (then.what == DerivedStep::Then::What::kDefer) return HasBackward(plan, base, then);
    const bool copies = then.what == DerivedStep::Then::What::kOffload;
    const auto is_placed = [copies](const Action& action) {
      return copies ? IsCopy(action.kind) : action.kind == ActionKind::kRecompute;
    };
    if (std::none_of(plan.actions.begin(), plan.actions.end(), is_placed)) return true;
    Find(Code::kMisplaced, then.span,
         absl::StrCat("'", base.name.text, "' places its ", copies ? "D and U" : "R", " itself"))
        .where = PrintParameters(plan_);
    return false;
  }

  // Every given name must be a parameter, once; every parameter without a default must be given.
  bool CheckGiven() {
    bool good = true;
    std::vector<std::string> names;
    for (const ast::Option& option : schedule_.parameters) names.push_back(option.name.text);
    for (auto it = given_.begin(); it != given_.end(); ++it) {
      const auto same = [it](const Parameter& other) { return other.name == it->name; };
      const auto parameter = std::find(names.begin(), names.end(), it->name);
      if (parameter == names.end()) {
        FindUnknownParameter(it->name, names);
        good = false;
      } else if (std::find_if(given_.begin(), it, same) != it) {
        const ast::Option& option = schedule_.parameters[parameter - names.begin()];
        Find(Code::kBadParameter, option.name.span,
             absl::StrCat("'", it->name, "' is given twice"));
        good = false;
      }
    }
    for (const ast::Option& option : schedule_.parameters) {
      if (option.value || Given(option.name.text) != nullptr) continue;
      Find(Code::kMissingParameter, option.name.span,
           absl::StrCat("no value is given for '", option.name.text, "'"));
      good = false;
    }
    return good;
  }

  void FindUnknownParameter(const std::string& name, const std::vector<std::string>& names) {
    const std::string closest = ClosestName(name, names);
    Find(Code::kUnknownParameter, schedule_.name.span,
         absl::StrCat("schedule '", schedule_.name.text, "' has no parameter '", name, "'; ",
                      closest.empty() ? absl::StrCat("it has ", absl::StrJoin(names, ", "))
                                      : absl::StrCat("did you mean '", closest, "'?")));
  }

  const Parameter* Given(const std::string& name) const {
    const auto it = std::find_if(given_.begin(), given_.end(),
                                 [&](const Parameter& p) { return p.name == name; });
    return it == given_.end() ? nullptr : &*it;
  }

  bool Bind() {
    const auto& parameters = schedule_.parameters;
    for (size_t i = 0; i < parameters.size(); ++i) {
      const Parameter* given = Given(parameters[i].name.text);
      const int64_t value =
          given != nullptr ? given->value : evaluator_.Evaluate(program_.defaults[i]);
      if (!Evaluated()) return false;
      evaluator_.Set(static_cast<int32_t>(i), value);
      plan_.parameters.push_back({parameters[i].name.text, value});
    }
    const bool ranks_good = InRange(0, limits_.ranks);
    const bool microbatches_good = InRange(1, INT32_MAX);
    return ranks_good && microbatches_good;
  }

  // Checks that parameter `index` lies in 1 .. most.
  bool InRange(size_t index, int64_t most) {
    const Parameter& parameter = plan_.parameters[index];
    if (parameter.value >= 1 && parameter.value <= most) return true;
    Find(Code::kBadParameter, schedule_.parameters[index].name.span,
         absl::StrCat("'", parameter.name, "' is ", parameter.value, ", which is not in 1 .. ",
                      most));
    return false;
  }

  bool Evaluated() {
    if (!evaluator_.failed()) return true;
    AddFailure(evaluator_.TakeFailure(), PrintParameters(plan_), diagnostics_);
    return false;
  }

  // Runs the schedule's own statements, in order.
  bool RunSteps() {
    padded_ = plan_.parameters[1].value;
    for (const Step& step : program_.steps) {
      if (step.kind == Step::Kind::kStages) {
        if (!PlacePipe(step.slot)) return false;
        continue;
      }
      const int64_t value = evaluator_.Evaluate(step.node);
      if (!Evaluated()) return false;
      if (step.kind == Step::Kind::kLet) evaluator_.Set(step.slot, value);
      if (step.kind == Step::Kind::kPad && !Pad(step, value)) return false;
      for (const CountRow& row : kCounts) {
        if (step.kind == row.kind && !TakeCount(step, row, value)) return false;
      }
      if (step.kind == Step::Kind::kRequire && value == 0) {
        Find(Code::kRequire, step.span, absl::StrCat(step.text, evaluator_.ValuesIn(step.node)))
            .where = PrintParameters(plan_);
        return false;
      }
    }
    return true;
  }

  bool PlacePipe(int index) {
    const PipeStep& step = program_.pipes[index];
    const auto first = static_cast<int32_t>(plan_.stages.size());
    if (!PlaceStages(program_, index, plan_.parameters[0].value, limits_, &evaluator_, &plan_,
                     diagnostics_)) {
      return false;
    }
    if (step.name.empty()) return true;
    Pipe pipe{.name = step.name, .first_stage = StageId(first)};
    pipe.stages = static_cast<int>(plan_.stages.size()) - first;
    const int64_t count = evaluator_.Evaluate(step.microbatches);
    if (!Evaluated()) return false;
    const Span span = program_.nodes[step.microbatches].span;
    if (count < 0 || count > padded_) {
      return BadPipes(span, absl::StrCat("'", step.name, "' runs ", count, " microbatches of ",
                                         padded_, evaluator_.ValuesIn(step.microbatches)));
    }
    pipe.microbatches = static_cast<int>(count);
    if (!plan_.pipes.empty()) {
      const Pipe& before = plan_.pipes.back();
      pipe.first_microbatch = before.first_microbatch + before.microbatches;
      if (before.stages != pipe.stages) {
        return BadPipes(
            step.stages.span,
            absl::StrCat("'", step.name, "' has ", pipe.stages, " stages and '", before.name,
                         "' has ", before.stages, ", but both hold the same model, cut alike"));
      }
    }
    evaluator_.AddPipe(pipe);
    plan_.pipes.push_back(std::move(pipe));
    return true;
  }

  bool BadPipes(Span span, std::string text) {
    Find(Code::kBadPipes, span, std::move(text)).where = PrintParameters(plan_);
    return false;
  }

  bool RowsFit() {
    return FitRows(program_, &evaluator_, &plan_, diagnostics_) || (Evaluated() && false);
  }

  // Checks that the pipes share out all microbatches, and that the split fits the stages.
  bool PipesAndSplitFit() {
    int64_t sum = 0;
    for (const Pipe& pipe : plan_.pipes) sum += pipe.microbatches;
    if (!plan_.pipes.empty() && sum != padded_) {
      return BadPipes(
          program_.pipes.back().span,
          absl::StrCat("the pipes run ", sum, " microbatches together, but M is ", padded_));
    }
    return (!program_.split || FitSplit(*program_.split)) && FitRecompute();
  }

  bool FitSplit(const SplitStep& step) {
    Split& split = plan_.split;
    split = {.kind = step.kind, .layers = {}, .layout = step.layout, .span = step.span};
    const int stages =
        plan_.pipes.empty() ? static_cast<int>(plan_.stages.size()) : plan_.pipes[0].stages;
    const auto take = [&](int32_t node, int64_t layers) {
      if (layers < 0 || layers > INT32_MAX) {
        return BadSplit(program_.nodes[node].span,
                        absl::StrCat("a stage of ", layers, " layers", evaluator_.ValuesIn(node)));
      }
      split.layers.push_back(static_cast<int>(layers));
      return true;
    };
    if (!ForEachValue(step.layers, stages, &evaluator_, take)) return Evaluated() && false;
    const size_t given = split.layers.size() + split.layout.size();
    if (given == 0 || given == static_cast<size_t>(stages)) return true;
    return BadSplit(step.span,
                    absl::StrCat("the layers are split over ", given, " stages, but ",
                                 plan_.pipes.empty() ? "there are " : "every pipe has ", stages));
  }

  // A search block with `any`, or without stages, says later which stages recompute.
  bool FitRecompute() {
    if (!program_.recompute) return true;
    const RecomputeStep& step = *program_.recompute;
    if (step.all) plan_.recompute.assign(plan_.stages.size(), 1);
    std::vector<int64_t> values;
    const auto take = [&](int32_t node, int64_t value) {
      values.push_back(value);
      if (value == 0 || value == 1) return true;
      return BadRecompute(program_.nodes[node].span,
                          absl::StrCat("a stage recomputes (1) or does not (0), not ", value,
                                       evaluator_.ValuesIn(node)));
    };
    const int stages = StagesOfModel(plan_);
    if (!ForEachValue(step.stages, stages, &evaluator_, take)) return Evaluated() && false;
    if (values.empty()) return true;
    const absl::StatusOr<std::vector<int64_t>> list = ListOfStages(plan_, "recompute", values);
    if (!list.ok() || (step.stages.is_list && values.size() == 1 && stages != 1)) {
      return BadRecompute(
          step.span,
          absl::StrCat("values of ", values.size(), values.size() == 1 ? " stage" : " stages",
                       ", but ", plan_.pipes.empty() ? "there are " : "every pipe has ", stages));
    }
    plan_.recompute.assign(list->begin(), list->end());
    if (std::count(list->begin(), list->end(), 1) == 0) plan_.recompute.clear();
    return true;
  }

  bool BadRecompute(Span span, std::string text) {
    Find(Code::kBadRule, span, std::move(text)).where = PrintParameters(plan_);
    return false;
  }

  bool BadSplit(Span span, std::string text) {
    Find(Code::kBadSplit, span, std::move(text)).where = PrintParameters(plan_);
    return false;
  }

  // Every stage does at least a forward and a backward of every microbatch; checked before anything
  // of that size is allocated. Steps for ordering them all are allowed for, but padding only as far
  // as orders need it: two rounds of the pipeline.
  bool FitsLimits() {
    const auto stages = static_cast<int64_t>(plan_.stages.size());
    int64_t least = 2 * stages * padded_;  // both below 2^31
    if (!plan_.pipes.empty()) least /= static_cast<int64_t>(plan_.pipes.size());
    if (least <= limits_.actions / plan_.slices) {
      const int64_t counted = std::min(padded_, plan_.microbatches + 2 * stages) * plan_.slices;
      evaluator_.AllowSteps(3 * (least / 2) / padded_ * counted * limits_.steps_per_action);
      return true;
    }
    const int64_t most = limits_.actions / plan_.slices / std::max<int64_t>(1, least / padded_);
    const std::string of_slices =
        plan_.slices == 1 ? "" : absl::StrCat(" of ", plan_.slices, " slices");
    const std::string times = plan_.slices == 1 ? "" : absl::StrCat(" times ", plan_.slices);
    Find(
        Code::kTooLong, schedule_.name.span,
        absl::StrCat(stages, stages == 1 ? " stage and " : " stages and ", padded_, " microbatches",
                     of_slices, " take at least ", least, times, " actions, more than ",
                     limits_.actions, "; on so many stages a step has at most ", most,
                     most == 1 ? " microbatch" : " microbatches"))
        .where = PrintParameters(plan_);
    return false;
  }

  bool Pad(const Step& step, int64_t value) {
    if (value >= padded_ && value <= INT32_MAX) {
      padded_ = value;
      return true;
    }
    Find(Code::kBadPad, step.span,
         absl::StrCat(padded_, " microbatches are padded to ", value,
                      value < padded_ ? ", which is fewer" : ", which is too many",
                      evaluator_.ValuesIn(step.node)))
        .where = PrintParameters(plan_);
    return false;
  }

  // The value of a statement that is a number between bounds.
  bool TakeCount(const Step& step, const CountRow& row, int64_t count) {
    if (count >= row.least && count <= row.most) {
      plan_.*row.member = static_cast<int>(count);
      return true;
    }
    Find(Code::kBadRule, step.span,
         absl::StrCat(
             absl::StrReplaceAll(row.bounds, {{"%s", absl::StrCat(row.least, " to ", row.most)}}),
             ", not ", count, evaluator_.ValuesIn(step.node)))
        .where = PrintParameters(plan_);
    return false;
  }

  const ast::Schedule& schedule_;
  const Program& program_;
  const std::vector<Parameter>& given_;
  Diagnostics* diagnostics_;
  const ElaborateLimits& limits_;
  Evaluator evaluator_;
  Plan plan_;
  int64_t padded_ = 0;  // the microbatches that the counters see
};

// A schedule, and its file, whose names are visible to it.
struct FoundSchedule {
  const ast::File* file = nullptr;
  const ast::Schedule* schedule = nullptr;
};

// Calls `see` for every schedule visible in the file: its own, then those of used files.
template <typename See>
void ForEachSchedule(const ast::File& file, See see) {
  for (const ast::Schedule& own : file.schedules) see(FoundSchedule{&file, &own});
  for (const ast::Use& use : file.uses) {
    if (use.file == nullptr) continue;  // not read
    for (const ast::Schedule& used : use.file->schedules) see(FoundSchedule{use.file.get(), &used});
  }
}

// The base of a derived schedule; nothing after a finding.
std::optional<FoundSchedule> BaseOf(const FoundSchedule& derived, Diagnostics* diagnostics) {
  const ast::Name& base = derived.schedule->derived->base;
  std::optional<FoundSchedule> found;
  ForEachSchedule(*derived.file, [&](const FoundSchedule& other) {
    if (other.schedule->name.text == base.text) found = other;
  });
  if (found) return found;
  std::vector<std::string> names;
  ForEachSchedule(*derived.file,
                  [&](const FoundSchedule& other) { names.push_back(other.schedule->name.text); });
  const std::string closest = ClosestName(base.text, names);
  diagnostics->Add(
      Code::kUnknownSchedule, base.span,
      absl::StrCat("the file has no schedule '", base.text, "'",
                   derived.file->uses.empty() ? "" : ", nor has one that it uses",
                   closest.empty() ? "" : absl::StrCat("; did you mean '", closest, "'?")));
  return std::nullopt;
}

// The chain of bases from the schedule to its root, which is not derived. Empty after a finding.
std::vector<FoundSchedule> DerivationOf(const FoundSchedule& last, Diagnostics* diagnostics) {
  std::vector<FoundSchedule> chain = {last};
  std::set<const ast::Schedule*> seen = {last.schedule};
  while (chain.back().schedule->derived) {
    const std::optional<FoundSchedule> base = BaseOf(chain.back(), diagnostics);
    if (!base) return {};
    if (!seen.insert(base->schedule).second) {
      diagnostics->Add(Code::kDerivedCycle, last.schedule->name.span,
                       absl::StrCat("'", last.schedule->name.text, "' is derived from itself"));
      return {};
    }
    if (chain.size() == kDeepestDerivation) {
      diagnostics->Add(Code::kTooDeep, chain.back().schedule->derived->base.span,
                       absl::StrCat("schedules are derived from each other more than ",
                                    kDeepestDerivation, " deep here"));
      return {};
    }
    chain.push_back(*base);
  }
  return chain;
}

// The name of the rank in the schedule's rank block.
std::string RankVariableOf(const ast::Schedule& schedule) {
  for (const ast::Statement& statement : schedule.body.statements) {
    if (const auto* rank = std::get_if<ast::Rank>(&statement.node)) return rank->variable.text;
  }
  return "";
}

// Elaborates the first schedule of the chain, each being derived from the next.
std::optional<Plan> ElaborateChain(absl::Span<const FoundSchedule> chain,
                                   const std::vector<Parameter>& parameters,
                                   Diagnostics* diagnostics, const ElaborateLimits& limits,
                                   StepBudget* steps) {
  const ast::Schedule& schedule = *chain.front().schedule;
  const std::string rank = chain.size() > 1 ? RankVariableOf(*chain.back().schedule) : "";
  const std::optional<Program> program = Resolve(schedule, diagnostics, rank);
  if (!program) return std::nullopt;
  Elaboration elaboration(schedule, *program, parameters, diagnostics, limits, steps);
  if (chain.size() == 1) return elaboration.Run();
  return elaboration.RunDerived(*chain[1].schedule, [&](const std::vector<Parameter>& arguments) {
    return ElaborateChain(chain.subspan(1), arguments, diagnostics, limits, steps);
  });
}

bool Declares(const ast::Schedule& schedule, absl::string_view name) {
  return std::any_of(schedule.parameters.begin(), schedule.parameters.end(),
                     [name](const ast::Option& option) { return option.name.text == name; });
}

// Takes the parameter out of those given, unless the schedule declares it.
std::optional<Parameter> TakeUndeclared(const ast::Schedule& schedule, absl::string_view name,
                                        std::vector<Parameter>* given) {
  const auto at = std::find_if(given->begin(), given->end(), [name](const Parameter& parameter) {
    return parameter.name == name;
  });
  if (at == given->end() || Declares(schedule, name)) return std::nullopt;
  const Parameter taken = *at;
  given->erase(at);
  return taken;
}

// False after a finding.
bool SetReadyOrder(const std::optional<Parameter>& window, const std::optional<Parameter>& slack,
                   Plan* plan, Diagnostics* diagnostics) {
  const auto set = [&](const std::optional<Parameter>& given, int least, int most, int* member) {
    if (!given) return true;
    if (given->value >= least && given->value <= most) {
      *member = static_cast<int>(given->value);
      plan->parameters.push_back(*given);
      return true;
    }
    diagnostics
        ->Add(Code::kBadParameter, plan->header,
              absl::StrCat("'", given->name, "' is ", given->value, ", which is not in ", least,
                           " .. ", most))
        .where = PrintParameters(*plan);
    return false;
  };
  if (!set(window, 1, kMostWindow, &plan->window)) return false;
  if (!set(slack, 0, kMostSlack, &plan->slack)) return false;
  if (!slack || plan->window > 0) return true;
  diagnostics
      ->Add(Code::kBadParameter, plan->header,
            absl::StrCat("'slack' is that of a window, and '", plan->schedule,
                         "' has none: give it one, as in window=8"))
      .where = PrintParameters(*plan);
  return false;
}

// The plan of a step, performed as often as `steps` says.
std::optional<Plan> Repeated(const Plan& plan, const Parameter& steps, int64_t most_actions,
                             Diagnostics* diagnostics) {
  const auto find = [&](Code code, std::string text) -> std::optional<Plan> {
    diagnostics->Add(code, plan.header, std::move(text)).where = PrintParameters(plan);
    return std::nullopt;
  };
  if (plan.forward_only) {
    return find(Code::kBadParameter, absl::StrCat("'steps' counts updates, and '", plan.schedule,
                                                  "' is forward only: give it more microbatches"));
  }
  if (plan.steps > 1) {
    return find(Code::kBadParameter, absl::StrCat("'", plan.schedule, "' says itself that it has ",
                                                  plan.steps, " steps: leave out 'steps'"));
  }
  if (steps.value < 1 || steps.value > kMostSteps) {
    return find(Code::kBadParameter,
                absl::StrCat("'steps' is ", steps.value, ", which is not in 1 .. ", kMostSteps));
  }
  const int64_t actions = static_cast<int64_t>(plan.actions.size()) * steps.value;
  if (actions > most_actions || steps.value * plan.microbatches > INT32_MAX) {
    return find(Code::kTooLong, absl::StrCat(steps.value, " steps take ", actions,
                                             " actions, more than ", most_actions));
  }
  Plan repeated = RepeatSteps(plan, static_cast<int>(steps.value));
  repeated.parameters.push_back(steps);
  return repeated;
}

}  // namespace

std::optional<Plan> Elaborate(const ast::File& file, const std::string& name,
                              const std::vector<Parameter>& parameters, Diagnostics* diagnostics,
                              const ElaborateLimits& limits) {
  const ast::Schedule* schedule = SelectSchedule(file, name, diagnostics);
  if (schedule == nullptr) return std::nullopt;
  const std::vector<FoundSchedule> chain = DerivationOf({&file, schedule}, diagnostics);
  if (chain.empty()) return std::nullopt;
  StepBudget budget(limits.steps, limits.stop);
  std::vector<Parameter> own = parameters;
  const auto steps = TakeUndeclared(*schedule, kStepsParameter, &own);
  const auto window = TakeUndeclared(*schedule, kWindowParameter, &own);
  const auto slack = TakeUndeclared(*schedule, kSlackParameter, &own);
  std::optional<Plan> plan = ElaborateChain(chain, own, diagnostics, limits, &budget);
  if (!plan || !SetReadyOrder(window, slack, &*plan, diagnostics)) return std::nullopt;
  if (!steps) return plan;
  return Repeated(*plan, *steps, limits.actions, diagnostics);
}

}  // namespace stringline
