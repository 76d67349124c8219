#include "executor/trainer.h"

#include <algorithm>
#include <cmath>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/available_memory.h"
#include "executor/cpu/kernel.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"
#include "schedlang/lower/message_order.h"

namespace stringline {

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Make(Plan lowered,
                                                       std::vector<StageProgram> programs,
                                                       const TrainerSettings& settings) {
  std::unique_ptr<Trainer> trainer(new Trainer(std::move(lowered), std::move(programs), settings));
  SL_RETURN_IF_ERROR(trainer->Prepare());
  return trainer;
}

namespace {

// Copies of the pipeline add up their gradients, which the plan must say.
Plan WithSums(Plan lowered, const Mesh& mesh) {
  return mesh.coordinates() == 1 ? std::move(lowered) : ReduceGradients(lowered);
}

}  // namespace

Trainer::Trainer(Plan lowered, std::vector<StageProgram> programs, const TrainerSettings& settings)
    : plan_(WithSums(std::move(lowered), settings.mesh)),
      programs_(std::move(programs)),
      settings_(settings),
      wiring_(WiringOf(plan_, CommLayout::kEdge)),
      copies_(settings.mesh.coordinates()) {}

absl::Status Trainer::Prepare() {
  NeededMemory needed;
  for (PipelineCopy& copy : copies_) {
    SL_ASSIGN_OR_RETURN(copy.stages, cpu::Stages::Place(plan_, programs_));
    const NeededMemory one = copy.stages->needed();
    needed.params += 2 * one.params;  // with the two moments
    needed.activations += one.activations;
  }
  SL_RETURN_IF_ERROR(CheckMemory(needed, FindAvailableMemory()));
  SL_RETURN_IF_ERROR(MakeDevice());
  groups_ = std::make_unique<ThreadGroups>(device_.get());
  replicas_ = std::make_unique<Replicas>(plan_, settings_.mesh, groups_.get());
  for (int c = 0; c < settings_.mesh.coordinates(); ++c) SL_RETURN_IF_ERROR(PrepareCopy(c));
  return absl::OkStatus();
}

absl::Status Trainer::MakeDevice() {
  int threads = settings_.threads;
  if (threads == 0) {
    const unsigned cores = std::max(1u, std::thread::hardware_concurrency());  // that we may use
    threads = std::min(plan_.ranks() * settings_.mesh.coordinates(), static_cast<int>(cores));
  }
  cpu::PrepareThread();
  auto device = CpuDevice::Make(threads, cpu::PrepareThread);
  if (!device.ok()) {
    return absl::Status(device.status().code(),
                        absl::StrCat(device.status().message(),
                                     "; fewer train.threads in the run file would help"));
  }
  device_ = *std::move(device);
  return absl::OkStatus();
}

absl::Status Trainer::PrepareCopy(int coordinate) {
  PipelineCopy& copy = copies_[coordinate];
  if (settings_.record) copy.recorder = std::make_unique<Recorder>(plan_);
  SL_RETURN_IF_ERROR(copy.stages->Allocate(settings_.seed, device_.get()));
  copy.stages->Join(coordinate, replicas_.get());
  SL_ASSIGN_OR_RETURN(
      copy.interpreter,
      Interpreter::Make(plan_, copy.stages.get(), device_.get(), groups_.get(), copy.recorder.get(),
                        {.first_rank = coordinate * plan_.ranks()}));
  for (size_t s = 0; s < programs_.size(); ++s) {
    const int64_t bytes = copy.stages->layout(StageId(static_cast<int32_t>(s))).param_bytes;
    for (std::vector<float*>* moments : {&copy.moments1, &copy.moments2}) {
      SL_ASSIGN_OR_RETURN(void* memory, device_->Allocate(bytes));
      moments->push_back(static_cast<float*>(memory));
    }
    copy.squares.emplace_back(programs_[s].params.size(), 0.0);
  }
  return absl::OkStatus();
}

absl::Span<int32_t> Trainer::tokens(MicrobatchId microbatch) {
  const int32_t m = microbatch.value;
  return copies_[m / plan_.microbatches].stages->tokens(MicrobatchId(m % plan_.microbatches));
}

absl::Span<int32_t> Trainer::targets(MicrobatchId microbatch) {
  const int32_t m = microbatch.value;
  return copies_[m / plan_.microbatches].stages->targets(MicrobatchId(m % plan_.microbatches));
}

absl::Status Trainer::ComputeGradients() {
  const int64_t now_ns = device_->NowNs();
  for (PipelineCopy& copy : copies_) {
    if (copy.recorder != nullptr) copy.recorder->StartStep(now_ns);
    copy.interpreter->EnqueueStep();
  }
  return device_->Synchronize();
}

double Trainer::loss_sum() const {
  double sum = 0;
  for (const PipelineCopy& copy : copies_) {
    for (int32_t m = 0; m < plan_.microbatches; ++m) sum += copy.stages->loss(MicrobatchId(m));
  }
  return sum;
}

int64_t Trainer::tokens_per_step() const {
  return microbatches() * programs_.front().input.elements();
}

absl::Status Trainer::ForEveryStage(void (*phase)(const void*, int64_t, NativeStream)) {
  for (size_t c = 0; c < copies_.size(); ++c) {
    for (int64_t s = 0; s < stages(); ++s) {
      device_->Launch(copies_[c].interpreter->ComputeStream(plan_.stages[s].rank),
                      {phase, this, static_cast<int64_t>(c) * stages() + s});
    }
  }
  return device_->Synchronize();
}

absl::StatusOr<double> Trainer::Update(double learning_rate) {
  SL_RETURN_IF_ERROR(ForEveryStage([](const void* trainer, int64_t at, NativeStream) {
    auto* self = static_cast<Trainer*>(const_cast<void*>(trainer));
    self->SumStage(&self->CopyOf(at), self->StageOf(at));
  }));
  double squares = 0;
  const size_t stages = plan_.pipes.empty() ? programs_.size() : plan_.pipes[0].stages;
  for (size_t s = 0; s < stages; ++s) {
    for (double square : copies_[0].squares[s]) squares += square;
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
  SL_RETURN_IF_ERROR(ForEveryStage([](const void* trainer, int64_t at, NativeStream) {
    auto* self = static_cast<Trainer*>(const_cast<void*>(trainer));
    self->UpdateStage(&self->CopyOf(at), self->StageOf(at));
  }));
  return norm;
}

// A sum of squares of floats never passes a double: one that is not finite has such a term.
absl::Status Trainer::BadGradient() {
  for (size_t s = 0; s < programs_.size(); ++s) {
    const std::vector<double>& squares = copies_[0].squares[s];
    for (size_t p = 0; p < squares.size(); ++p) {
      if (std::isfinite(squares[p])) continue;
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

void Trainer::SumStage(PipelineCopy* copy, StageId stage) {
  std::vector<double>& squares = copy->squares[stage.value];
  for (size_t p = 0; p < squares.size(); ++p) {
    squares[p] = SumOfSquares(View(copy->stages->grads(stage), stage, static_cast<int>(p)));
  }
}

void Trainer::UpdateStage(PipelineCopy* copy, StageId stage) {
  AdamW settings = settings_.optimizer;
  settings.learning_rate = update_rate_;
  const std::vector<Param>& params = programs_[stage.value].params;
  const auto view = [&](float* block, size_t p) { return View(block, stage, static_cast<int>(p)); };
  for (size_t p = 0; p < params.size(); ++p) {
    UpdateAdamW(settings, updates_, update_scale_, params[p].decay,
                view(copy->stages->params(stage), p), view(copy->stages->grads(stage), p),
                view(copy->moments1[stage.value], p), view(copy->moments2[stage.value], p));
  }
}

absl::Span<float> Trainer::View(float* block, StageId stage, int index) const {
  const int64_t offset = copies_[0].stages->layout(stage).params[index];
  const int64_t elements = programs_[stage.value].params[index].type.elements();
  return {block + offset / static_cast<int64_t>(sizeof(float)), static_cast<size_t>(elements)};
}

}  // namespace stringline
