// A mixture of experts on four ranks of one GPU, with a deliberately slow wire: the share of the
// all-to-alls that is hidden, with pairs of a forward and a backward and without. The wire's
// latency makes the all-to-alls 40 % of a step of a schedule that hides none.
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schedlang/ask/library_plan.h"
#include "schedlang/base/status.h"
#include "schedlang/costs/median.h"
#include "schedlang/lower/message_order.h"
#include "schedlang/report/network_time.h"
#include "tools/gpu/gpu_run.h"
#include "tools/gpu/sections.h"

namespace stringline {
namespace {

constexpr double kNetworkShare = 0.4;
constexpr double kMostExposed = 0.2;
constexpr int kRanks = 2;

absl::StatusOr<GpuRun> RunWith(const Plan& plan, const AnyShape& shape, int64_t latency_ns) {
  RunConfig config;
  config.shape = shape;
  config.steps = 8;
  config.mesh.expert = 2;
  config.link.latency_ns = latency_ns;
  return TrainOnGpu(config, ReduceGradients(plan));
}

}  // namespace

void CheckOverlap(const std::string& folder, const DecoderShape& shape, int microbatches,
                  CheckRows* rows) {
  const std::optional<Plan> alone = PlanOfSchedule(folder, "1f1b", kRanks, microbatches);
  const std::optional<Plan> pairs = PlanOfSchedule(folder, "dualpipe_v", kRanks, microbatches);
  if (!alone.has_value() || !pairs.has_value()) {
    return rows->Fail("schedules", "no plan of 1f1b or dualpipe_v");
  }
  AnyShape model = shape;
  model.dtype = DType::kBF16;
  const auto fast = RunWith(*alone, model, 0);
  if (!fast.ok()) return rows->Fail("1f1b", std::string(fast.status().message()));
  // A dispatch and a combine forward, and as many backward, one call each.
  const double exchanges = 4.0 * shape.layers / kRanks * microbatches;
  const auto latency_ns =
      static_cast<int64_t>(kNetworkShare / (1 - kNetworkShare) *
                           static_cast<double>(MedianOf(fast->result.makespans_ns)) / exchanges);
  for (const bool paired : {false, true}) {
    const std::string name = paired ? "dualpipe_v, F & B" : "1f1b, no pairs";
    const auto run = RunWith(paired ? *pairs : *alone, model, latency_ns);
    if (!run.ok()) {
      rows->Fail(name, std::string(run.status().message()));
      continue;
    }
    const NetworkSums& network = run->result.network;
    const double exposed =
        static_cast<double>(network.exposed_ns) / static_cast<double>(network.network_ns);
    const std::string figure = absl::StrFormat(
        "%.1f %% of the all-to-alls exposed, %.1f us each; a step of %.2f ms", 100 * exposed,
        static_cast<double>(latency_ns) * 1e-3, static_cast<double>(run->step_ns) * 1e-6);
    if (paired && exposed > kMostExposed) {
      rows->Fail(name, figure);
    } else {
      rows->Pass(name, figure);
    }
  }
}

}  // namespace stringline
