// What a suite has measured so far, as the JSON file that it leaves.
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
// device, versions: machine.h; `versions` has torch, too, where it ran beside. A case is measured
// on a `side`: "stringline", or "torch", whose cases follow those they stand beside. `key` is a
// hash of all that went in: `inputs`, the device and the versions. `reason` says why there is
// nothing, or is null; `runs` what the side performed.
// `step_us` are the steps that count, `processor_us` what they took of the processors, all ranks
// together; in the summary medians over the repetitions of their medians. `resident_bytes` is of
// the one process that all our ranks share, of torch the largest of its processes, one a rank;
// `allocated_bytes` is what the device gave to all ranks. `loss` is the last step's, in nats.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/json.h"
#include "tools/suite/control.h"

namespace stringline {

inline constexpr char kOwnSide[] = "stringline";
inline constexpr char kTorchSide[] = "torch";

// A run of a case, from its start to its end.
struct Repetition {
  std::string date;
  std::vector<double> step_us;  // not empty
  double processor_us = 0;      // of a step
  double loss = 0;
  int64_t resident_bytes = 0;
  std::optional<int64_t> allocated_bytes;
  std::optional<double> measured_bubble, simulated_bubble;  // of the last step
  ControlReading control;                                   // the worse of before and after
};

struct CaseResult {
  std::string name, side, model, schedule, mesh, precision;
  std::string key;
  Json inputs = Json::object();
  std::string reason;  // why there is nothing; "" where nothing is wrong
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

  // The case of that name on that side, or null.
  const CaseResult* Find(const std::string& name, const std::string& side) const;
};

// Of the repetitions, which are not none.
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
// The file's text: AsJson in lines that can be compared.
std::string Print(const SuiteResults& results);

// Errors: NotFound and the like, InvalidArgument naming the file for one that is cut short or holds
// something else.
absl::StatusOr<SuiteResults> ReadResults(const std::string& path);

}  // namespace stringline
