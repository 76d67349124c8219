// The speed of the simulator:
//
//   sim_bench [SCHEDULES-FOLDER]
//
// 1. One plan again and again: interleaved, P=128 M=1024, 1.6 million lowered actions, on one core;
//    lowered actions a second, with its wiring known and with it made anew. Aim: 20 million.
// 2. A sweep of 1,000 steps of some 10,000 computations each, on all cores, from text to makespan.
//    Aim: 2 seconds on two cores.
//
// The best of five runs each. Exit status 1 if an aim is missed.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "schedlang/ask/sim_sweep.h"
#include "schedlang/elaborate/elaborate.h"
#include "schedlang/lower/lower.h"
#include "schedlang/sim/simulate.h"
#include "schedlang/text/parse.h"

namespace stringline {
namespace {

constexpr int kBenchRuns = 5;

double BestSeconds(const std::function<void()>& work) {
  double best = 1e9;
  for (int run = 0; run < kBenchRuns; ++run) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count());
  }
  return best;
}

ast::File ReadSchedule(const std::string& path) {
  const auto source = ReadSource(path);
  Diagnostics findings;
  if (!source.ok()) {
    std::fprintf(stderr, "sim_bench: %s\n", std::string(source.status().message()).c_str());
    std::exit(2);
  }
  std::optional<ast::File> file = Parse(*source, &findings);
  if (!file) std::exit(2);
  return *std::move(file);
}

bool BenchOnePlan(const std::string& folder) {
  const ast::File file = ReadSchedule(folder + "/interleaved.sched");
  Diagnostics findings;
  const Plan lowered = Lower(*Elaborate(file, "", {{"P", 128}, {"M", 1024}}, &findings));
  const CostModel costs = *ResolveCosts(UnitCosts(), lowered);
  const Wiring wiring = WiringOf(lowered, CommLayout::kEdge);
  const auto million = static_cast<double>(lowered.actions.size()) / 1e6;
  const double again = BestSeconds([&] { (void)Simulate(lowered, wiring, costs); });
  const double anew = BestSeconds([&] { (void)Simulate(lowered, costs); });
  std::printf("one plan of %.2f million actions: %.1f million/s, with its wiring %.1f million/s\n",
              million, million / again, million / anew);
  return million / again >= 20;
}

bool BenchSweep(const std::string& folder) {
  SweepQuestion question{.ranges = {*ParseSweepRange("M=350..599")}, .fixed = {{"P", 8}}};
  for (const char* const name : {"1f1b", "gpipe", "zb_h1", "looped_bfs"}) {
    question.schedules.push_back({.file = folder + "/" + name + ".sched"});
  }
  std::optional<BrokenFile> broken;
  const auto sweep = ListSweep(question, &broken);
  if (!sweep.ok() || !*sweep) std::exit(2);
  const int threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  int64_t actions = 0;
  const double seconds = BestSeconds([&] {
    const auto steps = SimulateAll(**sweep, {UnitCosts(), {}}, CommLayout::kEdge, threads);
    actions = 0;
    for (const SweptStep& step : *steps) actions += step.actions;
  });
  const auto count = static_cast<double>((*sweep)->plans());
  std::printf("%.0f steps of %.0f computations: %.2f s on %d cores\n", count,
              static_cast<double>(actions) / count, seconds, threads);
  return seconds * threads <= 4;
}

}  // namespace
}  // namespace stringline

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "schedules";
  const bool one = stringline::BenchOnePlan(folder);
  const bool sweep = stringline::BenchSweep(folder);
  return one && sweep ? 0 : 1;
}
