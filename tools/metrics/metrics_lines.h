// The figures of a run's steps as JSON lines: what `metrics.file` says, and `stringline watch`
// reads (tools/JSON.md).
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/io/json.h"
#include "tools/metrics/step_metrics.h"

namespace stringline {

Json MetricsAsJson(const StepMetrics& metrics, double time_s);

class MetricsLines {
 public:
  // A new file, in place of an earlier one; where a run goes on behind `step`, with the earlier
  // one's whole lines up to that step. Errors name the path.
  static absl::StatusOr<MetricsLines> Open(const std::string& path, int64_t step);
  MetricsLines(MetricsLines&& other) noexcept;
  MetricsLines& operator=(MetricsLines&&) = delete;
  ~MetricsLines();

  // The system has the line when the call returns.
  absl::Status Add(const Json& line);

 private:
  MetricsLines(int file, std::string path) : file_(file), path_(std::move(path)) {}
  int file_ = -1;
  std::string path_;
};

// The last whole line of the file. NotFound without one.
absl::StatusOr<Json> LastMetricsLine(const std::string& path);

}  // namespace stringline
