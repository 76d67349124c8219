// The figures of a running training, noted every so many steps where `metrics` of the run file
// says. The first process alone has one: it knows the times of all ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/run/run_config.h"
#include "executor/run/train.h"
#include "tools/metrics/event_file.h"
#include "tools/metrics/metrics_lines.h"
#include "tools/metrics/scrape_endpoint.h"
#include "tools/metrics/slow_actions.h"
#include "tools/metrics/step_metrics.h"

namespace stringline {

// The file of the lines: as the run file says, or metrics.jsonl in the run's folder.
std::string MetricsFile(const RunConfig& config, const std::string& out);

class RunMetrics {
 public:
  // Takes a line for people about a rank that has become slow.
  using Warn = std::function<void(const std::string&)>;

  // Null for a run without `metrics`. `step`: the number of steps done before, of a run that goes
  // on. Errors name the key, or the file.
  static absl::StatusOr<std::unique_ptr<RunMetrics>> Open(const RunConfig& config,
                                                          const std::string& out, int64_t step,
                                                          Warn warn);
  // After every step; of a plan that performs several at once, after each of them.
  absl::Status Add(const TrainStep& step, Trainer& trainer);

 private:
  RunMetrics(const RunConfig& config, MetricsLines lines, Warn warn)
      : config_(config), lines_(std::move(lines)), warn_(std::move(warn)) {}
  absl::Status Write(const StepMetrics& metrics);
  void WarnOf(const SlowAction& slow, Trainer& trainer) const;

  const RunConfig& config_;
  MetricsLines lines_;
  std::optional<EventFile> events_;
  std::unique_ptr<ScrapeEndpoint> endpoint_;
  const Warn warn_;
  SlowActions slow_;
  int64_t last_ns_ = 0;  // the end of the step before; 0: there was none
};

}  // namespace stringline
