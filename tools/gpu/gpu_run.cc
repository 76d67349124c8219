#include "tools/gpu/gpu_run.h"

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "executor/cuda/backend/cuda_backend.h"
#include "executor/cuda/gpus.h"
#include "executor/training/trainer.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"

namespace stringline {
std::string RandomText(size_t bytes) {
  std::mt19937 random(1);
  std::string text(bytes, ' ');
  for (char& byte : text) byte = static_cast<char>(random());
  return text;
}

absl::StatusOr<GpuRun> TrainOnGpu(const RunConfig& config, const Plan& plan) {
  SL_CHECK(config.steps >= 4) << config.steps;
  CudaSettings settings;
  settings.ranks = plan.ranks() * config.mesh.coordinates();
  settings.sms_per_rank = config.sms_per_rank;
  settings.deterministic = config.deterministic;
  settings.timeout_ns = 60'000'000'000;
  settings.link = config.link;
  SL_ASSIGN_OR_RETURN(settings.gpus, cuda::ChooseGpus(config.gpus, settings.ranks));
  SL_ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend, CudaBackend::Make(settings));
  std::vector<int64_t> ends_ns;
  GpuRun run;
  TrainHooks hooks;
  hooks.start = [&run](Trainer& trainer) {
    run.kernels = trainer.DescribeKernels();
    return absl::OkStatus();
  };
  hooks.after_step = [&ends_ns](const TrainStep&, Trainer&) {
    ends_ns.push_back(NowNs());
    return absl::OkStatus();
  };
  const std::string text = RandomText(1 << 20);
  SL_ASSIGN_OR_RETURN(run.result, Train(config, plan, text, hooks, std::move(backend)));
  std::vector<int64_t> lengths_ns;
  for (size_t i = 3; i < ends_ns.size(); ++i) lengths_ns.push_back(ends_ns[i] - ends_ns[i - 1]);
  std::nth_element(lengths_ns.begin(), lengths_ns.begin() + lengths_ns.size() / 2,
                   lengths_ns.end());
  run.step_ns = lengths_ns[lengths_ns.size() / 2];
  return run;
}

}  // namespace stringline
