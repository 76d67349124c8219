// The speed of checks and simulations, from a text to what is printed:
//
//   sim_bench [--folder SCHEDULES] [--against FILE]
//
// 1. Large steps: checked, simulated, and simulated again with other costs (ask/cost_trials.h).
// 2. The simulator alone, on one core: a plan again and again, with its wires known.
// 3. A sweep of 1,000 steps of some 10,000 computations each, on all cores.
//
// A line for each: the processor time and the time by the clock, the least of five runs. FILE holds
// what an earlier sim_bench printed, of another commit say: then each line also has the ratios of
// the earlier times to these.
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schedlang/ask/cost_trials.h"
#include "schedlang/ask/sim_sweep.h"
#include "schedlang/base/kept_memory.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/sim/simulate.h"
#include "tools/answers/proof.h"
#include "tools/answers/summary.h"

namespace stringline {
namespace {

constexpr int kBenchRuns = 5;

struct BenchTimes {
  double processor_s = 1e9;
  double clock_s = 1e9;
};

double ProcessorSeconds() {
  timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

BenchTimes LeastTimes(const std::function<void()>& work) {
  BenchTimes least;
  for (int run = 0; run < kBenchRuns; ++run) {
    const auto start = std::chrono::steady_clock::now();
    const double start_s = ProcessorSeconds();
    work();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    least.processor_s = std::min(least.processor_s, ProcessorSeconds() - start_s);
    least.clock_s = std::min(least.clock_s, took.count());
  }
  return least;
}

// Prints lines as "check zb_v P=512 M=2048: processor 1.234 s, clock 0.987 s", with ratios to the
// lines of an earlier run.
class BenchLines {
 public:
  explicit BenchLines(const std::string& against) {
    if (against.empty()) return;
    std::ifstream file(against);
    for (std::string line; std::getline(file, line);) {
      const size_t colon = line.find(": processor ");
      BenchTimes times;
      if (colon != std::string::npos &&
          std::sscanf(line.c_str() + colon, ": processor %lf s, clock %lf s", &times.processor_s,
                      &times.clock_s) == 2) {
        earlier_[line.substr(0, colon)] = times;
      }
    }
    if (!earlier_.empty()) return;
    std::fprintf(stderr, "sim_bench: %s has no line of an earlier sim_bench\n", against.c_str());
    std::exit(2);
  }

  void Measure(const std::string& name, const std::function<void()>& work) const {
    const BenchTimes times = LeastTimes(work);
    std::string line = absl::StrFormat("%s: processor %.3f s, clock %.3f s", name,
                                       times.processor_s, times.clock_s);
    if (const auto before = earlier_.find(name); before != earlier_.end()) {
      absl::StrAppendFormat(&line, "; before %.2f and %.2f times as long",
                            before->second.processor_s / times.processor_s,
                            before->second.clock_s / times.clock_s);
    }
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  }

 private:
  std::map<std::string, BenchTimes> earlier_;  // by name
};

template <typename T>
T Value(absl::StatusOr<T> value) {
  SL_CHECK(value.ok()) << value.status();
  return *std::move(value);
}

void BenchStep(const BenchLines& lines, const std::string& folder, const std::string& schedule,
               int ranks, int microbatches) {
  const PlanRequest request{.file = absl::StrCat(folder, "/", schedule, ".sched"),
                            .parameters = {{"P", ranks}, {"M", microbatches}}};
  const std::string title = absl::StrCat(schedule, " P=", ranks, " M=", microbatches);
  lines.Measure("check " + title, [&] {
    const Session checked = Value(OpenCheckedPlan(request, {}));
    std::ostringstream out;
    PrintProof(*checked.plan, checked.source, checked.checked_for, out);
  });
  lines.Measure("sim " + title, [&] {
    std::ostringstream out;
    PrintSummary(Value(OpenSimulated(request, {}, {})), out);
  });
  CostTrials trials(Value(OpenPlan(request)), {});
  int trial = 0;
  const auto costs = [&trial] {
    return CostRequest{.text = absl::StrCat("F=10,B=", 15 + trial++ % 10, ",I=12,W=8,p2p=1")};
  };
  (void)Value(trials.Simulate(costs()));
  lines.Measure("again " + title, [&] { (void)Value(trials.Simulate(costs())); });
  const Session& step = *Value(trials.Simulate(costs()));
  lines.Measure("simulator alone " + title,
                [&] { (void)Value(Simulate(*step.plan, *step.links, *step.costs)); });
}

void BenchSweep(const BenchLines& lines, const std::string& folder) {
  SweepQuestion question{.ranges = {*ParseSweepRange("M=350..599")}, .fixed = {{"P", 8}}};
  for (const char* const name : {"1f1b", "gpipe", "zb_h1", "looped_bfs"}) {
    question.schedules.push_back({.file = folder + "/" + name + ".sched"});
  }
  std::optional<BrokenFile> broken;
  const auto sweep = Value(ListSweep(question, &broken));
  SL_CHECK(sweep) << "the schedules have findings";
  lines.Measure(absl::StrCat("sweep of ", sweep->plans(), " steps"), [&] {
    (void)Value(SimulateAll(*sweep, {UnitCosts(), {}}, CommLayout::kEdge));
  });
}

}  // namespace
}  // namespace stringline

int main(int argc, char** argv) {
  std::string folder = "schedules", against;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    std::string* const value = argument == "--folder"    ? &folder
                               : argument == "--against" ? &against
                                                         : nullptr;
    if (value == nullptr || i + 1 == argc) {
      std::fprintf(stderr, "usage: sim_bench [--folder SCHEDULES] [--against FILE]\n");
      return 2;
    }
    *value = argv[++i];
  }
  stringline::KeepLargeMemory();
  const stringline::BenchLines lines(against);
  stringline::BenchStep(lines, folder, "interleaved", 128, 1024);
  stringline::BenchStep(lines, folder, "zb_v", 512, 2048);
  stringline::BenchSweep(lines, folder);
}
