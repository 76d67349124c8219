#include "executor/trainer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/available_memory.h"
#include "executor/cpu/kernel.h"
#include "executor/lanes.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"

namespace stringline {

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Make(Plan lowered,
                                                       std::vector<StageProgram> programs,
                                                       const TrainerSettings& settings) {
  std::unique_ptr<Trainer> trainer(new Trainer(std::move(lowered), std::move(programs), settings));
  SL_RETURN_IF_ERROR(trainer->Prepare());
  return trainer;
}

Trainer::Trainer(Plan lowered, std::vector<StageProgram> programs, const TrainerSettings& settings)
    : plan_(std::move(lowered)), programs_(std::move(programs)), settings_(settings) {}

absl::Status Trainer::Prepare() {
  int threads = settings_.threads;
  if (threads == 0) {
    const std::vector<int> lanes = LaneCounts(plan_, LanesOf(plan_));
    const unsigned cores = std::max(1u, std::thread::hardware_concurrency());  // that we may use
    threads = std::min(std::accumulate(lanes.begin(), lanes.end(), 0), static_cast<int>(cores));
  }
  SL_ASSIGN_OR_RETURN(stages_, cpu::Stages::Place(plan_, programs_));
  NeededMemory needed = stages_->needed();
  needed.params *= 2;  // the two moments
  SL_RETURN_IF_ERROR(CheckMemory(needed, FindAvailableMemory()));
  cpu::PrepareThread();
  auto device = CpuDevice::Make(threads, cpu::PrepareThread);
  if (!device.ok()) {
    return absl::Status(device.status().code(),
                        absl::StrCat(device.status().message(),
                                     "; fewer train.threads in the run file would help"));
  }
  device_ = *std::move(device);
  transport_ = std::make_unique<ThreadTransport>(device_.get(),
                                                 static_cast<int>(ChannelsOf(plan_).all.size()));
  if (settings_.record) recorder_ = std::make_unique<Recorder>(plan_);
  SL_RETURN_IF_ERROR(stages_->Allocate(settings_.seed, device_.get()));
  SL_ASSIGN_OR_RETURN(interpreter_, Interpreter::Make(plan_, stages_.get(), device_.get(),
                                                      transport_.get(), recorder_.get()));
  for (size_t s = 0; s < programs_.size(); ++s) {
    const int64_t bytes = stages_->layout(StageId(static_cast<int32_t>(s))).param_bytes;
    for (std::vector<float*>* moments : {&moments1_, &moments2_}) {
      SL_ASSIGN_OR_RETURN(void* memory, device_->Allocate(bytes));
      moments->push_back(static_cast<float*>(memory));
    }
    squares_.emplace_back(programs_[s].params.size(), 0.0);
  }
  return absl::OkStatus();
}

absl::Status Trainer::ComputeGradients() {
  if (recorder_ != nullptr) recorder_->StartStep(device_->NowNs());
  interpreter_->EnqueueStep();
  return device_->Synchronize();
}

double Trainer::loss_sum() const {
  double sum = 0;
  for (int32_t m = 0; m < plan_.microbatches; ++m) sum += stages_->loss(MicrobatchId(m));
  return sum;
}

int64_t Trainer::tokens_per_step() const {
  return plan_.microbatches * programs_.front().input.elements();
}

absl::Status Trainer::ForEveryStage(void (*phase)(const void* trainer, int64_t stage)) {
  for (size_t s = 0; s < programs_.size(); ++s) {
    device_->Launch(interpreter_->ComputeStream(plan_.stages[s].rank),
                    {phase, this, static_cast<int64_t>(s)});
  }
  return device_->Synchronize();
}

// The k-th stages of all pipes hold the same parameters: each gets the sum of their gradients,
// added up in the order of the pipes. The plan ends with it; here it follows the step.
void Trainer::SumReplicas(StageId stage) {
  for (size_t p = 0; p < programs_[stage.value].params.size(); ++p) {
    const int index = static_cast<int>(p);
    const absl::Span<float> sum = grad(stage, index);
    for (size_t pipe = 1; pipe < plan_.pipes.size(); ++pipe) {
      const absl::Span<const float> other = grad(Replica(stage, pipe), index);
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
    }
    for (size_t pipe = 1; pipe < plan_.pipes.size(); ++pipe) {
      std::copy(sum.begin(), sum.end(), grad(Replica(stage, pipe), index).begin());
    }
  }
}

StageId Trainer::Replica(StageId stage, size_t pipe) const {
  return StageId(plan_.pipes[pipe].first_stage.value + stage.value);
}

absl::StatusOr<double> Trainer::Update(double learning_rate) {
  if (!plan_.pipes.empty()) {
    for (int s = 0; s < plan_.pipes[0].stages; ++s) SumReplicas(StageId(s));
  }
  SL_RETURN_IF_ERROR(ForEveryStage([](const void* trainer, int64_t stage) {
    auto* self = static_cast<Trainer*>(const_cast<void*>(trainer));
    self->SumStage(StageId(static_cast<int32_t>(stage)));
  }));
  double squares = 0;
  const size_t stages = plan_.pipes.empty() ? squares_.size() : plan_.pipes[0].stages;
  for (size_t s = 0; s < stages; ++s) {
    for (double square : squares_[s]) squares += square;
  }
  if (!std::isfinite(squares)) return BadGradient();
  const double mean = 1.0 / static_cast<double>(tokens_per_step());
  const double norm = std::sqrt(squares) * mean;
  ++updates_;
  update_rate_ = learning_rate;
  update_scale_ = mean;
  if (settings_.clip_norm > 0 && norm > settings_.clip_norm) {
    update_scale_ *= settings_.clip_norm / norm;
  }
  SL_RETURN_IF_ERROR(ForEveryStage([](const void* trainer, int64_t stage) {
    auto* self = static_cast<Trainer*>(const_cast<void*>(trainer));
    self->UpdateStage(StageId(static_cast<int32_t>(stage)));
  }));
  return norm;
}

// A sum of squares of floats never passes a double: one that is not finite has such a term.
absl::Status Trainer::BadGradient() {
  for (size_t s = 0; s < squares_.size(); ++s) {
    for (size_t p = 0; p < squares_[s].size(); ++p) {
      if (std::isfinite(squares_[s][p])) continue;
      const absl::Span<const float> values =
          grad(StageId(static_cast<int32_t>(s)), static_cast<int>(p));
      const auto* const bad = std::find_if(values.begin(), values.end(),
                                           [](float value) { return !std::isfinite(value); });
      return absl::OutOfRangeError(absl::StrCat("the gradient of ", programs_[s].params[p].name,
                                                " (stage ", s, ") is not finite (", *bad,
                                                "); try a lower learning rate"));
    }
  }
  SL_CHECK(false) << "every gradient is finite, but not their sum";
  return absl::OkStatus();
}

void Trainer::SumStage(StageId stage) {
  std::vector<double>& squares = squares_[stage.value];
  for (size_t p = 0; p < squares.size(); ++p) {
    squares[p] = SumOfSquares(grad(stage, static_cast<int>(p)));
  }
}

void Trainer::UpdateStage(StageId stage) {
  AdamW settings = settings_.optimizer;
  settings.learning_rate = update_rate_;
  const std::vector<Param>& params = programs_[stage.value].params;
  for (size_t i = 0; i < params.size(); ++i) {
    const int p = static_cast<int>(i);
    UpdateAdamW(settings, updates_, update_scale_, params[i].decay, param(stage, p), grad(stage, p),
                View(moments1_[stage.value], stage, p), View(moments2_[stage.value], stage, p));
  }
}

absl::Span<float> Trainer::View(float* block, StageId stage, int index) const {
  const int64_t offset = stages_->layout(stage).params[index];
  const int64_t elements = programs_[stage.value].params[index].type.elements();
  return {block + offset / static_cast<int64_t>(sizeof(float)), static_cast<size_t>(elements)};
}

}  // namespace stringline
