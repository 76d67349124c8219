// A mixture of experts on four ranks of one GPU, over a deliberately slow wire: the share of the
// all-to-alls that is hidden without overlap, by pairs, by chunks, and by both. The wire's rate
// makes the all-to-alls 40 % of a step of a schedule that hides none. A simulation of the step says
// the share that its schedule can hide.
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
constexpr double kMoreExposed = 0.05;  // than simulated, of the all-to-alls
constexpr int kRanks = 2;
constexpr int kCopies = 2;  // the experts are shared out over them

struct OverlapCase {
  const char* name;
  const char* schedule;
  int chunks;
};

constexpr OverlapCase kCases[] = {{"1f1b, no overlap", "1f1b", 1},
                                  {"dualpipe_v, F & B", "dualpipe_v", 1},
                                  {"1f1b, chunks 2", "1f1b", 2},
                                  {"dualpipe_v, F & B and chunks 2", "dualpipe_v", 2}};

double ExposedShare(const NetworkSums& network) {
  return static_cast<double>(network.exposed_ns) / static_cast<double>(network.network_ns);
}

// The bytes of a dispatch that go to the other copy, if all experts get as many rows.
double BytesMoved(const DecoderShape& shape) {
  return double{sizeof(uint16_t)} * shape.microbatch * shape.context * shape.moe.top_k *
         shape.width * (kCopies - 1) / kCopies;
}

}  // namespace

void CheckOverlap(const std::string& folder, const DecoderShape& shape, int microbatches, int steps,
                  CheckRows* rows) {
  RunConfig config = {.shape = shape};
  config.shape.dtype = DType::kBF16;
  config.steps = steps;
  config.mesh.expert = kCopies;
  const auto plan_of = [&](const OverlapCase& one) {
    std::optional<Plan> plan = PlanOfSchedule(folder, one.schedule, kRanks, microbatches);
    if (!plan.has_value()) return plan;
    plan->chunks = one.chunks;
    return std::optional<Plan>(ReduceGradients(*plan));
  };
  const std::optional<Plan> alone = plan_of(kCases[0]);
  if (!alone.has_value()) return rows->Fail(kCases[0].name, "no plan");
  const auto fast = TrainOnGpu(config, *alone);
  if (!fast.ok()) return rows->Fail(kCases[0].name, std::string(fast.status().message()));
  // A dispatch and a combine forward, and as many backward, one call each.
  const double exchanges = 4.0 * shape.layers / kRanks * microbatches;
  const double each_ns = kNetworkShare / (1 - kNetworkShare) *
                         static_cast<double>(MedianOf(fast->result.makespans_ns)) / exchanges;
  config.link.bytes_per_s = BytesMoved(shape) / (each_ns * 1e-9);

  for (const OverlapCase& one : kCases) {
    const std::optional<Plan> plan = plan_of(one);
    if (!plan.has_value()) {
      rows->Fail(one.name, "no plan");
      continue;
    }
    const auto run = TrainOnGpu(config, *plan);
    if (!run.ok()) {
      rows->Fail(one.name, std::string(run.status().message()));
      continue;
    }
    const NetworkSums& network = run->result.network;
    const NetworkSums simulated = MeasureNetwork(*plan, run->result.simulated).all;
    const double exposed = ExposedShare(network);
    const double foreseen = ExposedShare(simulated);
    const std::string figure = absl::StrFormat(
        "%.1f %% of the all-to-alls exposed (simulated: %.1f %%), %.1f %% of the transfer hidden; "
        "a "
        "step of %.2f ms (simulated: %+.1f %%); the wire has %.2f GB/s",
        100 * exposed, 100 * foreseen, 100 * network.hidden_share(),
        static_cast<double>(run->step_ns) * 1e-6, 100 * run->result.misprediction,
        config.link.bytes_per_s * 1e-9);
    if (exposed > foreseen + kMoreExposed) {
      rows->Fail(one.name, figure);
    } else {
      rows->Pass(one.name, figure);
    }
  }
}

}  // namespace stringline
