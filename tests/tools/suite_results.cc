#include "tests/tools/suite_results.h"

#include "absl/strings/str_cat.h"

namespace stringline {
namespace {

CaseResult MadeCase(const char* schedule, const char* side, double step_us) {
  CaseResult result;
  result.name = absl::StrCat("small ", schedule, " fp32");
  result.side = side;
  result.model = "small";
  result.schedule = schedule;
  result.precision = "fp32";
  result.key = absl::StrCat(schedule, side);
  result.inputs = {{"model", "{layers: 4}"}, {"steps", 3}};
  result.runs = side == absl::string_view(kOwnSide) ? "made" : "ScheduleMade";
  result.params = 1000;
  result.tokens_per_step = 64;
  for (int i = 0; i < 5; ++i) {
    Repetition of;
    of.date = "2026-01-02T03:04:05Z";
    of.step_us = {step_us, 0.9 * step_us, 1.1 * step_us};
    of.processor_us = 1.5 * step_us;
    of.loss = 5;
    of.resident_bytes = int64_t{1} << 26;
    if (side == absl::string_view(kOwnSide)) {
      of.allocated_bytes = int64_t{1} << 24;
      of.measured_bubble = 0.25;
      of.simulated_bubble = 0.2;
    }
    of.control = {0.01, 1000};
    result.repetitions.push_back(of);
  }
  return result;
}

}  // namespace

SuiteResults MadeResults() {
  SuiteResults results;
  results.suite = "made.yaml";
  results.date = "2026-01-02T03:04:05Z";
  results.device = {
      {"cpu", "a made CPU"}, {"cores", 2}, {"memory_bytes", int64_t{1} << 34}, {"gpu", nullptr}};
  results.versions = {{"stringline", "0.1.0"},
                      {"build", "1"},
                      {"compiler", "c++ 1"},
                      {"cuda", nullptr},
                      {"torch", "2.15.0"}};
  results.repetitions = 5;
  results.steps = 3;
  results.warm_up = 1;
  results.cases = {
      MadeCase("1f1b P=2 M=4", kOwnSide, 100'000), MadeCase("1f1b P=2 M=4", kTorchSide, 200'000),
      MadeCase("zb_h1 P=2 M=4", kOwnSide, 90'000), MadeCase("zb_h1 P=2 M=4", kTorchSide, 0)};
  results.cases[3].repetitions.clear();
  results.cases[3].reason = "no | torch\nhere";
  return results;
}

void SlowDown(double factor, CaseResult* result) {
  for (Repetition& of : result->repetitions) {
    for (double& us : of.step_us) us *= factor;
  }
}

}  // namespace stringline
