// stringline import: a schedule of another notation, or Megatron's arguments, as a plan, a torch
// model as a graph, or a recording of torch's profiler as a timeline.
#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "executor/torch_model/export_file.h"
#include "schedlang/ask/open_source.h"
#include "schedlang/base/status.h"
#include "schedlang/megatron/arguments.h"
#include "stages/text.h"
#include "tools/answers/trace_import.h"
#include "tools/commands/command.h"
#include "tools/io/flags.h"
#include "tools/io/output.h"
#include "tools/io/progress.h"
#include "tools/io/requests.h"

namespace stringline {
namespace {

// A line for each part: its parameters, and its share of a forward's work.
std::string PrintParts(const RaisedShape& shape) {
  const RaisedModel& model = *shape.model;
  const std::vector<double> work = WorkOfEach(shape);
  const std::vector<int> part_of = PartOfEachParam(model);
  std::vector<int64_t> params(work.size());
  for (size_t p = 0; p < part_of.size(); ++p) {
    const RaisedParam& of = model.params[p];
    if (of.param.tied_to.empty()) params[part_of[p]] += of.param.type.elements();
  }
  const double all = std::accumulate(work.begin(), work.end(), 0.0);
  std::string text = absl::StrFormat("# %-38s %14s   %s\n", "part", "parameters", "work");
  for (size_t i = 0; i < work.size(); ++i) {
    const std::string name = i == 0                 ? (model.sample.empty() ? "embedding" : "input")
                             : i + 1 == work.size() ? "head"
                                                    : model.layers[i - 1];
    absl::StrAppendFormat(&text, "# %-38s %14d %4.1f %%\n", name, params[i], 100 * work[i] / all);
  }
  return text;
}

std::string Sequences(int count) {
  return absl::StrCat(count, count == 1 ? " sequence" : " sequences");
}

std::string PrintModel(const RaisedShape& shape) {
  const RaisedModel& model = *shape.model;
  std::string text = absl::StrFormat(
      "# %s: %d parameters, %d layers%s, %d different %s%s\n"
      "# exported with %s of %s\n#\n",
      model.name, CountParams(shape), shape.layers,
      model.sample.empty() ? absl::StrCat(" of ", shape.width, " channels") : "", shape.vocabulary,
      shape.token_kinds() == shape.vocabulary ? "tokens" : "targets",
      shape.tied ? ", the head's weight is the embedding's" : "", Sequences(shape.microbatch),
      model.sample.empty() ? absl::StrCat(shape.context, " tokens")
                           : absl::StrCat(absl::StrJoin(model.sample, " x "), " numbers"));
  absl::StrAppend(&text, PrintParts(shape), "#\n# A stage can begin with:\n");
  for (const auto& [node, module] : CutPlaces(shape)) absl::StrAppend(&text, "#   ", module, "\n");
  return absl::StrCat(text, "\n", PrintGraph(model.graph));
}

// Answers with the model's layers, the places where a stage can begin, and its graph in text form,
// of which the rest are comments.
int ImportModel(const Flags& flags, const Output& output) {
  const absl::StatusOr<AnyShape> shape = ReadExportedShape(flags.file, 0);
  if (!shape.ok()) return Fail(output, shape.status().message());
  return Deliver(PrintModel(std::get<RaisedShape>(shape->family)), flags.out, output);
}

int ImportTimeline(const Flags& flags, const Output& output) {
  const absl::StatusOr<ImportedStep> imported = [&] {
    Progress progress(output, "reading traces");
    return ImportTraces(flags.files,
                        flags.step < 0 ? std::nullopt : std::optional<int>(flags.step));
  }();
  if (!imported.ok()) return Fail(output, imported.status().message());
  const std::string text = Print(imported->timeline);
  if (!flags.out.empty()) {
    const absl::Status written = WriteAsked(output, flags.out, text);
    if (!written.ok()) return Fail(output, written.message());
  }
  if (output.json) {
    Json json = ImportAsJson(*imported);
    json["text"] = text;
    WriteJson(output.out, json);
    return kOk;
  }
  if (flags.out.empty()) output.out << text;
  PrintImport(*imported, flags.out.empty() ? output.err : output.out);
  return kOk;
}

absl::StatusOr<MegatronArguments> ReadArguments(const Flags& flags) {
  SL_ASSIGN_OR_RETURN(const Source source, OpenSource(flags.file));
  std::vector<GivenArgument> given;
  for (const std::string& word : flags.parameters) {
    const size_t equals = word.find('=');
    given.push_back({word.substr(0, equals), word.substr(equals + 1)});
  }
  return ReadMegatronArguments(source, given);
}

int ImportMegatron(const Flags& flags, const Output& output) {
  const absl::StatusOr<MegatronArguments> arguments = ReadArguments(flags);
  if (!arguments.ok()) return Fail(output, arguments.status().message());
  const PlanFile file = PlanOfMegatron(*arguments);
  const int status = Deliver(Print(file.plan, file.issued, file.waits), flags.out, output);
  if (status != kOk) return status;
  for (const std::string& note : arguments->notes) output.err << "note: " << note << "\n";
  const int unconcerned = arguments->unconcerned;
  if (unconcerned > 0) {
    output.err << unconcerned << (unconcerned == 1 ? " key does" : " keys do")
               << " not concern the order\n";
  }
  return status;
}

bool IsYaml(const std::string& file) {
  return absl::EndsWith(file, ".yaml") || absl::EndsWith(file, ".yml");
}

}  // namespace

int RunImport(const Flags& flags, const Output& output) {
  const bool is_megatron = flags.files.size() == 1 && IsYaml(flags.file);
  if (!is_megatron && !flags.parameters.empty()) {
    return Fail(output, absl::StrCat("'", flags.parameters[0],
                                     "': only Megatron's arguments (.yaml) take others"));
  }
  if (std::all_of(flags.files.begin(), flags.files.end(), IsTrace)) {
    return ImportTimeline(flags, output);
  }
  const bool is_model = absl::EndsWith(flags.file, ".pt2");
  if (flags.files.size() > 1 ||
      !(is_model || is_megatron || KindOfFile(flags.file) == FileKind::kTorch)) {
    return Fail(output, absl::StrCat(flags.files.size() > 1 ? flags.files[1] : flags.file,
                                     ": one schedule (.csv) or model (.pt2) of torch's can be "
                                     "imported, one file of Megatron's arguments (.yaml), or "
                                     "traces of torch's profiler (.json, .json.gz, or a folder of "
                                     "them)"));
  }
  if (flags.step >= 0) return Fail(output, flags.file + ": --step is for traces");
  if (is_model) return ImportModel(flags, output);
  if (is_megatron) return ImportMegatron(flags, output);
  const absl::StatusOr<Session> session = OpenPlanOf(flags);
  if (!session.ok()) return Fail(output, session.status().message());
  if (!session->plan)
    return ShowFindings(output, output.err, session->diagnostics, session->source);
  return Deliver(Print(*session->plan), flags.out, output);
}

}  // namespace stringline
