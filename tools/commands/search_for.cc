// stringline search --for: one text for several sizes.
#include "absl/strings/str_format.h"
#include "schedlang/ask/any_size_search.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/status.h"
#include "schedlang/base/stop.h"
#include "tools/answers/sizes_found.h"
#include "tools/commands/command.h"
#include "tools/io/json.h"
#include "tools/io/progress.h"
#include "tools/io/requests.h"
#include "tools/io/stop_signals.h"

namespace stringline {
namespace {

std::string PrintHowFarForSizes(const AnySizeProgress& how_far, bool is_timed) {
  std::string line = absl::StrFormat("%d texts", how_far.iterations);
  if (how_far.gap >= 0) absl::StrAppendFormat(&line, ", worst gap %.2f %%", 100 * how_far.gap);
  if (is_timed) absl::StrAppendFormat(&line, ", %.0f s left", how_far.seconds_left);
  return line;
}

absl::Status SearchForSizesOf(const Flags& flags, const Output& output) {
  const bool is_timed = flags.iterations == 0;
  const int64_t end_ns =
      is_timed ? NowNs() + static_cast<int64_t>(flags.seconds * 1e9) : Stop::kNever;
  AnySizeQuestion question;
  SL_ASSIGN_OR_RETURN(question.search, SearchQuestionOf(flags));
  question.activations = flags.most_activations;
  for (const std::string& text : flags.ranges) {
    SL_ASSIGN_OR_RETURN(SweepRange range, ParseSweepRange(text));
    question.ranges.push_back(std::move(range));
  }
  StopSignals signals;
  signals.Begin();
  const Stop stop([&signals] { return signals.came() != 0; }, end_ns);
  absl::StatusOr<FoundForSizes> found;
  {
    Progress progress(output, "searching");
    found = SearchForSizes(question, &stop, [&](const AnySizeProgress& how_far) {
      progress.Say(PrintHowFarForSizes(how_far, is_timed));
    });
  }
  if (!found.ok()) return found.status();
  if (!flags.emit.empty()) {
    SL_RETURN_IF_ERROR(WriteAsked(output, flags.emit, SizesFoundText(AskedBy(flags), *found)));
  }
  if (output.json) {
    WriteJson(output.out, SizesFoundAsJson(*found));
  } else {
    PrintSizesFound(*found, output.out);
    if (!flags.emit.empty()) output.out << "written to " << flags.emit << "\n";
  }
  return absl::OkStatus();
}

}  // namespace

int RunSearchFor(const Flags& flags, const Output& output) {
  const absl::Status status = SearchForSizesOf(flags, output);
  return status.ok() ? kOk : Fail(output, status.message());
}

}  // namespace stringline
