// A table of calls. Each reads its options with the parser of the command line, and returns the
// command's printed text, the same as figures, or a step for further calls.
#include "python/core/calls.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "python/core/arrays.h"
#include "schedlang/ask/open_source.h"
#include "schedlang/ask/schedule_library.h"
#include "schedlang/base/status.h"
#include "schedlang/base/stop.h"
#include "schedlang/costs/calibrate.h"
#include "schedlang/lower/lower.h"
#include "tools/answers/comparison.h"
#include "tools/answers/explanation.h"
#include "tools/answers/exports.h"
#include "tools/answers/found_schedule.h"
#include "tools/answers/proof.h"
#include "tools/answers/step_report.h"
#include "tools/answers/step_sweep.h"
#include "tools/answers/summary.h"
#include "tools/answers/torch_text.h"
#include "tools/answers/trace_import.h"
#include "tools/commands/command.h"
#include "tools/io/picture_options.h"
#include "tools/io/requests.h"
#include "tools/view/svg.h"
#include "tools/view/words.h"

namespace stringline::python {
namespace {

std::string TextAt(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found == json.end() ? "" : found->get<std::string>();
}

std::optional<std::string> GivenTextAt(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end()) return std::nullopt;
  return found->get<std::string>();
}

// The options of a command with these (OptionSet).
absl::StatusOr<Flags> FlagsOf(const Request& request, unsigned options) {
  const Command command = {"", "", "", "", options, nullptr};
  std::vector<std::string> args;
  if (!(options & kSearchOptions)) args.emplace_back("FILE");
  for (const Json& arg : request.json.at("args")) args.push_back(arg.get<std::string>());
  SL_ASSIGN_OR_RETURN(Flags flags, ParseFlags(command, args));
  flags.file = TextAt(request.json, "file");
  return flags;
}

absl::StatusOr<CostRequest> CostsOf(const Request& request, const Flags& flags) {
  SL_ASSIGN_OR_RETURN(CostRequest costs, CostRequestOf(flags));
  costs.file_text = GivenTextAt(request.json, "costs_text");
  return costs;
}

// The session's findings as the answer, if any.
Answer AnswerWith(Session session) {
  Answer answer;
  if (!session.diagnostics.empty()) {
    answer.text = Render(session.diagnostics, session.source);
    answer.findings = FindingsAsJson(session.diagnostics, session.source);
    return answer;
  }
  answer.step = std::make_shared<const Session>(std::move(session));
  return answer;
}

template <typename Print>
std::string Printed(Print print) {
  std::ostringstream out;
  print(out);
  return out.str();
}

// A copy of the request's only step, for changes.
Session OpenedAgain(const Request& request) {
  const Session& step = *request.steps.at(0);
  return {.source = step.source,
          .kind = step.kind,
          .diagnostics = {},
          .plan = step.plan,
          .waits = step.waits,
          .legacy = step.legacy};
}

absl::StatusOr<Answer> Library(const Request&) {
  Answer answer;
  answer.figures = Json::array();
  for (const LibrarySchedule& schedule : ScheduleLibrary()) {
    answer.figures.push_back({{"name", schedule.name}, {"text", schedule.text}});
  }
  return answer;
}

// Names and colours, and how the arrays lie in memory.
absl::StatusOr<Answer> Tables(const Request&) {
  Json kinds = Json::array();
  for (int k = 0; k < kActionKinds; ++k) {
    const auto kind = static_cast<ActionKind>(k);
    Json fills = Json::array();
    for (int shade = 0; IsCompute(kind) && shade < 2; ++shade) {
      fills.push_back(SvgFill(kind, shade, /*grey=*/false));
    }
    kinds.push_back(
        {{"name", PrintedKind(kind)}, {"meaning", MeaningOfKind(kind)}, {"fills", fills}});
  }
  Answer answer;
  answer.figures = {{"kinds", kinds}, {"layouts", LayoutsAsJson()}, {"torch", TorchForms()}};
  return answer;
}

// The kind of a text, and the names of its schedules.
absl::StatusOr<Answer> Facts(const Request& request) {
  const std::string file = TextAt(request.json, "file");
  const auto text = GivenTextAt(request.json, "text");
  SL_ASSIGN_OR_RETURN(Source source, text ? TextOf(file, *text) : OpenSource(file));
  const FileKind kind = text ? KindOfText(file, *text) : KindOfFile(file);
  constexpr const char* kKinds[] = {"schedule", "plan", "torch", "timeline"};
  Json schedules = Json::array();
  if (kind == FileKind::kSchedule) {
    Diagnostics diagnostics;
    const std::optional<ast::File> parsed = ParseWithUses(&source, &diagnostics);
    if (!parsed) return AnswerWith({.source = source, .diagnostics = diagnostics});
    for (const ast::Schedule& schedule : parsed->schedules) {
      Json parameters = Json::array(), needed = Json::array();
      for (const ast::Option& option : schedule.parameters) {
        parameters.push_back(option.name.text);
        if (!option.value) needed.push_back(option.name.text);
      }
      schedules.push_back(
          {{"name", schedule.name.text}, {"parameters", parameters}, {"needed", needed}});
    }
  }
  Answer answer;
  answer.text = std::string(source.text());
  answer.figures = {{"kind", kKinds[static_cast<size_t>(kind)]}, {"schedules", schedules}};
  return answer;
}

absl::StatusOr<Answer> OpenedPlan(const Request& request) {
  SL_ASSIGN_OR_RETURN(const Flags flags, FlagsOf(request, kPlanOptions));
  SL_ASSIGN_OR_RETURN(PlanRequest asked, PlanRequestOf(flags));
  asked.text = GivenTextAt(request.json, "text");
  const Stop stop(request.stopped, Stop::kNever);
  asked.stop = &stop;
  SL_ASSIGN_OR_RETURN(Session session, OpenPlan(asked));
  return AnswerWith(std::move(session));
}

absl::StatusOr<Answer> OpenedTimeline(const Request& request) {
  const std::string file = TextAt(request.json, "file");
  const auto text = GivenTextAt(request.json, "text");
  SL_ASSIGN_OR_RETURN(Source source, text ? TextOf(file, *text) : OpenSource(file));
  SL_ASSIGN_OR_RETURN(Session session, RecordedSession(std::move(source)));
  if (session.timeline && !session.plan) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": the timeline has stages on two ranks, or on none"));
  }
  return AnswerWith(std::move(session));
}

// A step of traces of torch's profiler.
absl::StatusOr<Answer> OpenedTraces(const Request& request) {
  SL_ASSIGN_OR_RETURN(const Flags flags, FlagsOf(request, kStepOption));
  std::vector<std::string> paths;
  for (const Json& path : request.json.at("paths")) paths.push_back(path.get<std::string>());
  const auto step = flags.step < 0 ? std::nullopt : std::optional<int>(flags.step);
  SL_ASSIGN_OR_RETURN(const ImportedStep imported,
                      ImportTraces(paths, step, [&] { return !request.stopped(); }));
  SL_ASSIGN_OR_RETURN(Source source, TextOf("trace.timeline", Print(imported.timeline)));
  SL_ASSIGN_OR_RETURN(Session session, RecordedSession(std::move(source)));
  Answer answer = AnswerWith(std::move(session));
  if (answer.findings) return answer;
  answer.text = Printed([&](std::ostream& out) { PrintImport(imported, out); });
  answer.figures = ImportAsJson(imported);
  return answer;
}

absl::StatusOr<Answer> Calibrated(const Request& request) {
  const Timeline& timeline = *request.steps.at(0)->timeline;
  const std::string title = absl::StrCat(timeline.origin, " ", TitleOf(timeline));
  return Answer{.text = Print(Calibrate(timeline), title)};
}

// The plan of a step alone, lowered if it has no sends and receives yet.
absl::StatusOr<Answer> Lowered(const Request& request) {
  SL_ASSIGN_OR_RETURN(const Flags flags, FlagsOf(request, kLayoutOption));
  Session session = OpenedAgain(request);
  session.plan = LoweredPlan(*std::move(session.plan), LayoutOf(flags));
  return AnswerWith(std::move(session));
}

absl::StatusOr<Answer> DescribedPlan(const Request& request) {
  const Plan& plan = *request.steps.at(0)->plan;
  Answer answer{.text = Print(plan), .figures = PlanAsJson(plan)};
  Json pipes = Json::array();
  for (const Pipe& pipe : plan.pipes) pipes.push_back(pipe.name);
  answer.figures["pipes"] = std::move(pipes);
  return answer;
}

absl::StatusOr<Answer> DescribedTimeline(const Request& request) {
  const Timeline& timeline = *request.steps.at(0)->timeline;
  Answer answer{.text = Print(timeline)};
  answer.figures = {{"origin", timeline.origin}, {"layout", NameOf(timeline.layout)}};
  return answer;
}

absl::StatusOr<Answer> Checked(const Request& request) {
  SL_ASSIGN_OR_RETURN(const Flags flags,
                      FlagsOf(request, kLayoutOption | kCheckOptions | kCostOptions));
  SL_ASSIGN_OR_RETURN(CheckRequest check, CheckRequestOf(flags));
  if (!flags.model.empty()) {
    return absl::UnimplementedError(
        absl::StrCat(flags.model,
                     ": the bytes of a run file are counted by 'stringline check --model'; "
                     "in Python give costs with a model's shape or with memory.* keys"));
  }
  SL_ASSIGN_OR_RETURN(check.costs, CostsOf(request, flags));
  SL_ASSIGN_OR_RETURN(Session session, CheckedSession(OpenedAgain(request), check));
  Answer answer = AnswerWith(std::move(session));
  if (answer.findings) return answer;
  const Session& proven = *answer.step;
  answer.text =
      Printed([&](std::ostream& out) { PrintProof(*proven.plan, proven.checked_for, out); });
  answer.figures = ProofAsJson(*proven.plan, proven.checked_for);
  return answer;
}

absl::StatusOr<Answer> Simulated(const Request& request) {
  SL_ASSIGN_OR_RETURN(const Flags flags, FlagsOf(request, kLayoutOption | kMessagesOption |
                                                              kSlowOption | kCostOptions));
  SL_ASSIGN_OR_RETURN(const CostRequest costs, CostsOf(request, flags));
  SL_ASSIGN_OR_RETURN(Session session,
                      SimulatedSession(OpenedAgain(request), costs, MessageRequestOf(flags)));
  return AnswerWith(std::move(session));
}

absl::StatusOr<Answer> Summary(const Request& request) {
  const Session& step = *request.steps.at(0);
  return Answer{.text = Printed([&](std::ostream& out) { PrintSummary(step, out); }),
                .figures = SummaryAsJson(step)};
}

absl::StatusOr<Answer> Reported(const Request& request) {
  SL_ASSIGN_OR_RETURN(const Flags flags, FlagsOf(request, kVariationOptions));
  const Session& step = *request.steps.at(0);
  JitterRuns jitter{.seed = flags.seed};
  if (flags.runs > 0) jitter.runs = flags.runs;
  SL_ASSIGN_OR_RETURN(const TimeReport report,
                      MakeReport(step, jitter, [&](int) { return !request.stopped(); }));
  return Answer{.text = Printed([&](std::ostream& out) { PrintReport(step, report, out); }),
                .figures = ReportAsJson(step, report)};
}

absl::StatusOr<Answer> ComparedSteps(const Request& request) {
  const Comparison comparison = Compared(*request.steps.at(0), *request.steps.at(1));
  return Answer{.text = Printed([&](std::ostream& out) { PrintComparison(comparison, out); }),
                .figures = ComparisonAsJson(comparison)};
}

absl::StatusOr<Answer> ExplainedAction(const Request& request) {
  const Session& step = *request.steps.at(0);
  if (!step.costs) {
    return absl::InvalidArgumentError("only what is simulated is explained, not a timeline");
  }
  SL_ASSIGN_OR_RETURN(const Explanation explanation,
                      Explained(step, TextAt(request.json, "action")));
  const bool all = request.json.at("all").get<bool>();
  return Answer{
      .text = Printed([&](std::ostream& out) { PrintExplanation(step, explanation, all, out); }),
      .figures = ExplanationAsJson(step, explanation)};
}

absl::StatusOr<Answer> TorchCsv(const Request& request) {
  SL_ASSIGN_OR_RETURN(const Flags flags, FlagsOf(request, kCostOptions));
  SL_ASSIGN_OR_RETURN(const CostRequest costs, CostsOf(request, flags));
  Session session = OpenedAgain(request);
  SL_ASSIGN_OR_RETURN(const std::optional<std::string> text,
                      TorchTextOf(&session, TextAt(request.json, "form"), costs));
  Answer answer = AnswerWith(std::move(session));
  if (text) answer.text = *text;
  return answer;
}

// A picture, a page or a trace, into the file named in the options; "-": the answer's text.
absl::StatusOr<Answer> Drawn(const Request& request) {
  SL_ASSIGN_OR_RETURN(const Flags flags, FlagsOf(request, kPictureOptions));
  SL_RETURN_IF_ERROR(CheckPictureOptions(flags));
  std::vector<Session> steps;
  for (const Step& step : request.steps) steps.push_back(*step);
  SL_ASSIGN_OR_RETURN(const ShownPart part, ShownPartOf(flags, steps));
  std::ostringstream said, file;
  const Output output{said, said, /*json=*/false, &file};
  SL_RETURN_IF_ERROR(WriteExports(flags, part, steps, output).status());
  return Answer{.text = file.str()};
}

absl::StatusOr<Answer> Swept(const Request& request) {
  SL_ASSIGN_OR_RETURN(
      const Flags flags,
      FlagsOf(request, kPlanOptions | kForOption | kLayoutOption | kCostOptions | kSlowOption));
  SweepRequest asked{.layout = LayoutOf(flags)};
  for (const Json& schedule : request.json.at("schedules")) {
    asked.schedules.push_back({.file = TextAt(schedule, "file"),
                               .schedule = TextAt(schedule, "schedule"),
                               .again = flags.again,
                               .text = GivenTextAt(schedule, "text")});
  }
  for (const std::string& text : flags.ranges) {
    SL_ASSIGN_OR_RETURN(SweepRange range, ParseSweepRange(text));
    asked.ranges.push_back(std::move(range));
  }
  SL_ASSIGN_OR_RETURN(asked.fixed, ParseParameters(flags.parameters));
  SL_ASSIGN_OR_RETURN(asked.costs, CostsOf(request, flags));
  std::optional<BrokenFile> broken;
  SL_ASSIGN_OR_RETURN(std::optional<SimSweepReport> listed, ListedSweep(asked, &broken));
  if (!listed) return AnswerWith({.source = broken->source, .diagnostics = broken->findings});
  SL_RETURN_IF_ERROR(SimulateListed(
      asked, [&] { return !request.stopped(); }, &*listed));
  return Answer{.figures = SweptAsJson(*listed)};
}

// The step of a found schedule, read from its text: so the actions know their lines.
absl::StatusOr<Step> FoundStep(const FoundSchedule& found, const CostRequest& costs,
                               const std::string& text) {
  const std::vector<Parameter> parameters = {{"P", found.plan.ranks()},
                                             {"M", found.plan.microbatches}};
  SL_ASSIGN_OR_RETURN(Session session,
                      OpenPlan({.file = "found.sched", .parameters = parameters, .text = text}));
  if (!session.plan) return absl::InternalError(Render(session.diagnostics, session.source));
  SL_ASSIGN_OR_RETURN(session.asked, FindCosts(costs));
  session.costs = found.costs;
  session.costs_of_model = session.asked->spec.IsOfModel();
  session.plan = LoweredPlan(*std::move(session.plan), CommLayout::kEdge, found.costs.collectives);
  session.links = LinksOf(session);
  SL_ASSIGN_OR_RETURN(session.timeline,
                      SimulatedStep(*session.plan, *session.links, *session.costs));
  return std::make_shared<const Session>(std::move(session));
}

absl::StatusOr<Answer> Searched(const Request& request) {
  SL_ASSIGN_OR_RETURN(Flags flags, FlagsOf(request, kSearchOptions | kCostOptions));
  flags.arguments.clear();
  for (const Json& word : request.json.at("asked")) flags.arguments.push_back(word);
  SL_ASSIGN_OR_RETURN(const CostRequest costs, CostsOf(request, flags));
  const Stop stop(request.stopped, Stop::kNever);
  SL_ASSIGN_OR_RETURN(const SearchRequest asked, SearchRequestOf(flags, costs, &stop));
  const absl::StatusOr<FoundSchedule> found = SearchSchedule(asked, [](const SearchProgress&) {});
  // NotFound is for files here.
  if (absl::IsNotFound(found.status())) {
    return absl::FailedPreconditionError(found.status().message());
  }
  if (!found.ok()) return found.status();
  if (request.stopped()) return absl::CancelledError("stopped");
  Answer answer{.text = Printed([&](std::ostream& out) { PrintFound(*found, out); }),
                .figures = FoundAsJson(*found)};
  SL_ASSIGN_OR_RETURN(const std::string text, EmittedText(flags, *found, &stop));
  SL_ASSIGN_OR_RETURN(answer.step, FoundStep(*found, costs, text));
  answer.figures["schedule"] = text;
  answer.figures["P"] = found->plan.ranks();
  answer.figures["M"] = found->plan.microbatches;
  return answer;
}

struct CallRow {
  const char* name;
  absl::StatusOr<Answer> (*call)(const Request& request);
  size_t steps;  // the least number in a request
};

constexpr CallRow kCalls[] = {
    {"library", Library, 0},
    {"tables", Tables, 0},
    {"facts", Facts, 0},
    {"plan", OpenedPlan, 0},
    {"timeline", OpenedTimeline, 0},
    {"traces", OpenedTraces, 0},
    {"lowered", Lowered, 1},
    {"describe_plan", DescribedPlan, 1},
    {"describe_timeline", DescribedTimeline, 1},
    {"check", Checked, 1},
    {"simulate", Simulated, 1},
    {"summary", Summary, 1},
    {"report", Reported, 1},
    {"compare", ComparedSteps, 2},
    {"calibrate", Calibrated, 1},
    {"explain", ExplainedAction, 1},
    {"torch_csv", TorchCsv, 1},
    {"draw", Drawn, 1},
    {"sweep", Swept, 0},
    {"search", Searched, 0},
};

}  // namespace

absl::StatusOr<Answer> Call(const std::string& name, const Request& request) {
  for (const CallRow& row : kCalls) {
    if (name == row.name && request.steps.size() >= row.steps) return row.call(request);
  }
  return absl::InternalError(
      absl::StrCat("there is no call '", name, "' with ", request.steps.size(), " steps"));
}

}  // namespace stringline::python
