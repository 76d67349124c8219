// A step of every schedule of the library is trained on the GPU and on the CPU, from the same
// initial values and data: losses and gradients must be close, and two runs on the GPU equal. Of a
// plan that updates its parameters, all steps are performed, and the parameters are compared.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "executor/cuda/backend/cuda_backend.h"
#include "executor/training/trainer.h"
#include "schedlang/ask/library_plan.h"
#include "schedlang/base/status.h"
#include "schedlang/orders/place_ahead.h"
#include "stages/layers.h"
#include "stages/models/model.h"
#include "tools/gpu/sections.h"

namespace stringline {
namespace {

constexpr int kVocabulary = 256;
constexpr double kTolerance = 1e-5;  // relative to the largest value

AnyShape CheckedModel(bool experts, int layers) {
  DecoderShape shape;
  shape.layers = layers;
  shape.width = 32;
  shape.heads = 4;
  shape.kv_heads = 2;
  shape.head_dim = 8;
  shape.hidden = 80;
  shape.context = 24;
  shape.microbatch = 2;
  shape.vocabulary = kVocabulary;
  if (!experts) {
    return GptShape{.layers = layers,
                    .width = 32,
                    .heads = 4,
                    .context = 24,
                    .vocabulary = kVocabulary,
                    .microbatch = 2};
  }
  shape.moe.experts = 4;
  shape.moe.top_k = 2;
  shape.moe.expert_hidden = 24;
  return shape;
}

// The loss and all gradients of a step; or, of a plan with UPDATEs, the sum of its losses and the
// parameters behind them.
struct StepNumbers {
  double loss = 0;
  std::vector<std::vector<float>> values;
  friend bool operator==(const StepNumbers&, const StepNumbers&) = default;
};

absl::StatusOr<StepNumbers> OneStep(const Plan& plan, bool experts,
                                    std::unique_ptr<Backend> backend) {
  const size_t pipes = std::max<size_t>(1, plan.pipes.size());
  const auto stages = static_cast<int>(plan.stages.size() / pipes);
  SL_ASSIGN_OR_RETURN(const std::vector<int> layers, SplitEven(stages, stages));
  RecomputePolicy recompute;
  for (int s = 0; s < stages; ++s) {
    const bool remakes = plan.stages[static_cast<size_t>(s)].remakes;
    recompute.by_stage.push_back(remakes ? Recompute::kAll : Recompute::kNone);
    recompute.remakes.push_back(remakes);
  }
  SL_ASSIGN_OR_RETURN(const std::vector<StageProgram> pipe,
                      BuildModelStages(CheckedModel(experts, stages), layers,
                                       {.recompute = recompute, .slices = plan.slices}));
  std::vector<StageProgram> programs;
  for (size_t p = 0; p < pipes; ++p) programs.insert(programs.end(), pipe.begin(), pipe.end());
  const bool updates = HasUpdates(plan);
  TrainerSettings settings = {.seed = 7, .record = false};
  // An epsilon by which an update is about in proportion to its gradient: rounding stays rounding.
  settings.optimizer = {.epsilon = 1};
  if (updates) settings.clip_norm = 0;
  SL_ASSIGN_OR_RETURN(const std::unique_ptr<Trainer> trainer,
                      Trainer::Make(plan, std::move(programs), settings, std::move(backend)));
  std::mt19937 random(11);
  for (int step = 0; step < plan.steps; ++step) {
    for (int32_t m = 0; m < trainer->microbatches(); ++m) {
      const MicrobatchId of(m);
      for (const auto& data : {trainer->tokens(of, step), trainer->targets(of, step)}) {
        for (int32_t& token : data) token = static_cast<int32_t>(random() % kVocabulary);
      }
    }
  }
  if (updates) {
    const std::vector<double> rates(static_cast<size_t>(plan.steps), 1);
    SL_RETURN_IF_ERROR(trainer->PerformSteps(rates).status());
  } else {
    SL_RETURN_IF_ERROR(trainer->ComputeGradients());
  }
  StepNumbers numbers;
  for (int step = 0; step < plan.steps; ++step) numbers.loss += trainer->loss_sum(step);
  for (size_t s = 0; s < trainer->programs().size(); ++s) {
    for (size_t p = 0; p < trainer->programs()[s].params.size(); ++p) {
      const StageId stage(static_cast<int32_t>(s));
      const auto index = static_cast<int>(p);
      const auto of = updates ? trainer->param(stage, index) : trainer->grad(stage, index);
      std::vector<float>& values = numbers.values.emplace_back(of.size());
      SL_RETURN_IF_ERROR(trainer->device()->CopyNow(
          values.data(), of.data(), static_cast<int64_t>(values.size() * sizeof(float))));
    }
  }
  return numbers;
}

absl::StatusOr<StepNumbers> OneStepOnGpu(const Plan& plan, bool experts) {
  SL_ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend, CudaBackend::Make());
  return OneStep(plan, experts, std::move(backend));
}

// The difference as a share of the largest value; for a gradient that is only rounding noise, of a
// small part of the largest of all.
double Apart(const StepNumbers& seen, const StepNumbers& expected) {
  double largest_of_all = 0;
  std::vector<double> largest;
  for (const std::vector<float>& values : expected.values) {
    double& of = largest.emplace_back(0);
    for (const float value : values) of = std::max(of, std::fabs(double{value}));
    largest_of_all = std::max(largest_of_all, of);
  }
  double apart = std::fabs(seen.loss - expected.loss) / std::fabs(expected.loss);
  for (size_t p = 0; p < expected.values.size(); ++p) {
    const double scale = std::max(largest[p], 0.01 * largest_of_all);
    for (size_t i = 0; i < expected.values[p].size(); ++i) {
      const double off = std::fabs(double{seen.values[p][i]} - expected.values[p][i]) / scale;
      if (!(off <= apart)) apart = off;  // also if NaN
    }
  }
  return apart;
}

void CheckOne(const std::string& name, const Plan& plan, bool experts, CheckRows* rows) {
  const auto expected = OneStep(plan, experts, nullptr);
  if (!expected.ok()) return rows->Fail(name, std::string(expected.status().message()));
  const auto seen = OneStepOnGpu(plan, experts);
  if (!seen.ok()) return rows->Fail(name, std::string(seen.status().message()));
  const double apart = Apart(*seen, *expected);
  const std::string figure = absl::StrFormat("%.1e from the CPU's, of the largest value", apart);
  if (!(apart <= kTolerance)) return rows->Hold(name, apart / kTolerance, figure);
  const auto again = OneStepOnGpu(plan, experts);
  if (!again.ok()) return rows->Fail(name, std::string(again.status().message()));
  if (!(*again == *seen)) return rows->Fail(name, "two runs gave different bits");
  rows->Hold(name, apart / kTolerance, figure);
}

}  // namespace

void CheckTraining(const std::string& folder, const std::vector<int>& ranks, CheckRows* rows) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".sched") files.push_back(entry.path());
  }
  if (files.empty()) return rows->Fail("schedules", absl::StrCat("none in ", folder));
  std::sort(files.begin(), files.end());
  for (const std::filesystem::path& file : files) {
    bool trained = false;
    for (const int p : ranks) {
      const std::optional<Plan> plan = PlanOfSchedule(folder, file.stem().string(), p, 2 * p);
      if (!plan.has_value()) continue;
      trained = true;
      // Actions of a schedule's own are rehearsed, not trained.
      if (!plan->rows.actions.empty() || plan->forward_only) continue;
      for (const bool experts : {false, true}) {
        CheckOne(absl::StrCat(file.stem().string(), " P=", p, experts ? " experts" : " gpt"), *plan,
                 experts, rows);
      }
    }
    if (!trained) rows->Fail(file.stem().string(), "no plan for any number of ranks");
  }
  for (const char* schedule : {"1f1b", "zb_v", "dualpipe_v"}) {
    for (const bool experts : {false, true}) {
      const std::string name =
          absl::StrCat(schedule, " P=2, 3 steps", experts ? ", experts" : ", gpt");
      const auto plan = PlanOfSchedule(folder, schedule, 2, 6, CommLayout::kEdge, {}, /*steps=*/3);
      if (!plan.has_value()) {
        rows->Fail(name, "no plan");
      } else {
        CheckOne(name, *plan, experts, rows);
      }
    }
  }
  const std::vector<int64_t> at_once = {0, 0};
  for (const char* schedule : {"1f1b", "zb_v"}) {
    const std::optional<Plan> plan = PlanOfSchedule(folder, schedule, 2, 6);
    if (!plan.has_value()) {
      rows->Fail(schedule, "no plan");
      continue;
    }
    const Plan remade = PlaceRecomputes(*plan, at_once);
    for (const bool experts : {false, true}) {
      const auto check = [&](const char* added, const Plan& placed) {
        const char* model = experts ? "experts" : "gpt";
        CheckOne(absl::StrCat(schedule, " P=2, ", added, ", ", model), placed, experts, rows);
      };
      check("R", remade);
      check("copies to the host", PlaceCopies(*plan, at_once));
      check("R and copies", PlaceCopies(remade, at_once));
    }
  }
  for (const char* schedule : {"1f1b", "zb_v", "dualpipe_v"}) {
    const std::string name = absl::StrCat(schedule, " P=2 experts, chunks 2");
    std::optional<Plan> plan = PlanOfSchedule(folder, schedule, 2, 4);
    if (!plan.has_value()) {
      rows->Fail(name, "no plan");
      continue;
    }
    plan->chunks = 2;
    CheckOne(name, *plan, /*experts=*/true, rows);
  }
}

}  // namespace stringline
