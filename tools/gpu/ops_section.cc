// The time of every op in a step of one microbatch and its update, between events, beside the
// computed one where a file has it.
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "executor/cuda/backend/cuda_backend.h"
#include "executor/run/train.h"
#include "executor/training/trainer.h"
#include "nlohmann/json.hpp"
#include "schedlang/ask/library_plan.h"
#include "schedlang/base/status.h"
#include "tools/gpu/gpu_run.h"
#include "tools/gpu/sections.h"
#include "tools/gpu/timed_kernels.h"

namespace stringline {
namespace {

using Times = std::map<std::string, OpTime>;

// The CUDA backend with timed kernels.
class TimedBackend final : public Backend {
 public:
  explicit TimedBackend(std::unique_ptr<Backend> timed)
      : timed_(std::move(timed)), kernels_(timed_->kernels()) {}
  Device* device() override { return timed_->device(); }
  Groups* groups() override { return timed_->groups(); }
  TimedKernels* kernels() override { return &kernels_; }
  AvailableMemory available(int place) override { return timed_->available(place); }

 private:
  const std::unique_ptr<Backend> timed_;
  TimedKernels kernels_;
};

// The times of the last of a few steps: the first ones warm up.
absl::StatusOr<Times> TimesOfStep(const Plan& plan, const AnyShape& shape) {
  SL_ASSIGN_OR_RETURN(std::unique_ptr<Backend> cuda, CudaBackend::Make());
  auto backend = std::make_unique<TimedBackend>(std::move(cuda));
  TimedKernels* const kernels = backend->kernels();
  RunConfig config;
  config.shape = shape;
  config.steps = 4;
  config.capture = false;
  Times times;
  TrainHooks hooks;
  hooks.after_step = [&times, kernels](const TrainStep&, Trainer& trainer) {
    SL_RETURN_IF_ERROR(trainer.device()->Synchronize());
    SL_ASSIGN_OR_RETURN(times, kernels->Take());
    return absl::OkStatus();
  };
  SL_RETURN_IF_ERROR(Train(config, plan, RandomText(1 << 20), hooks, std::move(backend)).status());
  return times;
}

// {op: us}; empty without the file.
absl::StatusOr<std::map<std::string, double>> ReadPaper(const std::string& path) {
  std::map<std::string, double> us;
  if (!std::filesystem::exists(path)) return us;
  std::ifstream file(path);
  const auto json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::InvalidArgumentError(absl::StrCat(path, " is not {op: us}"));
  for (const auto& [op, value] : json.items()) {
    if (!value.is_number()) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": ", op, " has no number"));
    }
    us[op] = value.get<double>();
  }
  return us;
}

}  // namespace

void CheckOps(const std::string& folder, const SpeedCase& model, const std::string& paper_path,
              CheckRows* rows) {
  const std::optional<Plan> plan = PlanOfSchedule(folder, "1f1b", 1, 1);
  if (!plan.has_value()) return rows->Fail(model.name, "no plan of 1f1b for one rank");
  const absl::StatusOr<Times> times = TimesOfStep(*plan, model.shape);
  if (!times.ok()) return rows->Fail(model.name, std::string(times.status().message()));
  const absl::StatusOr<std::map<std::string, double>> read = ReadPaper(paper_path);
  std::map<std::string, double> paper;
  if (!read.ok()) {
    rows->Fail("paper.json", std::string(read.status().message()));
  } else if (paper = *read; paper.empty() && !paper_path.empty()) {
    rows->Skip("paper.json", absl::StrCat("there is none at ", paper_path));
  }
  OpTime all;
  for (const auto& [op, time] : *times) {
    CheckFigures figures = {.us = time.us};
    std::string said = absl::StrFormat("%.1f us in %d launches", time.us, time.launches);
    if (const auto found = paper.find(op); found != paper.end()) {
      figures.paper_us = found->second;
      absl::StrAppendFormat(&said, "; on paper %.1f us", found->second);
      paper.erase(found);
    }
    rows->Pass(absl::StrCat(model.name, ": ", op), said, figures);
    all.launches += time.launches;
    all.us += time.us;
  }
  for (const auto& [op, us] : paper) {
    rows->Skip(absl::StrCat(model.name, ": ", op),
               absl::StrFormat("on paper %.1f us, and not in this step", us));
  }
  rows->Pass(absl::StrCat(model.name, ": all, one microbatch"),
             absl::StrFormat("%.1f us in %d launches", all.us, all.launches), {.us = all.us});
}

}  // namespace stringline
