// stringline search: looks for an order that nobody wrote, and bounds what any order could reach.
//
// The end of its time and the first signal stop every stage of the search; the best order so far is
// checked, simulated and written.
#include <algorithm>

#include "absl/strings/str_format.h"
#include "schedlang/ask/search_question.h"
#include "schedlang/ask/search_session.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/status.h"
#include "schedlang/base/stop.h"
#include "tools/answers/found_schedule.h"
#include "tools/commands/command.h"
#include "tools/io/json.h"
#include "tools/io/progress.h"
#include "tools/io/requests.h"
#include "tools/io/stop_signals.h"
#include "tools/view/words.h"

namespace stringline {
namespace {

// The time for writing a schedule's text after the time of the search is over.
constexpr int64_t kWritingNs = 500'000'000;

std::string PrintHowFar(const SearchProgress& how_far, bool is_timed) {
  const double gap = how_far.bound <= 0
                         ? 0
                         : 100.0 * static_cast<double>(how_far.best - how_far.bound) /
                               static_cast<double>(how_far.bound);
  std::string line = absl::StrFormat("best %s, bound %s, gap %.2f %%", PrintTime(how_far.best),
                                     PrintTime(how_far.bound), gap);
  if (is_timed) absl::StrAppendFormat(&line, ", %.0f s left", how_far.seconds_left);
  return line;
}

absl::Status WriteFound(const Flags& flags, int activations, const FoundSchedule& found,
                        int64_t end_ns, const StopSignals& signals, const Output& output) {
  if (flags.emit.empty()) return absl::OkStatus();
  // An earlier signal has ended the search; the text still gets its moment.
  const bool is_stopped = signals.came() != 0;
  const int64_t soon_ns = NowNs() + kWritingNs;
  const Stop stop([&, is_stopped] { return !is_stopped && signals.came() != 0; },
                  is_stopped ? soon_ns : std::max(soon_ns, end_ns));
  SL_ASSIGN_OR_RETURN(const std::string text,
                      EmittedText({AskedBy(flags), activations}, found, &stop));
  return WriteAsked(output, flags.emit, text);
}

}  // namespace

int RunSearch(const Flags& flags, const Output& output) {
  if (!flags.ranges.empty()) return RunSearchFor(flags, output);
  const bool is_timed = flags.iterations == 0;
  const int64_t end_ns =
      is_timed ? NowNs() + static_cast<int64_t>(flags.seconds * 1e9) : Stop::kNever;
  const absl::StatusOr<SearchQuestion> question = SearchQuestionOf(flags);
  if (!question.ok()) return Fail(output, question.status().message());
  const Stop reading(end_ns);
  absl::StatusOr<SearchRequest> request = SearchRequestOf(*question, &reading);
  if (!request.ok()) return Fail(output, request.status().message());
  StopSignals signals;
  signals.Begin();
  const Stop stop([&signals] { return signals.came() != 0; }, end_ns);
  request->stop = &stop;
  absl::StatusOr<FoundSchedule> found;
  {
    Progress progress(output, "searching");
    found = SearchSchedule(*request, [&](const SearchProgress& how_far) {
      progress.Say(PrintHowFar(how_far, is_timed));
    });
  }
  if (!found.ok()) return Fail(output, found.status().message());
  const absl::Status emitted =
      WriteFound(flags, question->activations, *found, end_ns, signals, output);
  if (!emitted.ok()) return Fail(output, emitted.message());
  if (output.json) {
    WriteJson(output.out, FoundAsJson(*found));
  } else {
    PrintFound(*found, output.out);
    if (!flags.emit.empty()) output.out << "written to " << flags.emit << "\n";
  }
  return kOk;
}

}  // namespace stringline
