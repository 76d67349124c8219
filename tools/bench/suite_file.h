// A suite file: the cases that `stringline bench` measures, every model with every schedule, mesh
// and precision.
//
//   models:                                  # `model` of a run file, under names of their own
//     small: {layers: 8, width: 96, heads: 3, context: 128}
//   schedules:                               # `schedule` of a run file; `file` may be a name of
//     - {file: 1f1b, P: 4, M: 8}             # the library
//   data: {text: words.txt, microbatch: 4}   # of a run file, as are the next two
//   meshes: [{}, {data: 2}]                  # [only {}]
//   precision: [fp32, bf16]                  # [only fp32]
//   device: cpu                              # [auto]
//   repetitions: 5                           # of every case, each a process of its own [5]
//   steps: 10                                # of a repetition that count [5]
//   warm_up: 2                               # steps before them [2]
//   beside: torch                            # the same in torch.distributed.pipelining [nothing]
//   only: [{model: small}]                   # cases that one of these fits [all]
//   without: [{schedule: 1f1b, mesh: {data: 2}, precision: bf16}]   # and none of these [none]
//
// In brackets: a default. Relative paths count from the suite file. A mistake in a part shared with
// run files gets the message of run files, with the line of the suite file.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/run/run_config.h"

namespace stringline {

inline constexpr char kPlanOfCase[] = "case.plan";

struct SuiteCase {
  std::string name;       // "small 1f1b P=4 M=8 data=2 fp32"
  std::string model;      // its name
  std::string schedule;   // "1f1b P=4 M=8"
  std::string mesh;       // "data=2", "" for one copy
  std::string precision;  // "fp32"
  // The run file of the case; schedule_file may be a name of the library.
  RunConfig config;
  std::string sizes;  // the model's sizes as written in the suite, on one line
  // With whole paths, but for the schedule's: kPlanOfCase beside the run file.
  std::string run_file;
};

struct Suite {
  std::string path;
  std::vector<SuiteCase> cases;  // in the order of models, schedules, meshes, precision
  int repetitions = 5;
  int steps = 5;
  int warm_up = 2;
  bool beside_torch = false;
};

// The rate of every step: no run of a suite is long enough for the rate to matter.
inline constexpr double kSuiteLearningRate = 1e-3;

// Errors: InvalidArgument "FILE:LINE: …"; NotFound.
absl::StatusOr<Suite> ReadSuite(const std::string& path);

}  // namespace stringline
