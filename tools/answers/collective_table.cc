#include "tools/answers/collective_table.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/view/words.h"

namespace stringline {
namespace {

void PrintLine(const std::string& name, const CollectiveWait& wait, std::ostream& out) {
  out << absl::StreamFormat("  %4s %13s %13s %13s %13s\n", name, PrintTime(wait.gather_ns),
                            PrintTime(wait.gather_wait_ns), PrintTime(wait.reduce_ns),
                            PrintTime(wait.reduce_wait_ns));
}

Json AsJson(const CollectiveWait& wait) {
  return {{"gather_us", Microseconds(wait.gather_ns)},
          {"gather_wait_us", Microseconds(wait.gather_wait_ns)},
          {"reduce_us", Microseconds(wait.reduce_ns)},
          {"reduce_wait_us", Microseconds(wait.reduce_wait_ns)}};
}

}  // namespace

void PrintCollectives(const CollectiveReport& report, std::ostream& out) {
  const CollectiveWaits& waits = report.waits;
  if (!waits.all.any()) return;
  out << absl::StreamFormat("\n  rank %13s %13s %13s %13s\n", "gathers", "waited for", "reductions",
                            "waited for");
  for (size_t r = 0; r < waits.ranks.size(); ++r) PrintLine(absl::StrCat(r), waits.ranks[r], out);
  PrintLine("all", waits.all, out);
  if (report.without_ns) {
    const int64_t theirs_ns = report.makespan_ns - *report.without_ns;
    const double share = static_cast<double>(theirs_ns) / static_cast<double>(report.makespan_ns);
    out << absl::StreamFormat("  exposed %10s   %s of the makespan: without them it is %s\n",
                              PrintTime(theirs_ns), PrintShare(share),
                              PrintTime(*report.without_ns));
  }
  if (report.after_ns > 0) {
    out << absl::StreamFormat("  after it %9s   to gather what the optimizer has stepped\n",
                              PrintTime(report.after_ns));
  }
}

void AddCollectiveWaits(const CollectiveReport& report, Json* json) {
  if (!report.waits.all.any()) return;
  Json collectives = AsJson(report.waits.all);
  if (report.without_ns) {
    collectives["exposed_us"] = Microseconds(report.makespan_ns - *report.without_ns);
  }
  if (report.after_ns > 0) collectives["after_step_us"] = Microseconds(report.after_ns);
  (*json)["collectives"] = std::move(collectives);
  for (size_t r = 0; r < report.waits.ranks.size(); ++r) {
    (*json)["ranks"][r]["collectives"] = AsJson(report.waits.ranks[r]);
  }
}

}  // namespace stringline
