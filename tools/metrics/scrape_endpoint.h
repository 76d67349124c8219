// An address at which Prometheus finds the figures of a run's last step, as gauges:
// stringline_step, stringline_loss, stringline_rank_busy{rank="0", name="rank 0 on gpu1"}, ….
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/metrics/step_metrics.h"

namespace stringline {

class ScrapeEndpoint {
 public:
  // "9400", on the loopback alone, or "HOST:9400". Errors: another text; an address that is taken;
  // Unimplemented in a build without the library.
  static absl::StatusOr<std::unique_ptr<ScrapeEndpoint>> Open(const std::string& address);
  virtual ~ScrapeEndpoint() = default;
  virtual void Set(const StepMetrics& metrics) = 0;
};

}  // namespace stringline
