// A table of calls. Each reads its question from JSON (questions.h), and returns the printed text
// of the command line, the same as figures, or a step for further calls.
#include "python/core/calls.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "python/core/arrays.h"
#include "python/core/questions.h"
#include "schedlang/ask/jitter.h"
#include "schedlang/ask/open_source.h"
#include "schedlang/ask/schedule_library.h"
#include "schedlang/ask/step_answers.h"
#include "schedlang/base/fields.h"
#include "schedlang/base/new_folder.h"
#include "schedlang/base/status.h"
#include "schedlang/base/stop.h"
#include "schedlang/base/write_file.h"
#include "schedlang/costs/calibrate.h"
#include "schedlang/lower/lower.h"
#include "schedlang/tune/emitted.h"
#include "schedlang/tune/tune_question.h"
#include "tools/answers/comparison.h"
#include "tools/answers/explanation.h"
#include "tools/answers/exports.h"
#include "tools/answers/found_schedule.h"
#include "tools/answers/kernel_report.h"
#include "tools/answers/proof.h"
#include "tools/answers/ready_lines.h"
#include "tools/answers/sim_sweep.h"
#include "tools/answers/step_report.h"
#include "tools/answers/summary.h"
#include "tools/answers/torch_text.h"
#include "tools/answers/trace_import.h"
#include "tools/answers/tuned.h"
#include "tools/io/picture_options.h"
#include "tools/view/kernel_page.h"
#include "tools/view/svg.h"
#include "tools/view/words.h"

namespace stringline::python {
namespace {

// A text that is no plan: a file, or a text with the file's name.
struct NamedText {
  std::string file;
  std::optional<std::string> text;

  absl::StatusOr<Source> Open() const { return text ? TextOf(file, *text) : OpenSource(file); }
};

absl::StatusOr<NamedText> NamedTextOf(const Request& request) {
  Fields fields(request.json);
  NamedText named;
  fields.Require("file");
  fields.Read("file", &named.file);
  fields.Read("text", &named.text);
  SL_RETURN_IF_ERROR(fields.Done());
  return named;
}

// A question with only these fields.
template <typename Question>
absl::StatusOr<Question> Asked(const Request& request, void (*read)(Fields*, Question*)) {
  Fields fields(request.json);
  Question question;
  read(&fields, &question);
  SL_RETURN_IF_ERROR(fields.Done());
  return question;
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
          .issued = step.issued,
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
  SL_ASSIGN_OR_RETURN(const NamedText named, NamedTextOf(request));
  SL_ASSIGN_OR_RETURN(Source source, named.Open());
  const FileKind kind = named.text ? KindOfText(named.file, *named.text) : KindOfFile(named.file);
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
  SL_ASSIGN_OR_RETURN(PlanRequest asked, Asked<PlanRequest>(request, ReadPlan));
  const Stop stop(request.stopped, Stop::kNever);
  asked.stop = &stop;
  SL_ASSIGN_OR_RETURN(Session session, OpenPlan(asked));
  return AnswerWith(std::move(session));
}

absl::StatusOr<Answer> OpenedTimeline(const Request& request) {
  SL_ASSIGN_OR_RETURN(const NamedText named, NamedTextOf(request));
  SL_ASSIGN_OR_RETURN(Source source, named.Open());
  SL_ASSIGN_OR_RETURN(Session session, RecordedSession(std::move(source)));
  if (session.timeline && !session.plan) {
    return absl::InvalidArgumentError(
        absl::StrCat(named.file, ": the timeline has stages on two ranks, or on none"));
  }
  return AnswerWith(std::move(session));
}

std::vector<std::string> TakePaths(const char* name, Fields* fields) {
  std::vector<std::string> paths;
  if (const Json* const json = fields->Take(name)) {
    for (const Json& path : *json) paths.push_back(path.get<std::string>());
  }
  return paths;
}

// The work of GPUs in traces; with `counters` also written into that folder, with `html` as a page.
absl::StatusOr<Answer> ReportedKernels(const Request& request) {
  constexpr size_t kRows = 12;
  Fields fields(request.json);
  KernelQuestion question{.paths = TakePaths("paths", &fields),
                          .against = TakePaths("against", &fields)};
  int step = -1;
  std::string counters;
  bool html = false;
  fields.ReadNumber("step", 0, 2'000'000'000, &step);
  fields.Read("operator", &question.operator_part);
  fields.Read("counters", &counters);
  fields.Read("html", &html);
  SL_RETURN_IF_ERROR(fields.Done());
  if (step >= 0) question.step = step;
  SL_ASSIGN_OR_RETURN(const KernelReport report,
                      MakeKernelReport(question, [&] { return !request.stopped(); }));
  if (html) return Answer{.text = KernelPage(report.traces)};
  if (!counters.empty()) {
    SL_RETURN_IF_ERROR(WriteTracesWithCounters(report, counters));
  }
  return Answer{.text = Printed([&](std::ostream& out) { PrintKernelReport(report, kRows, out); }),
                .figures = KernelReportAsJson(report)};
}

// A step of traces of torch's profiler.
absl::StatusOr<Answer> OpenedTraces(const Request& request) {
  Fields fields(request.json);
  const std::vector<std::string> paths = TakePaths("paths", &fields);
  int step = -1;
  fields.ReadNumber("step", 0, 2'000'000'000, &step);
  SL_RETURN_IF_ERROR(fields.Done());
  const auto wanted = step < 0 ? std::nullopt : std::optional<int>(step);
  SL_ASSIGN_OR_RETURN(const ImportedStep imported,
                      ImportTraces(paths, wanted, [&] { return !request.stopped(); }));
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
  SL_RETURN_IF_ERROR(CheckCalibrates(timeline));
  const std::string title = absl::StrCat(timeline.origin, " ", TitleOf(timeline));
  return Answer{.text = Print(Calibrate(timeline), title)};
}

// The plan of a step alone, lowered if it has no sends and receives yet.
absl::StatusOr<Answer> Lowered(const Request& request) {
  Fields fields(request.json);
  const CommLayout layout = ReadLayout(&fields).value_or(CommLayout::kEdge);
  SL_RETURN_IF_ERROR(fields.Done());
  Session session = OpenedAgain(request);
  session.plan = LoweredPlan(*std::move(session.plan), layout);
  return AnswerWith(std::move(session));
}

absl::StatusOr<Answer> DescribedPlan(const Request& request) {
  const Session& step = *request.steps.at(0);
  const Plan& plan = *step.plan;
  Answer answer{.text = Print(plan, step.issued, step.waits), .figures = PlanAsJson(plan)};
  Json pipes = Json::array();
  for (const Pipe& pipe : plan.pipes) pipes.push_back(pipe.name);
  answer.figures["pipes"] = std::move(pipes);
  return answer;
}

absl::StatusOr<Answer> DescribedTimeline(const Request& request) {
  const Timeline& timeline = *request.steps.at(0)->timeline;
  Answer answer{.text = Print(timeline)};
  answer.figures = {{"origin", timeline.origin},
                    {"layout", NameOf(timeline.layout)},
                    {"slices", timeline.slices}};
  return answer;
}

absl::StatusOr<Answer> Checked(const Request& request) {
  SL_ASSIGN_OR_RETURN(const CheckRequest check, Asked<CheckRequest>(request, ReadCheck));
  SL_ASSIGN_OR_RETURN(Session session, CheckedSession(OpenedAgain(request), check));
  Answer answer = AnswerWith(std::move(session));
  if (answer.findings) return answer;
  const Session& proven = *answer.step;
  answer.text = Printed(
      [&](std::ostream& out) { PrintProof(*proven.plan, proven.source, proven.checked_for, out); });
  answer.figures = ProofAsJson(*proven.plan, proven.source, proven.checked_for);
  return answer;
}

absl::StatusOr<Answer> Simulated(const Request& request) {
  Fields fields(request.json);
  CostRequest costs;
  MessageRequest messages;
  ReadCosts(&fields, &costs);
  ReadMessages(&fields, &messages);
  SL_RETURN_IF_ERROR(fields.Done());
  SL_ASSIGN_OR_RETURN(Session session, SimulatedSession(OpenedAgain(request), costs, messages));
  return AnswerWith(std::move(session));
}

absl::StatusOr<Answer> Summary(const Request& request) {
  const Session& step = *request.steps.at(0);
  return Answer{.text = Printed([&](std::ostream& out) { PrintSummary(step, out); }),
                .figures = SummaryAsJson(step)};
}

absl::StatusOr<Answer> Reported(const Request& request) {
  Fields fields(request.json);
  JitterRuns jitter;
  fields.ReadNumber("runs", 1, 1'000'000, &jitter.runs);
  fields.ReadNumber("seed", 0, 1'000'000'000, &jitter.seed);
  SL_RETURN_IF_ERROR(fields.Done());
  const Session& step = *request.steps.at(0);
  SL_ASSIGN_OR_RETURN(const TimeReport report,
                      MakeReport(step, jitter, [&](int) { return !request.stopped(); }));
  return Answer{.text = Printed([&](std::ostream& out) { PrintReport(step, report, out); }),
                .figures = ReportAsJson(step, report)};
}

absl::StatusOr<Answer> Jittered(const Request& request) {
  Fields fields(request.json);
  JitterRuns runs{.runs = kUsualDraws};
  std::string jitter;
  fields.Read("jitter", &jitter);
  fields.ReadNumber("seeds", 1, 1'000'000, &runs.runs);
  SL_RETURN_IF_ERROR(fields.Done());
  Session step = *request.steps.at(0);
  if (!step.costs) {
    return absl::InvalidArgumentError("only what is simulated is drawn again, not a timeline");
  }
  SL_RETURN_IF_ERROR(SetJitter(jitter, &*step.costs));
  SL_ASSIGN_OR_RETURN(const JitteredSteps draws,
                      StepsUnderJitter(step, runs, 0, [&] { return !request.stopped(); }));
  Json figures;
  AddJitter(step, draws, &figures);
  return Answer{.text = Printed([&](std::ostream& out) { PrintJitter(step, draws, out); }),
                .figures = figures.at("jitter")};
}

absl::StatusOr<Answer> ComparedSteps(const Request& request) {
  const Comparison comparison = Compared(*request.steps.at(0), *request.steps.at(1));
  return Answer{.text = Printed([&](std::ostream& out) { PrintComparison(comparison, out); }),
                .figures = ComparisonAsJson(comparison)};
}

absl::StatusOr<Answer> ExplainedAction(const Request& request) {
  Fields fields(request.json);
  std::string action;
  bool all = false;
  fields.Read("action", &action);
  fields.Read("all", &all);
  SL_RETURN_IF_ERROR(fields.Done());
  const Session& step = *request.steps.at(0);
  if (!step.costs) {
    return absl::InvalidArgumentError("only what is simulated is explained, not a timeline");
  }
  SL_ASSIGN_OR_RETURN(const Explanation explanation, Explained(step, action));
  return Answer{
      .text = Printed([&](std::ostream& out) { PrintExplanation(step, explanation, all, out); }),
      .figures = ExplanationAsJson(step, explanation)};
}

absl::StatusOr<Answer> TorchCsv(const Request& request) {
  Fields fields(request.json);
  std::string form;
  CostRequest costs;
  fields.Read("form", &form);
  ReadCosts(&fields, &costs);
  SL_RETURN_IF_ERROR(fields.Done());
  Session session = OpenedAgain(request);
  SL_ASSIGN_OR_RETURN(const std::optional<std::string> text, TorchTextOf(&session, form, costs));
  Answer answer = AnswerWith(std::move(session));
  if (text) answer.text = *text;
  return answer;
}

// A picture, a page or a trace, into the file that is asked for; "-": the answer's text.
absl::StatusOr<Answer> Drawn(const Request& request) {
  SL_ASSIGN_OR_RETURN(const PictureQuestion asked, Asked<PictureQuestion>(request, ReadPicture));
  SL_RETURN_IF_ERROR(CheckPictureOptions(asked));
  std::vector<Session> steps;
  for (const Step& step : request.steps) steps.push_back(*step);
  SL_ASSIGN_OR_RETURN(const ShownPart part, ShownPartOf(asked, steps));
  std::ostringstream said, file;
  const Output output{said, said, /*json=*/false, &file};
  SL_RETURN_IF_ERROR(WriteExports(asked, part, steps, output).status());
  return Answer{.text = file.str()};
}

absl::StatusOr<Answer> Swept(const Request& request) {
  SL_ASSIGN_OR_RETURN(const SimSweepQuestion asked, Asked<SimSweepQuestion>(request, ReadSweep));
  std::optional<BrokenFile> broken;
  SL_ASSIGN_OR_RETURN(std::optional<SimSweepReport> listed, ListSimSweep(asked, &broken));
  if (!listed) return AnswerWith({.source = broken->source, .diagnostics = broken->findings});
  SL_RETURN_IF_ERROR(SimulateListed(
      asked.layout, [&] { return !request.stopped(); }, &*listed));
  return Answer{.figures = SimSweepAsJson(*listed, AsPython)};
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
  Fields fields(request.json);
  SearchQuestion question;
  FoundQuestion said;
  ReadSearch(&fields, &question);
  fields.Read("asked", &said.asked);
  SL_RETURN_IF_ERROR(fields.Done());
  said.activations = question.activations;
  const Stop stop(request.stopped, Stop::kNever);
  SL_ASSIGN_OR_RETURN(const SearchRequest asked, SearchRequestOf(question, &stop));
  const absl::StatusOr<FoundSchedule> found = SearchSchedule(asked, [](const SearchProgress&) {});
  // NotFound is for files here.
  if (absl::IsNotFound(found.status())) {
    return absl::FailedPreconditionError(found.status().message());
  }
  if (!found.ok()) return found.status();
  if (request.stopped()) return absl::CancelledError("stopped");
  Answer answer{.text = Printed([&](std::ostream& out) { PrintFound(*found, out); }),
                .figures = FoundAsJson(*found)};
  SL_ASSIGN_OR_RETURN(const std::string text, EmittedText(said, *found, &stop));
  SL_ASSIGN_OR_RETURN(answer.step, FoundStep(*found, question.costs, text));
  answer.figures["schedule"] = text;
  answer.figures["P"] = found->plan.ranks();
  answer.figures["M"] = found->plan.microbatches;
  return answer;
}

// A file by its path, or the text in its place.
absl::StatusOr<Source> FileOrText(const char* name, const std::string& path,
                                  const std::optional<std::string>& text) {
  return text ? absl::StatusOr<Source>(Source(name, *text)) : OpenSource(path);
}

absl::StatusOr<Answer> Tuned(const Request& request) {
  Fields fields(request.json);
  tune::TuneQuestion question;
  std::string model, cluster, pin, emit, svg, html, asked;
  std::optional<std::string> model_text, cluster_text;
  int global_batch = 1024, evaluations = 0, shown = 12;
  double seconds = 60;
  fields.Read("model", &model);
  fields.Read("model_text", &model_text);
  fields.Read("cluster", &cluster);
  fields.Read("cluster_text", &cluster_text);
  fields.ReadNumber("global_batch", 1, 1'000'000'000, &global_batch);
  fields.ReadNumber("seconds", 0.1, 1e6, &seconds);
  fields.ReadNumber("evaluations", 1, 2'000'000'000, &evaluations);
  fields.ReadNumber("top", 1, 1'000'000, &shown);
  fields.Read("pin", &pin);
  fields.ReadWritten("jitter", &question.jitter);
  fields.Read("emit", &emit);
  fields.Read("svg", &svg);
  fields.Read("html", &html);
  fields.Read("asked", &asked);
  CostRequest costs;
  ReadCosts(&fields, &costs);
  SL_RETURN_IF_ERROR(fields.Done());
  SL_ASSIGN_OR_RETURN(question.model, FileOrText("model", model, model_text));
  SL_ASSIGN_OR_RETURN(question.cluster, FileOrText("cluster", cluster, cluster_text));
  question.global_batch = global_batch;
  question.evaluations = evaluations;
  question.shown = shown;
  question.slow = costs.slow;
  question.slow_links = costs.slow_links;
  if (!pin.empty()) question.pins = {pin};
  SL_ASSIGN_OR_RETURN(tune::OpenedQuestion opened, tune::OpenQuestion(question));
  opened.request.seconds = seconds;
  const Stop stop(request.stopped, Stop::kNever);
  opened.request.stop = &stop;
  SL_ASSIGN_OR_RETURN(const tune::TunedChoices tuned, tune::Tune(opened.request, {}));
  if (request.stopped()) return absl::CancelledError("stopped");
  if (tuned.best.empty()) return absl::FailedPreconditionError(PrintMiss(tuned));
  if (!emit.empty()) {
    const tune::EmitQuestion choice = tune::EmitQuestionOf(question, opened, tuned.best[0]);
    SL_ASSIGN_OR_RETURN(const auto texts, tune::EmittedFiles(choice));
    SL_RETURN_IF_ERROR(WriteNewFolder(emit, texts));
  }
  if (!svg.empty()) SL_RETURN_IF_ERROR(WriteFileAtomically(svg, TunedSvg(tuned)));
  if (!html.empty()) SL_RETURN_IF_ERROR(WriteFileAtomically(html, TunedPage(tuned, asked)));
  return Answer{.text = Printed([&](std::ostream& out) { PrintTuned(tuned, out); }),
                .figures = TunedAsJson(tuned)};
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
    {"kernels", ReportedKernels, 0},
    {"lowered", Lowered, 1},
    {"describe_plan", DescribedPlan, 1},
    {"describe_timeline", DescribedTimeline, 1},
    {"check", Checked, 1},
    {"simulate", Simulated, 1},
    {"summary", Summary, 1},
    {"report", Reported, 1},
    {"jitter", Jittered, 1},
    {"compare", ComparedSteps, 2},
    {"calibrate", Calibrated, 1},
    {"explain", ExplainedAction, 1},
    {"torch_csv", TorchCsv, 1},
    {"draw", Drawn, 1},
    {"sweep", Swept, 0},
    {"search", Searched, 0},
    {"tune", Tuned, 0},
};

}  // namespace

absl::StatusOr<Answer> Call(const std::string& name, const Request& request) {
  for (const CallRow& row : kCalls) {
    if (name != row.name || request.steps.size() < row.steps) continue;
    absl::StatusOr<Answer> answer = row.call(request);
    if (answer.ok()) return answer;
    return absl::Status(answer.status().code(), WithFields(answer.status().message(), AsPython));
  }
  return absl::InternalError(
      absl::StrCat("there is no call '", name, "' with ", request.steps.size(), " steps"));
}

}  // namespace stringline::python
