// The placement of ranks of one process changes no loss: with multiprocessors of their own, and on
// several GPUs if the machine has them.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "executor/cuda/gpus.h"
#include "schedlang/ask/library_plan.h"
#include "tools/gpu/gpu_run.h"
#include "tools/gpu/sections.h"

namespace stringline {
namespace {

constexpr int kPlacedRanks = 4;
// Tolerance for losses of products that are cut differently and add up in another order.
constexpr double kLossTolerance = 1e-3;

RunConfig PlacedConfig(const AnyShape& shape) {
  RunConfig config;
  config.shape = shape;
  config.steps = 6;
  config.optimizer.learning_rate = 0;  // every step's loss is that of the initial parameters
  return config;
}

double Milliseconds(const GpuRun& run) { return static_cast<double>(run.step_ns) * 1e-6; }

std::string NotCaptured(const GpuRun& run) {
  const std::string& why = run.result.not_captured;
  return why.empty() ? "" : absl::StrCat("; not captured: ", why);
}

void CheckOwnSms(const Plan& plan, const RunConfig& config, const GpuRun& shared, CheckRows* rows) {
  int sms = 0;
  (void)cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0);
  RunConfig own = config;
  own.sms_per_rank = sms / kPlacedRanks / 8 * 8;
  const auto run = TrainOnGpu(own, plan);
  if (!run.ok()) return rows->Fail("sms_per_rank", std::string(run.status().message()));
  double apart = 0;
  for (size_t i = 0; i < run->result.losses_nats.size(); ++i) {
    const double expected = shared.result.losses_nats[i];
    const double off = std::fabs(run->result.losses_nats[i] / expected - 1);
    if (!(off <= apart)) apart = off;  // also if NaN
  }
  const std::string said = absl::StrFormat(
      "%d SMs a rank: %.2f ms a step, %.2f ms where all share; losses %.1e apart%s",
      own.sms_per_rank, Milliseconds(*run), Milliseconds(shared), apart, NotCaptured(*run));
  rows->Hold("sms_per_rank", apart / kLossTolerance, said);
}

void CheckSeveralGpus(const Plan& plan, const RunConfig& config, const GpuRun& one,
                      CheckRows* rows) {
  const int there = cuda::CountGpus().value_or(0);
  if (there < 2) return rows->Skip("gpus", "the machine has one GPU");
  RunConfig several = config;
  several.gpus.count = std::min(there, kPlacedRanks);
  const auto run = TrainOnGpu(several, plan);
  if (!run.ok()) return rows->Fail("gpus", std::string(run.status().message()));
  const std::string said =
      absl::StrFormat("%d GPUs: %.2f ms a step, %.2f ms on one%s", several.gpus.count,
                      Milliseconds(*run), Milliseconds(one), NotCaptured(*run));
  if (run->result.losses_nats == one.result.losses_nats) return rows->Pass("gpus", said);
  rows->Fail("gpus", absl::StrCat("losses differ from those on one GPU; ", said));
}

}  // namespace

void CheckPlaces(const std::string& folder, const AnyShape& shape, CheckRows* rows) {
  const std::optional<Plan> plan = PlanOfSchedule(folder, "1f1b", kPlacedRanks, 2 * kPlacedRanks);
  const RunConfig config = PlacedConfig(shape);
  const auto one = TrainOnGpu(config, *plan);
  if (!one.ok()) return rows->Fail("one GPU", std::string(one.status().message()));
  CheckOwnSms(*plan, config, *one, rows);
  CheckSeveralGpus(*plan, config, *one, rows);
}

}  // namespace stringline
