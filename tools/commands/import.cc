// stringline import: a schedule of another notation as a plan, a model of torch's as a graph, or
// what its profiler recorded as a timeline.
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tools/command.h"
#include "tools/import_model.h"
#include "tools/progress.h"
#include "tools/requests.h"
#include "tools/trace_import.h"

namespace stringline {
namespace {

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

}  // namespace

int RunImport(const Flags& flags, const Output& output) {
  if (std::all_of(flags.files.begin(), flags.files.end(), IsTrace)) {
    return ImportTimeline(flags, output);
  }
  const bool is_model = absl::EndsWith(flags.file, ".pt2");
  if (flags.files.size() > 1 || !(is_model || KindOfFile(flags.file) == FileKind::kTorch)) {
    return Fail(output, absl::StrCat(flags.files.size() > 1 ? flags.files[1] : flags.file,
                                     ": one schedule (.csv) or model (.pt2) of torch's can be "
                                     "imported, or traces of its profiler (.json, .json.gz, or a "
                                     "folder of them)"));
  }
  if (flags.step >= 0) return Fail(output, flags.file + ": --step is for traces");
  if (is_model) return ImportModel(flags, output);
  const absl::StatusOr<Session> session = OpenPlanOf(flags);
  if (!session.ok()) return Fail(output, session.status().message());
  if (!session->plan)
    return ShowFindings(output, output.err, session->diagnostics, session->source);
  return Deliver(Print(*session->plan), flags.out, output);
}

}  // namespace stringline
