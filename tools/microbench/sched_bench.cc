// The time from a schedule's text to its simulated timeline, phase by phase:
//
//   sched_bench [SCHEDULE-FILE] [P=128 V=2 …]
//
// runs with M = 256, 512 and 1024 (or the M given) and prints, for each, the best of three runs,
// the time per lowered action, and the most memory the process has used so far.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "schedlang/check/check.h"
#include "schedlang/elaborate/elaborate.h"
#include "schedlang/lower/lower.h"
#include "schedlang/sim/simulate.h"
#include "schedlang/text/parse.h"
#include "tools/io/requests.h"

namespace stringline {
namespace {

constexpr const char* kPhases[] = {"parse", "elaborate", "lower", "check", "simulate", "measure"};
constexpr int kPhaseCount = 6;
constexpr int kRuns = 3;

struct Measured {
  double seconds[kPhaseCount] = {};
  size_t actions = 0;
  double total() const {
    double sum = 0;
    for (const double s : seconds) sum += s;
    return sum;
  }
};

// The time since the last call.
class Lap {
 public:
  double operator()() {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    return seconds;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

bool RunOnce(const Source& source, const std::vector<Parameter>& parameters, Measured* measured) {
  Diagnostics diagnostics;
  const auto complain = [&] {
    std::fputs(Render(diagnostics, source).c_str(), stderr);
    return false;
  };
  Lap lap;
  const std::optional<ast::File> file = Parse(source, &diagnostics);
  if (!file) return complain();
  measured->seconds[0] = lap();
  std::optional<Plan> plan = Elaborate(*file, "", parameters, &diagnostics);
  if (!plan) return complain();
  measured->seconds[1] = lap();
  const Plan lowered = Lower(*plan);
  plan.reset();
  measured->seconds[2] = lap();
  measured->actions = lowered.actions.size();
  if (!Check(lowered, &diagnostics)) return complain();
  measured->seconds[3] = lap();
  const absl::StatusOr<CostModel> costs = ResolveCosts(UnitCosts(), lowered);
  if (!costs.ok()) return false;
  const absl::StatusOr<Timeline> timeline = Simulate(lowered, *costs);
  if (!timeline.ok()) return false;
  measured->seconds[4] = lap();
  const Bubbles bubbles = MeasureBubbles(*timeline);
  measured->seconds[5] = lap();
  return bubbles.makespan_ns > 0;
}

double PeakMebibytes() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

bool RunFor(const Source& source, std::vector<Parameter> parameters, int64_t microbatches) {
  parameters.push_back({"M", microbatches});
  Measured best;
  for (int run = 0; run < kRuns; ++run) {
    Measured measured;
    if (!RunOnce(source, parameters, &measured)) return false;
    if (run == 0 || measured.total() < best.total()) best = measured;
  }
  std::printf("%6lld %10zu", static_cast<long long>(microbatches), best.actions);
  for (const double seconds : best.seconds) std::printf(" %9.1f", seconds * 1e3);
  std::printf(" %9.1f %9.0f %9.0f\n", best.total() * 1e3,
              best.total() * 1e9 / static_cast<double>(best.actions), PeakMebibytes());
  return true;
}

int Main(const std::string& path, const std::vector<std::string>& args) {
  const absl::StatusOr<Source> source = ReadSource(path);
  absl::StatusOr<std::vector<Parameter>> parameters = ParseParameters(args);
  if (!source.ok() || !parameters.ok()) {
    const std::string message((source.ok() ? parameters.status() : source.status()).message());
    std::fprintf(stderr, "sched_bench: %s\n", message.c_str());
    return 2;
  }
  std::vector<int64_t> microbatches = {256, 512, 1024};
  for (size_t i = 0; i < parameters->size(); ++i) {
    if ((*parameters)[i].name != "M") continue;
    microbatches = {(*parameters)[i].value};
    parameters->erase(parameters->begin() + static_cast<long>(i));
    break;
  }
  std::printf("%6s %10s", "M", "actions");
  for (const char* phase : kPhases) std::printf(" %9s", phase);
  std::printf(" %9s %9s %9s\n", "total ms", "ns/action", "peak MiB");
  for (const int64_t m : microbatches) {
    if (!RunFor(*source, *parameters, m)) return 1;
  }
  return 0;
}

}  // namespace
}  // namespace stringline

int main(int argc, char** argv) {
  const std::string path = argc > 1 ? argv[1] : "schedules/interleaved.sched";
  std::vector<std::string> args(argv + std::min(argc, 2), argv + argc);
  if (args.empty()) args = {"P=128", "V=2"};
  return stringline::Main(path, args);
}
