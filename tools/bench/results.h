// The measurements of a suite so far, as a JSON file.
//
// {"form": 1, "suite", "date", "device", "versions", "settings": {"repetitions", "steps",
// "warm_up"},
//  "cases": [{"name", "side", "model", "schedule", "mesh", "precision", "key", "inputs", "reason",
//             "runs", "params", "tokens_per_step",
//             "repetitions": [{"date", "step_us", "processor_us", "loss", "resident_bytes",
//                              "allocated_bytes", "measured_bubble", "simulated_bubble",
//                              "control": {"late", "speed"}}],
//             "summary": {"step_us", "quartiles_us", "repetitions_us", "processor_us",
//                         "tokens_per_second", "resident_bytes", "allocated_bytes",
//                         "measured_bubble", "simulated_bubble", "loss"}}]}
//
// device, versions: machine.h; `versions` has torch, too, where torch ran beside. A case is
// measured on a `side`: "stringline", or "torch", whose cases follow ours. `key` is a hash of all
// inputs: `inputs`, the device and the versions. `reason` explains missing figures, or is null;
// `runs` names the side's schedule. `step_us` are the steps that count, `processor_us` their
// processor time over all ranks; in the summary medians over the repetitions of their medians.
// `resident_bytes` is of the single process of all our ranks, for torch of the largest rank's
// process; `allocated_bytes` is the device memory of all ranks. `loss` is the last step's, in nats.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/bench/control.h"
#include "tools/io/json.h"

namespace stringline {

inline constexpr char kOwnSide[] = "stringline";
inline constexpr char kTorchSide[] = "torch";

// A run of a case, from its start to its end.
struct Repetition {
  std::string date;
  std::vector<double> step_us;  // not empty
  double processor_us = 0;      // per step
  double loss = 0;
  int64_t resident_bytes = 0;
  std::optional<int64_t> allocated_bytes;
  std::optional<double> measured_bubble, simulated_bubble;  // for the last step
  ControlReading control;                                   // the worse of before and after
};

struct CaseResult {
  std::string name, side, model, schedule, mesh, precision;
  std::string key;
  Json inputs = Json::object();
  std::string reason;  // why figures are missing; "": no reason
  std::string runs;
  int64_t params = 0;
  int64_t tokens_per_step = 0;
  std::vector<Repetition> repetitions;

  bool IsMeasured() const { return !repetitions.empty(); }
};

struct SuiteResults {
  std::string suite, date;
  Json device, versions;
  int repetitions = 0, steps = 0, warm_up = 0;
  std::vector<CaseResult> cases;

  // The case with this name on this side, or null.
  const CaseResult* Find(const std::string& name, const std::string& side) const;
};

// Medians over the repetitions of a case, which has at least one repetition.
struct CaseSummary {
  double step_us = 0, first_quartile_us = 0, third_quartile_us = 0;  // quartiles of all steps
  std::vector<double> repetitions_us;                                // the median of each
  double processor_us = 0;
  double tokens_per_second = 0;
  int64_t resident_bytes = 0;
  std::optional<int64_t> allocated_bytes;
  std::optional<double> measured_bubble, simulated_bubble;
  double loss = 0;
  ControlReading control;  // medians
};
CaseSummary Summarise(const CaseResult& result);

Json AsJson(const SuiteResults& results);
// The file's text: AsJson in lines, for line-by-line comparison.
std::string Print(const SuiteResults& results);

// Errors: NotFound and the like; InvalidArgument naming a file that is cut short or holds something
// else.
absl::StatusOr<SuiteResults> ReadResults(const std::string& path);

}  // namespace stringline
