// Copies to the host and back beside computation, on one rank: all forwards of a step and then all
// backwards, over four stages of which the first one's microbatches wait in the host's memory. An
// action listed behind a D waits for the memory that it frees, so a D in the place of its copy
// holds the rank up, and a D listed a microbatch later does not. Both steps are held against the
// simulation, and the second against the same without copies.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/costs/median.h"
#include "schedlang/lower/lower.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/timeline.h"
#include "tools/gpu/gpu_run.h"
#include "tools/gpu/sections.h"

namespace stringline {
namespace {

constexpr int kStages = 4;
constexpr int kAhead = 4;                   // a U stands so many actions ahead of its B
constexpr double kMostMispredicted = 0.03;  // of the simulated step

struct CopiesCase {
  const char* name;
  int behind;           // a D stands so many actions behind its F
  double most_exposed;  // of the copies
};
constexpr CopiesCase kCopyCases[] = {{"each D behind the next action", 1, 1},
                                     {"each D a microbatch later", kStages, 0.15}};

// `behind`: as above; 0: no copies.
Plan OrderOf(int microbatches, int behind) {
  std::vector<std::string> actions;
  for (int m = 0; m < microbatches; ++m) {
    for (int s = 0; s < kStages; ++s) actions.push_back(absl::StrCat(s, "F", m));
  }
  for (int m = 0; m < microbatches; ++m) {
    for (int s = kStages - 1; s >= 0; --s) actions.push_back(absl::StrCat(s, "B", m));
  }
  std::string text = absl::StrCat("plan copies P=1 M=", microbatches, "\nstages 0 0 0 0\nrank 0:");
  const int forwards = microbatches * kStages;
  for (int i = 0; i < static_cast<int>(actions.size()); ++i) {
    const int back = i + kAhead + 1 - forwards, out = i - behind;
    const bool fetches = back > 0 && back % kStages == 0 && back <= forwards;
    if (behind > 0 && fetches) absl::StrAppend(&text, " 0U", back / kStages - 1);
    absl::StrAppend(&text, " ", actions[static_cast<size_t>(i)]);
    const bool offloads = out >= 0 && out % kStages == 0 && out < forwards;
    if (behind > 0 && offloads) absl::StrAppend(&text, " 0D", out / kStages);
  }
  const Source source("copies", absl::StrCat(text, "\n"));
  Diagnostics diagnostics;
  const std::optional<Plan> plan = ReadPlan(source, &diagnostics);
  SL_CHECK(plan.has_value()) << Render(diagnostics, source);
  return Lower(*plan);
}

template <typename Is>
double DurationOf(const TrainResult& result, Is is) {
  int64_t all_ns = 0;
  for (const Event& event : result.measured.events) {
    if (is(event.kind)) all_ns += event.end_ns - event.start_ns;
  }
  return static_cast<double>(all_ns);
}

void CheckCase(const CopiesCase& of, const GpuRun& without, const absl::StatusOr<GpuRun>& with,
               CheckRows* rows) {
  if (!with.ok()) return rows->Fail(of.name, std::string(with.status().message()));
  const TrainResult& result = with->result;
  const double out_ns = DurationOf(result, [](ActionKind k) { return k == ActionKind::kOffload; });
  const double back_ns = DurationOf(result, [](ActionKind k) { return k == ActionKind::kFetch; });
  const double slower = DurationOf(result, IsCompute) / DurationOf(without.result, IsCompute) - 1;
  // Behind the forwards every microbatch is on the host, or on its way.
  const auto bytes = static_cast<double>(result.memory.ranks[0].host);
  const auto took_ns = static_cast<double>(MedianOf(result.makespans_ns));
  const auto alone_ns = static_cast<double>(MedianOf(without.result.makespans_ns));
  const auto said_ns = static_cast<double>(MeasureBubbles(result.simulated).makespan_ns);
  const double exposed = std::max(0.0, (took_ns - alone_ns) / (out_ns + back_ns));
  const double off = said_ns / took_ns - 1;
  const bool equal = result.losses_nats == without.result.losses_nats;
  const std::string figure = absl::StrFormat(
      "%.1f ms (simulated: %+.1f %%), without copies %.1f ms; %.1f GB to the host at %.1f GB/s, "
      "and back at %.1f GB/s, %.1f %% of both exposed; computations beside them take %+.1f %%; "
      "losses %s",
      took_ns * 1e-6, 100 * off, alone_ns * 1e-6, bytes * 1e-9, bytes / out_ns, bytes / back_ns,
      100 * exposed, 100 * slower, equal ? "equal in every bit" : "differ");
  if (!equal) return rows->Fail(of.name, figure);
  rows->Hold(of.name, std::max(std::fabs(off) / kMostMispredicted, exposed / of.most_exposed),
             figure);
}

}  // namespace

void CheckCopies(const AnyShape& shape, int microbatches, int steps, CheckRows* rows) {
  const auto measure = [&](int behind) {
    return TrainOnGpu({.shape = shape, .steps = steps}, OrderOf(microbatches, behind));
  };
  const absl::StatusOr<GpuRun> without = measure(0);
  if (!without.ok()) return rows->Fail("no copies", std::string(without.status().message()));
  for (const CopiesCase& of : kCopyCases) CheckCase(of, *without, measure(of.behind), rows);
}

}  // namespace stringline
