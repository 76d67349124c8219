// The end of a step: the norm of all gradients, clipping, and the update of every parameter.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "executor/trainer.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"

namespace stringline {

// Copies of one parameter on two stages (Param::tied_to), of every pipe and coordinate.
void Trainer::EnqueueTied() {
  for (const TiedCall& tied : tied_) {
    const Interpreter& interpreter = *copies_[tied.coordinate].interpreter;
    const StreamId stream = interpreter.ComputeStream(plan_.stage(tied.stage).rank);
    if (tied.group != nullptr) {
      tied.group->Enqueue(tied.member, stream, &tied.call);
    } else {
      device()->Launch(stream, {AddBoth, &tied, 0});
    }
  }
}

void Trainer::AddBoth(const void* self, int64_t /*argument*/, NativeStream stream) {
  const auto& tied = *static_cast<const TiedCall*>(self);
  auto* const first = static_cast<float*>(const_cast<void*>(tied.call.from));
  auto* const second = static_cast<float*>(tied.call.to);
  tied.kernels->Add(first, second, tied.call.bytes / static_cast<int64_t>(sizeof(float)), stream);
  tied.kernels->Copy(second, first, tied.call.bytes, stream);
}

// Of every parameter once, in the order of the model and block by block: of what all coordinates
// have alike that of the one that owns it, and of every piece of the experts'.
// visit(coordinate, stage, its place among the owned ones).
template <typename Visit>
void Trainer::ForEverySquare(Visit visit) const {
  const Mesh& mesh = settings_.mesh;
  const size_t stages = plan_.pipes.empty() ? programs_.size() : plan_.pipes[0].stages;
  for (size_t s = 0; s < stages; ++s) {
    const StageId stage(static_cast<int32_t>(s));
    const StatePieces& cut = pieces(stage);
    for (int p = 0; p < static_cast<int>(programs_[s].params.size()); ++p) {
      const int copies = programs_[s].params[p].expert ? mesh.expert : 1;
      const auto end = static_cast<int>(cut.blocks().size());
      for (int b = cut.FirstBlockOf(p); b < end && cut.blocks()[b].param == p; ++b) {
        for (int x = 0; x < copies; ++x) {
          visit(mesh.coordinate(cut.OwnerOf(b), x), stage, cut.PlaceAmongOwned(b));
        }
      }
    }
  }
}

double Trainer::SumOfAllSquares() const {
  double sum = 0;
  ForEverySquare([&](int coordinate, StageId stage, int own) {
    sum += copies_[coordinate].squares[stage.value][own];
  });
  return sum;
}

absl::StatusOr<double> Trainer::Update(double learning_rate) {
  Say("adds up the squares of its gradients");
  SL_RETURN_IF_ERROR(GiveUp(step_->Run(kSquares, [this] {
    EnqueueTied();
    EnqueueForEveryStage(SumSquares);
  })));
  SL_RETURN_IF_ERROR(ShareSquares());
  const double squares = SumOfAllSquares();
  if (!std::isfinite(squares)) return BadGradient();
  const double mean = 1.0 / static_cast<double>(tokens_per_step());
  const double norm = std::sqrt(squares) * mean;
  ++update_->number;
  update_->adamw = settings_.optimizer;
  update_->adamw.learning_rate = learning_rate;
  update_->balance_rate = settings_.balance_rate;
  update_->scale = mean;
  if (settings_.clip_norm > 0 && norm > settings_.clip_norm) {
    update_->scale *= settings_.clip_norm / norm;
  }
  Say("updates its parameters");
  SL_RETURN_IF_ERROR(GiveUp(step_->Run(kUpdate, [this] {
    EnqueueForEveryStage(UpdateStage);
    EnqueueGathers();
  })));
  Say("has updated its parameters");
  return norm;
}

void Trainer::SumSquares(const void* trainer, int64_t at, NativeStream stream) {
  auto* const self = static_cast<Trainer*>(const_cast<void*>(trainer));
  const PipelineCopy& copy = self->CopyOf(at);
  const auto stage = static_cast<size_t>(self->StageOf(at).value);
  self->backend_->kernels()->SumOfSquares(copy.blocks[stage], copy.squares[stage].data(), stream);
}

void Trainer::UpdateStage(const void* trainer, int64_t at, NativeStream stream) {
  auto* const self = static_cast<Trainer*>(const_cast<void*>(trainer));
  const auto stage = static_cast<size_t>(self->StageOf(at).value);
  const PipelineCopy& copy = self->CopyOf(at);
  self->backend_->kernels()->Update(*self->update_, copy.blocks[stage], stream);
  copy.stages->ClearGrads(self->StageOf(at), stream);
}

// Stage by stage and bucket by bucket, so that all members come to their calls in one order.
void Trainer::EnqueueGathers() {
  for (const PipelineCopy& copy : copies_) {
    for (size_t s = 0; s < copy.gathers.size(); ++s) {
      for (const MemberCall& call : copy.gathers[s]) {
        call.group->Enqueue(call.member, copy.interpreter->ComputeStream(plan_.stages[s].rank),
                            &call.call);
      }
    }
  }
}

// A sum of squares of floats never passes a double: one that is not finite has such a term. Whoever
// owns the first one, in the order of the model, looks at it.
absl::Status Trainer::BadGradient() {
  struct Bad {
    int coordinate = -1;
    StageId stage;
    int own = 0;
  } bad;
  ForEverySquare([&](int coordinate, StageId stage, int own) {
    if (bad.coordinate >= 0) return;
    if (!std::isfinite(copies_[coordinate].squares[stage.value][own])) {
      bad = {coordinate, stage, own};
    }
  });
  SL_CHECK(bad.coordinate >= 0) << "every gradient is finite, but not their sum";
  std::string mine;
  if (holds(bad.stage, bad.coordinate)) {
    SL_ASSIGN_OR_RETURN(
        mine, DescribeBadGradient(bad.stage, OwnedBlocks(bad.stage, bad.coordinate)[bad.own]));
  }
  SL_ASSIGN_OR_RETURN(const std::string said, ShareText(mine));
  return absl::OutOfRangeError(said);
}

absl::StatusOr<std::string> Trainer::DescribeBadGradient(StageId stage,
                                                         const Stages::Owned& owned) {
  std::vector<float> values(owned.gradient.size());
  SL_RETURN_IF_ERROR(device()->CopyNow(values.data(), owned.gradient.data(),
                                       static_cast<int64_t>(values.size() * sizeof(float))));
  const auto bad =
      std::find_if(values.begin(), values.end(), [](float value) { return !std::isfinite(value); });
  SL_CHECK(bad != values.end()) << "a sum of finite squares is not finite";
  const int param = pieces(stage).blocks()[owned.block].param;
  return absl::StrCat("the gradient of ", programs_[stage.value].params[param].name, " (stage ",
                      stage.value, ") is not finite (", *bad, "); try a lower learning rate");
}

}  // namespace stringline
