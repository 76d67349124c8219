// The end of a step: the norm of all gradients, clipping, and the update of every parameter.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "executor/trainer.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"

namespace stringline {

// Copies of one parameter on two stages (Param::tied_to), of every pipe and coordinate.
absl::Status Trainer::SumTied() {
  if (tied_.empty()) return absl::OkStatus();
  for (const TiedCall& tied : tied_) {
    const Interpreter& interpreter = *copies_[tied.coordinate].interpreter;
    const StreamId stream = interpreter.ComputeStream(plan_.stage(tied.stage).rank);
    if (tied.group != nullptr) {
      tied.group->Enqueue(tied.member, stream, &tied.call);
    } else {
      device_->Launch(stream, {AddBoth, &tied, 0});
    }
  }
  return device_->Synchronize();
}

void Trainer::AddBoth(const void* self, int64_t /*argument*/, NativeStream /*stream*/) {
  const Call& call = static_cast<const TiedCall*>(self)->call;
  auto* const first = static_cast<float*>(const_cast<void*>(call.from));
  auto* const second = static_cast<float*>(call.to);
  for (int64_t i = 0; i < call.bytes / static_cast<int64_t>(sizeof(float)); ++i) {
    first[i] += second[i];
    second[i] = first[i];
  }
}

// Of every parameter once: of what all coordinates have alike, and of every piece of the experts'.
double Trainer::SumOfAllSquares() const {
  double sum = 0;
  const size_t stages = plan_.pipes.empty() ? programs_.size() : plan_.pipes[0].stages;
  for (size_t s = 0; s < stages; ++s) {
    for (size_t p = 0; p < programs_[s].params.size(); ++p) {
      const int pieces = programs_[s].params[p].expert ? settings_.mesh.expert : 1;
      for (int x = 0; x < pieces; ++x) sum += copies_[x].squares[s][p];
    }
  }
  return sum;
}

absl::StatusOr<double> Trainer::Update(double learning_rate) {
  SL_RETURN_IF_ERROR(SumTied());
  SL_RETURN_IF_ERROR(ForEveryStage([](const void* trainer, int64_t at, NativeStream) {
    auto* self = static_cast<Trainer*>(const_cast<void*>(trainer));
    self->SumStage(&self->CopyOf(at), self->StageOf(at));
  }));
  const double squares = SumOfAllSquares();
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
  for (int64_t at = 0; at < stages() * settings_.mesh.coordinates(); ++at) {
    const int64_t s = at % stages();
    const std::vector<double>& squares = CopyOf(at).squares[s];
    for (size_t p = 0; p < squares.size(); ++p) {
      if (std::isfinite(squares[p])) continue;
      const absl::Span<const float> values =
          grad(StageOf(at), static_cast<int>(p), static_cast<int>(at / stages()));
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
    const Param& param = programs_[stage.value].params[p];
    if (param.update != stringline::Update::kAdamW || !param.tied_to.empty()) continue;
    squares[p] = SumOfSquares(View(copy->stages->grads(stage), stage, static_cast<int>(p)));
  }
}

void Trainer::UpdateStage(PipelineCopy* copy, StageId stage) {
  AdamW settings = settings_.optimizer;
  settings.learning_rate = update_rate_;
  const std::vector<Param>& params = programs_[stage.value].params;
  const auto view = [&](float* block, size_t p) { return View(block, stage, static_cast<int>(p)); };
  for (size_t p = 0; p < params.size(); ++p) {
    if (params[p].update == stringline::Update::kBalance) {
      UpdateBalance(settings_.balance_rate, view(copy->stages->params(stage), p),
                    view(copy->stages->grads(stage), p));
      continue;
    }
    UpdateAdamW(settings, updates_, update_scale_, params[p].decay,
                view(copy->stages->params(stage), p), view(copy->stages->grads(stage), p),
                view(copy->moments1[stage.value], p), view(copy->moments2[stage.value], p));
  }
}

}  // namespace stringline
