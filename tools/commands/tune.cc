// stringline tune: the best choice of mesh, microbatch and schedule for a model on a cluster.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "schedlang/ask/open_source.h"
#include "schedlang/base/new_folder.h"
#include "schedlang/base/status.h"
#include "schedlang/base/stop.h"
#include "schedlang/tune/emitted.h"
#include "schedlang/tune/tune_question.h"
#include "tools/answers/tuned.h"
#include "tools/commands/command.h"
#include "tools/io/json.h"
#include "tools/io/progress.h"
#include "tools/io/requests.h"
#include "tools/io/stop_signals.h"

namespace stringline {
namespace {

std::string TuneAskedBy(const Flags& flags) {
  std::string asked = absl::StrCat("stringline tune ", absl::StrJoin(flags.files, " "),
                                   " --global-batch ", flags.global_batch);
  for (const std::string& pin : flags.pins) absl::StrAppend(&asked, " --pin ", pin);
  if (flags.evaluations > 0) absl::StrAppend(&asked, " --evaluations ", flags.evaluations);
  return asked;
}

absl::StatusOr<tune::TuneQuestion> TuneQuestionOf(const Flags& flags) {
  if (flags.files.size() != 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'tune' needs two files, MODEL.yaml and CLUSTER.yaml, and got ", flags.files.size()));
  }
  tune::TuneQuestion question;
  SL_ASSIGN_OR_RETURN(question.model, OpenSource(flags.files[0]));
  SL_ASSIGN_OR_RETURN(question.cluster, OpenSource(flags.files[1]));
  question.global_batch = flags.global_batch;
  question.pins = flags.pins;
  SL_ASSIGN_OR_RETURN(const CostRequest costs, CostRequestOf(flags));
  question.slow = costs.slow;
  question.slow_links = costs.slow_links;
  question.jitter = flags.jitter;
  question.evaluations = flags.evaluations;
  question.shown = flags.top;
  return question;
}

absl::StatusOr<tune::TunedChoices> Tuned(const Flags& flags, const Output& output,
                                         tune::TuneRequest request) {
  request.seconds = flags.seconds;
  StopSignals signals;
  signals.Begin();
  const Stop stop([&signals] { return signals.came() != 0; }, Stop::kNever);
  request.stop = &stop;
  Progress progress(output, "planning");
  return tune::Tune(request, [&](const tune::TuneProgress& how_far) {
    progress.Say(absl::StrFormat("%d simulated, %d considered", how_far.counts.simulated,
                                 how_far.counts.considered));
  });
}

absl::Status TuneOf(const Flags& flags, const Output& output) {
  SL_ASSIGN_OR_RETURN(const tune::TuneQuestion question, TuneQuestionOf(flags));
  SL_ASSIGN_OR_RETURN(const tune::OpenedQuestion opened, tune::OpenQuestion(question));
  SL_ASSIGN_OR_RETURN(const tune::TunedChoices tuned, Tuned(flags, output, opened.request));
  if (tuned.best.empty()) return absl::NotFoundError(PrintMiss(tuned));
  if (!flags.emit.empty()) {
    const tune::EmitQuestion choice = tune::EmitQuestionOf(question, opened, tuned.best[0]);
    SL_ASSIGN_OR_RETURN(const auto files, tune::EmittedFiles(choice));
    SL_RETURN_IF_ERROR(WriteNewFolder(flags.emit, files));
  }
  if (!flags.svg.empty()) SL_RETURN_IF_ERROR(WriteAsked(output, flags.svg, TunedSvg(tuned)));
  if (!flags.html.empty()) {
    SL_RETURN_IF_ERROR(WriteAsked(output, flags.html, TunedPage(tuned, TuneAskedBy(flags))));
  }
  if (output.json) {
    WriteJson(output.out, TunedAsJson(tuned));
    return absl::OkStatus();
  }
  PrintTuned(tuned, output.out);
  for (const std::string* const file : {&flags.emit, &flags.svg, &flags.html}) {
    if (!file->empty()) output.out << "written to " << *file << "\n";
  }
  return absl::OkStatus();
}

}  // namespace

int RunTune(const Flags& flags, const Output& output) {
  const absl::Status status = TuneOf(flags, output);
  return status.ok() ? kOk : Fail(output, status.message());
}

}  // namespace stringline
