// Each Open… goes a phase further: a plan, a checked plan, a simulated step. The phases between are
// functions of their own, for callers without a file. A phase with findings leaves later results
// empty.
#include "schedlang/ask/session.h"

#include <algorithm>
#include <iostream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "schedlang/ask/found_file.h"
#include "schedlang/ask/open_source.h"
#include "schedlang/base/fields.h"
#include "schedlang/base/status.h"
#include "schedlang/check/live_memory.h"
#include "schedlang/costs/step_length.h"
#include "schedlang/lower/collectives.h"
#include "schedlang/lower/lower.h"
#include "schedlang/lower/message_order.h"
#include "schedlang/report/analysis.h"
#include "schedlang/report/memory_curve.h"
#include "schedlang/report/variations.h"
#include "schedlang/sim/ready_order.h"
#include "schedlang/sim/simulate.h"
#include "schedlang/torch/comm_stream.h"
#include "schedlang/torch/torch_rules.h"

namespace stringline {
namespace {

void ReadTorch(Session* session) {
  std::optional<TorchFile> file = ReadTorchCsv(session->source, &session->diagnostics);
  if (!file) return;
  session->plan = std::move(file->plan);
  session->waits = std::move(file->waits);
  session->legacy = file->legacy;
}

// Adds offered parameters with a known name that are not given yet.
void AddOffered(const std::vector<std::string>& names, const std::vector<Parameter>& offered,
                std::vector<Parameter>* parameters) {
  for (const Parameter& parameter : offered) {
    const auto same = [&](const Parameter& given) { return given.name == parameter.name; };
    if (std::find(names.begin(), names.end(), parameter.name) != names.end() &&
        std::none_of(parameters->begin(), parameters->end(), same)) {
      parameters->push_back(parameter);
    }
  }
}

// The schedule of this name, or the last.
const ast::Schedule& ScheduleOf(const ast::File& file, const std::string& name) {
  for (const ast::Schedule& schedule : file.schedules) {
    if (schedule.name.text == name) return schedule;
  }
  return file.schedules.back();
}

// True if all errors are in the given parameters, none in the text.
bool IsOfParameters(const Diagnostics& diagnostics) {
  const auto& all = diagnostics.findings();
  return !all.empty() && std::all_of(all.begin(), all.end(), [](const Diagnostic& finding) {
    return finding.code == Code::kMissingParameter || finding.code == Code::kUnknownParameter;
  });
}

// Refuses P and M that no schedule can have: the command line is wrong then, not the text.
absl::Status CheckSizes(const PlanRequest& request) {
  const ElaborateLimits limits;
  const std::pair<const char*, int64_t> most_of[] = {
      {"P", limits.ranks}, {"M", INT32_MAX}, {kStepsParameter, kMostSteps}};
  for (const Parameter& parameter : request.parameters) {
    for (const auto& [name, most] : most_of) {
      if (parameter.name != name || (parameter.value >= 1 && parameter.value <= most)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("'", name, "' is ", parameter.value, ", which is not in 1 .. ", most));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckScheduleName(const ast::File& file, const std::string& schedule) {
  std::vector<std::string> names;
  for (const ast::Schedule& one : file.schedules) names.push_back(one.name.text);
  if (schedule.empty() || std::find(names.begin(), names.end(), schedule) != names.end()) {
    return absl::OkStatus();
  }
  const std::string close = ClosestName(schedule, names);
  return absl::InvalidArgumentError(
      absl::StrCat("the file has no schedule '", schedule, "'; ",
                   close.empty() ? absl::StrCat("it has ", absl::StrJoin(names, ", "))
                                 : absl::StrCat("did you mean '", close, "'?")));
}

absl::Status ElaborateFile(const PlanRequest& request, Session* session) {
  const std::optional<ast::File> file = ParseWithUses(&session->source, &session->diagnostics);
  if (!file || !session->diagnostics.empty()) return absl::OkStatus();
  absl::Status possible = CheckSizes(request);
  possible.Update(CheckScheduleName(*file, request.schedule));
  if (!possible.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(request.file, ": ", possible.message()));
  }
  std::vector<Parameter> parameters = request.parameters;
  AddOffered(ParameterNames(*file, request.schedule), request.offered, &parameters);
  FoundFile found(request.file, FoundFile::UseOf(request.again));
  session->plan = ElaboratedPlan(*file, request.schedule, parameters, &session->diagnostics,
                                 {.stop = request.stop, .kept = &found});
  if (!IsOfParameters(session->diagnostics)) return absl::OkStatus();
  std::vector<std::string> given;
  for (const Parameter& parameter : parameters) given.push_back(parameter.name);
  const absl::Status complete = CheckGiven(*file, request.schedule, given);
  if (complete.ok()) return complete;
  return absl::InvalidArgumentError(absl::StrCat(request.file, ": ", complete.message()));
}

absl::Status CheckReceiveBuffers(const Plan& plan, int buffers) {
  if (buffers == 0) return absl::OkStatus();
  const std::vector<int> of_ranks = ReceiveBuffersOf(plan);
  for (int r = 0; r < plan.ranks(); ++r) {
    const int needed = of_ranks[static_cast<size_t>(r)];
    if (needed <= buffers) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("receive_buffers: ", buffers, " are too few; rank ", r, " needs ", needed));
  }
  return absl::OkStatus();
}

// The time of all ranks together is counted, too.
absl::Status CheckRankTime(const Timeline& timeline) {
  const auto makespan_ns = static_cast<double>(MakespanOf(timeline));
  if (makespan_ns * timeline.ranks() < static_cast<double>(kMostStepNs)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "the costs are too large: the step takes %.3g s on each of %d ranks, and times are counted "
      "up to %.3g s in all; give smaller costs (a number without a unit is a microsecond)",
      makespan_ns * 1e-9, timeline.ranks(), static_cast<double>(kMostStepNs) * 1e-9));
}

// A finding, and true, if the step never ends because of the order of messages and their waits.
bool HangsAsWritten(const Wiring& wiring, const CostModel& costs, Session* session) {
  const std::vector<Blocked> cycle = CycleOf(*session->plan, wiring, costs);
  AddCycle(*session->plan, cycle, wiring.layout, &session->diagnostics);
  return !cycle.empty();
}

// A finding, and no plan, if the waits of a checked plan, performed as written, never end. Their
// cycles do not depend on costs.
absl::Status CheckWaits(Session* session) {
  SL_ASSIGN_OR_RETURN(const CostModel costs, ResolveCosts(UnitCosts(), *session->plan));
  const Wiring wiring = WiringAsWritten(*session->plan, session->checked_for.layout, 0,
                                        ListedWaits(*session->plan, session->waits));
  if (HangsAsWritten(wiring, costs, session)) session->plan.reset();
  return absl::OkStatus();
}

// By the first letter: "plan", "timeline", a number of torch's first stage, a group of them, or
// an empty cell.
FileKind KindOfBeginning(int first) {
  if (first == 'p') return FileKind::kPlan;
  if (first == 't') return FileKind::kTimeline;
  const bool is_table =
      (first >= '0' && first <= '9') || first == ',' || first == '"' || first == '(';
  return is_table ? FileKind::kTorch : FileKind::kSchedule;
}

}  // namespace

FileKind KindOfFile(absl::string_view path) {
  if (path == kStandardStream) return KindOfBeginning(std::cin.peek());
  if (absl::EndsWith(path, ".plan")) return FileKind::kPlan;
  if (absl::EndsWith(path, ".csv")) return FileKind::kTorch;
  if (absl::EndsWith(path, ".timeline")) return FileKind::kTimeline;
  return FileKind::kSchedule;
}

FileKind KindOfText(absl::string_view name, absl::string_view text) {
  const FileKind kind = KindOfFile(name);
  if (kind != FileKind::kSchedule || absl::EndsWith(name, ".sched")) return kind;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const absl::string_view words = absl::StripLeadingAsciiWhitespace(line);
    if (!words.empty() && words[0] != '#') return KindOfBeginning(words[0]);
  }
  return FileKind::kSchedule;
}

absl::StatusOr<Session> OpenPlan(const PlanRequest& request) {
  // Before standard input is read.
  const FileKind kind =
      request.text ? KindOfText(request.file, *request.text) : KindOfFile(request.file);
  SL_ASSIGN_OR_RETURN(
      Source source, request.text ? TextOf(request.file, *request.text) : OpenSource(request.file));
  Session session{.source = std::move(source), .kind = kind};
  if (HoldsParameters(session.kind) && (!request.parameters.empty() || !request.schedule.empty())) {
    return absl::InvalidArgumentError(absl::StrCat(
        request.file, ": a plan holds its parameters already; give them only for a schedule"));
  }
  if (session.kind == FileKind::kTorch) {
    ReadTorch(&session);
  } else if (session.kind == FileKind::kPlan) {
    if (std::optional<PlanFile> file = ReadPlanFile(session.source, &session.diagnostics)) {
      session.plan = std::move(file->plan);
      session.issued = file->issued;
      session.waits = std::move(file->waits);
    }
  } else {
    SL_RETURN_IF_ERROR(ElaborateFile(request, &session));
  }
  if (!session.diagnostics.empty()) session.plan.reset();
  if (!session.plan) return session;
  if (session.kind == FileKind::kSchedule) {
    session.plan->schedule = ShownName(session.source, request.schedule, session.plan->schedule);
  }
  session.plan->source = std::make_shared<const Source>(session.source);
  return session;
}

absl::StatusOr<Session> OpenCheckedPlan(const PlanRequest& request, const CheckRequest& check) {
  SL_ASSIGN_OR_RETURN(Session session, OpenPlan(request));
  return CheckedSession(std::move(session), check);
}

absl::StatusOr<Session> CheckedSession(Session session, const CheckRequest& check) {
  if (!session.plan) return session;
  if (check.costs.IsGiven()) {
    SL_ASSIGN_OR_RETURN(session.costs, CostsFor(check.costs, *session.plan));
  }
  const CostModel* const costs = session.costs ? &*session.costs : nullptr;
  SL_ASSIGN_OR_RETURN(ResolvedCheck resolved, ResolveCheck(check, *session.plan, costs));
  if (session.issued) {
    // Performed as written, the plan has no collectives but its own.
    resolved.options.layout = check.layout.value_or(session.issued->layout);
    resolved.options.lazy = check.lazy || session.issued->lazy;
    resolved.collectives = {};
  }
  session.checked_for = resolved.options;
  session.plan = CheckedPlan(*std::move(session.plan), session.checked_for, &session.diagnostics,
                             resolved.collectives);
  if (session.plan && session.issued) SL_RETURN_IF_ERROR(CheckWaits(&session));
  return session;
}

absl::StatusOr<Session> OpenSimulated(const PlanRequest& request, const CostRequest& costs,
                                      const MessageRequest& messages) {
  SL_ASSIGN_OR_RETURN(Session session, OpenPlan(request));
  return SimulatedSession(std::move(session), costs, messages);
}

absl::StatusOr<Session> SimulatedSession(Session session, const CostRequest& costs,
                                         const MessageRequest& messages) {
  if (!session.plan) return session;
  const bool issued = session.issued.has_value();
  session.issue = messages.issue.value_or(issued ? MessageIssue::kAsWritten : MessageIssue::kEarly);
  if (session.issue == MessageIssue::kAsWritten && !session.plan->lowered) {
    return absl::InvalidArgumentError(
        absl::StrCat(session.source.path(),
                     ": `messages=as-written` is for files that hold sends and receives: a .csv "
                     "in comms form, or a lowered plan"));
  }
  if (session.issue == MessageIssue::kAsWritten && session.plan->window > 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        session.source.path(),
        ": `messages=as-written` keeps an order, and with a window it is a preference"));
  }
  SL_ASSIGN_OR_RETURN(session.asked, FindCosts(costs));
  SL_ASSIGN_OR_RETURN(session.costs, ResolveCosts(*session.asked, *session.plan));
  session.costs_of_model = session.asked->spec.IsOfModel();
  // A file performed as written has no collectives but its own.
  const CollectiveChoice collectives =
      session.issue == MessageIssue::kAsWritten ? CollectiveChoice{} : session.costs->collectives;
  if (collectives.any()) session.written = session.plan;
  session.checked_for.layout =
      messages.layout.value_or(issued ? session.issued->layout : CommLayout::kEdge);
  if (session.plan->window > 0) session.listed = session.plan;
  SL_ASSIGN_OR_RETURN(session.plan, PlanPerformed(*std::move(session.plan), session.checked_for,
                                                  *session.costs, &session.diagnostics));
  if (!session.plan) return session;
  session.plan =
      CheckedPlan(*std::move(session.plan), session.checked_for, &session.diagnostics, collectives);
  if (!session.plan) return session;
  session.links = LinksOf(session);
  if (session.issue == MessageIssue::kAsWritten &&
      HangsAsWritten(*session.links, *session.costs, &session)) {
    return session;
  }
  SL_ASSIGN_OR_RETURN(session.timeline,
                      SimulatedStep(*session.plan, *session.links, *session.costs));
  return session;
}

absl::StatusOr<Session> OpenRecorded(const std::string& file) {
  SL_ASSIGN_OR_RETURN(Source source, OpenSource(file));
  return RecordedSession(std::move(source));
}

absl::StatusOr<Session> RecordedSession(Source source) {
  Session session{.source = std::move(source), .kind = FileKind::kTimeline};
  session.timeline = ReadTimeline(session.source, &session.diagnostics);
  if (!session.diagnostics.empty()) session.timeline.reset();
  if (session.timeline) session.plan = PlanOf(*session.timeline);
  if (session.plan) session.links = LinksOf(session);
  return session;
}

absl::StatusOr<Session> OpenStep(const PlanRequest& request, const CostRequest& costs,
                                 const MessageRequest& messages) {
  if (KindOfFile(request.file) != FileKind::kTimeline) {
    return OpenSimulated(request, costs, messages);
  }
  if (!request.parameters.empty() || !request.schedule.empty() || costs.IsGiven() ||
      !costs.slow.empty() || !costs.slow_links.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        request.file, ": a timeline is drawn as it is; parameters and costs are for schedules"));
  }
  return OpenRecorded(request.file);
}

std::vector<std::string> ParameterNames(const ast::File& file, const std::string& schedule) {
  std::vector<std::string> names;
  for (const ast::Option& option : ScheduleOf(file, schedule).parameters) {
    names.push_back(option.name.text);
  }
  return names;
}

absl::Status CheckAllGiven(const ast::File& file, const std::string& schedule,
                           const std::vector<std::string>& given) {
  const ast::Schedule& found = ScheduleOf(file, schedule);
  for (const ast::Option& option : found.parameters) {
    const std::string name(option.name.text);
    if (option.value || std::find(given.begin(), given.end(), name) != given.end()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("schedule '", found.name.text, "' needs '", name, "', as in ", name, "=8"));
  }
  return absl::OkStatus();
}

absl::Status CheckGiven(const ast::File& file, const std::string& schedule,
                        const std::vector<std::string>& given) {
  const std::vector<std::string> names = ParameterNames(file, schedule);
  for (const std::string& name : given) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    if (name == kStepsParameter || name == kWindowParameter || name == kSlackParameter) continue;
    const std::string close = ClosestName(name, names);
    return absl::InvalidArgumentError(absl::StrCat(
        "schedule '", ScheduleOf(file, schedule).name.text, "' has no parameter '", name, "'",
        close.empty() ? absl::StrCat("; it has ", absl::StrJoin(names, ", "))
                      : absl::StrCat("; did you mean '", close, "'?")));
  }
  return CheckAllGiven(file, schedule, given);
}

absl::Status RefuseIssued(const Session& session, absl::string_view does) {
  if (!session.issued) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(session.source.path(),
                   ": its line 'messages' says how another runtime issues "
                   "messages, and ",
                   does,
                   " issues them in its own way; leave out the line and the "
                   "waits"));
}

std::shared_ptr<const Wiring> LinksOf(const Session& session) {
  const CommLayout layout =
      session.timeline ? session.timeline->layout : session.checked_for.layout;
  const int receive_buffers = session.costs ? session.costs->receive_buffers : 0;
  if (session.issue == MessageIssue::kEarly) {
    return std::make_shared<const Wiring>(WiringOf(*session.plan, layout, receive_buffers));
  }
  return std::make_shared<const Wiring>(WiringAsWritten(*session.plan, layout, receive_buffers,
                                                        ListedWaits(*session.plan, session.waits)));
}

std::optional<Plan> ElaboratedPlan(const ast::File& file, const std::string& schedule,
                                   const std::vector<Parameter>& parameters,
                                   Diagnostics* diagnostics, const ElaborateLimits& limits) {
  std::optional<Plan> plan = Elaborate(file, schedule, parameters, diagnostics, limits);
  if (!diagnostics->empty()) plan.reset();
  return plan;
}

Plan LoweredPlan(Plan plan, CommLayout layout, const CollectiveChoice& collectives) {
  PutInARow(&plan);
  plan = AddCollectives(std::move(plan), collectives);
  if (!plan.lowered) return Lower(std::move(plan), layout);
  if (!plan.pipes.empty()) plan = ReduceGradients(plan);
  return plan;
}

absl::StatusOr<std::optional<Plan>> PlanPerformed(Plan plan, const CheckOptions& options,
                                                  const CostModel& costs,
                                                  Diagnostics* diagnostics) {
  if (plan.window == 0) return plan;
  const std::optional<Plan> checked = CheckedPlan(std::move(plan), options, diagnostics);
  if (!checked) return std::nullopt;
  SL_RETURN_IF_ERROR(CheckReadyCosts(costs));
  return PerformedAt(*checked, costs);
}

std::optional<Plan> CheckedPlan(Plan plan, CheckOptions options, Diagnostics* diagnostics,
                                const CollectiveChoice& collectives) {
  options.sharded = collectives.gathers;
  plan = LoweredPlan(std::move(plan), options.layout, collectives);
  if (!Check(plan, options, diagnostics)) return std::nullopt;
  return plan;
}

namespace {

// `usual`: the limit in the costs, for ranks without one; 0: none.
absl::StatusOr<MemoryLimit> LimitOf(const char* field, const MemoryLimit& said, int64_t usual,
                                    int ranks) {
  if (said.ranks.size() > static_cast<size_t>(ranks)) {
    return FieldError(
        field, absl::StrCat("there is no rank ", said.ranks.size() - 1, "; the plan has ", ranks));
  }
  if (said.is_of_each && said.ranks.size() < static_cast<size_t>(ranks)) {
    return FieldError(field, absl::StrCat(said.ranks.size(), " limits for ", ranks, " ranks"));
  }
  MemoryLimit limit = said;
  if (limit.all < 0 && usual > 0) limit.all = usual;
  return limit;
}

}  // namespace

absl::StatusOr<MemoryLimit> MemoryLimitOf(const MemoryLimit& said, const CostModel* costs,
                                          int ranks) {
  return LimitOf("memory", said, costs == nullptr ? 0 : costs->capacity, ranks);
}

absl::StatusOr<MemoryLimit> HostLimitOf(const MemoryLimit& said, const CostModel* costs,
                                        int ranks) {
  return LimitOf("host_memory", said, costs == nullptr ? 0 : costs->host_capacity, ranks);
}

absl::StatusOr<ResolvedCheck> ResolveCheck(const CheckRequest& request, const Plan& plan,
                                           const CostModel* costs) {
  CollectiveChoice collectives = request.collectives;
  if (costs != nullptr) collectives = costs->collectives;
  CheckOptions options{.layout = request.layout.value_or(CommLayout::kEdge),
                       .buffers = request.buffers,
                       .lazy = request.lazy,
                       .activations = request.activations};
  if (request.model && !plan.rows.empty()) {
    return FieldError(
        "model", absl::StrCat("a run of the model performs no action of the schedule's "
                              "own, as ",
                              plan.rows.actions.empty() ? plan.rows.values.front().name
                                                        : plan.rows.actions.front().name,
                              ", and does not know their bytes; give costs with memory.* keys"));
  }
  if (request.model) {
    SL_ASSIGN_OR_RETURN(ModelSizes model, request.model(plan));
    options.sizes = std::move(model.stages);
    collectives = model.collectives;
  } else if (costs != nullptr) {
    options.sizes = SizesOfCosts(plan, costs->memory);
  }
  if (options.sizes.empty() && (request.memory.is_given() || request.host.is_given())) {
    return FieldError(request.memory.is_given() ? "memory" : "host_memory",
                      "nothing says how many bytes a stage has; give the model (`model=RUN.yaml`), "
                      "or costs with a model's shape or with memory.* keys (`costs=FILE.yaml`)");
  }
  if (!options.sizes.empty()) {
    SL_ASSIGN_OR_RETURN(options.memory, MemoryLimitOf(request.memory, costs, plan.ranks()));
    SL_ASSIGN_OR_RETURN(options.host, HostLimitOf(request.host, costs, plan.ranks()));
  }
  return ResolvedCheck{std::move(options), collectives};
}

namespace {

absl::Status SlowError(const RankLink& link, absl::string_view message) {
  return FieldError(absl::StrCat("slow[", Print(link), "]"), message);
}

absl::Status CheckSlowOnce(const StepCosts& costs) {
  for (size_t i = 0; i < costs.slow.size(); ++i) {
    for (size_t k = 0; k < i; ++k) {
      if (costs.slow[k].rank != costs.slow[i].rank) continue;
      return FieldError(absl::StrCat("slow[", costs.slow[i].rank, "]"),
                        absl::StrCat("rank ", costs.slow[i].rank, " is given twice"));
    }
  }
  for (size_t i = 0; i < costs.slow_links.size(); ++i) {
    for (size_t k = 0; k < i; ++k) {
      const RankLink& other = costs.slow_links[k].link;
      if (!costs.slow_links[i].link.Meets(other)) continue;
      return SlowError(costs.slow_links[i].link,
                       absl::StrCat("link ", Print(costs.slow_links[i].link),
                                    " is given twice, also as ", Print(other)));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<StepCosts> FindCosts(const CostRequest& request) {
  StepCosts costs{{}, request.slow, request.slow_links};
  SL_RETURN_IF_ERROR(CheckSlowOnce(costs));
  if (request.spec) {
    costs.spec = *request.spec;
  } else if (!request.text.empty()) {
    SL_ASSIGN_OR_RETURN(costs.spec, ParseCosts(request.text));
  } else if (request.table) {
    SL_ASSIGN_OR_RETURN(costs.spec, ReadCosts(*request.table));
  } else if (request.file_text) {
    SL_ASSIGN_OR_RETURN(const Source source, TextOf(request.file, *request.file_text));
    SL_ASSIGN_OR_RETURN(costs.spec, ReadCosts(source));
  } else if (!request.file.empty()) {
    SL_ASSIGN_OR_RETURN(costs.spec, ReadCostFile(request.file));
  }
  if (const auto work = ReadWorkScope(request.work)) costs.spec.work = *work;
  SL_RETURN_IF_ERROR(ChangeCopies(request.copies, &costs.spec));
  if (request.for_several) costs.spec.unless_own.clear();
  costs.spec.spares_links = request.for_several || request.for_places;
  return costs;
}

absl::Status CheckLinksOfSome(const StepCosts& costs, absl::Span<const Plan* const> plans) {
  const auto in_one = [&](const RankLink& link) {
    absl::Status last = absl::OkStatus();
    for (const Plan* const plan : plans) {
      last = CheckLink(*plan, link);
      if (last.ok()) break;
    }
    return last;
  };
  for (const LinkCost& cost : costs.spec.links) {
    const absl::Status checked = in_one(cost.link);
    if (checked.ok()) continue;
    return absl::InvalidArgumentError(absl::StrCat(cost.place, ": ", checked.message()));
  }
  for (const SlowLink& slow : costs.slow_links) {
    const absl::Status checked = in_one(slow.link);
    if (!checked.ok()) return SlowError(slow.link, checked.message());
  }
  return absl::OkStatus();
}

absl::StatusOr<CostModel> ResolveCosts(const StepCosts& costs, const Plan& plan) {
  SL_ASSIGN_OR_RETURN(CostModel model, ResolveCosts(costs.spec, plan));
  for (const SlowRank& slow : costs.slow) {
    if (slow.rank >= plan.ranks()) {
      return FieldError(
          absl::StrCat("slow[", slow.rank, "]"),
          absl::StrCat("there is no rank ", slow.rank, "; the plan has ", plan.ranks()));
    }
    model = WithSlowRank(plan, std::move(model), RankId(slow.rank),
                         static_cast<double>(slow.share) * 1e-6);
  }
  for (const SlowLink& slow : costs.slow_links) {
    if (costs.spec.spares_links && !CheckLink(plan, slow.link).ok()) continue;
    const absl::Status checked = CheckSlowLink(plan, model, slow.link);
    if (!checked.ok()) return SlowError(slow.link, checked.message());
    model = WithSlowLink(plan, std::move(model), slow.link, static_cast<double>(slow.share) * 1e-6);
  }
  if (!costs.slow.empty() || !costs.slow_links.empty()) {
    SL_RETURN_IF_ERROR(CheckStepLength(plan, model));
  }
  return model;
}

absl::StatusOr<CostModel> CostsFor(const CostRequest& request, const Plan& plan) {
  SL_ASSIGN_OR_RETURN(const StepCosts costs, FindCosts(request));
  return ResolveCosts(costs, plan);
}

absl::StatusOr<Timeline> SimulatedStep(const Plan& checked, const Wiring& wiring,
                                       const CostModel& costs) {
  SL_RETURN_IF_ERROR(CheckReceiveBuffers(checked, costs.receive_buffers));
  SL_ASSIGN_OR_RETURN(Timeline timeline, Simulate(checked, wiring, costs));
  SL_RETURN_IF_ERROR(CheckRankTime(timeline));
  return timeline;
}

absl::Status SimulateStepAgain(const Plan& checked, const Wiring& wiring, const CostModel& costs,
                               Timeline* timeline) {
  SL_RETURN_IF_ERROR(CheckReceiveBuffers(checked, costs.receive_buffers));
  SL_RETURN_IF_ERROR(SimulateAgain(checked, wiring, costs, timeline));
  return CheckRankTime(*timeline);
}

}  // namespace stringline
