#include "executor/training/gradient_norm.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"

namespace stringline {

absl::StatusOr<std::unique_ptr<GradientNorm>> GradientNorm::Make(const TrainingJob* job,
                                                                 Pipelines* pipelines,
                                                                 const OwnedState* state) {
  std::unique_ptr<GradientNorm> norm(new GradientNorm(job, pipelines, state));
  for (int step = 0; step < job->plan().steps; ++step) {
    std::vector<absl::Span<double>>& of_step = norm->squares_.emplace_back();
    for (int c = 0; c < job->mesh().coordinates(); ++c) {
      for (int32_t s = 0; s < job->stages(); ++s) {
        if (!job->holds(StageId(s), c)) {
          of_step.emplace_back();
          continue;
        }
        const StatePieces& pieces = pipelines->stages(c).pieces(StageId(s));
        const size_t count = pieces.BlocksOf(job->ShardOf(c)).size();
        const auto bytes = static_cast<int64_t>(std::max<size_t>(1, count) * sizeof(double));
        SL_ASSIGN_OR_RETURN(void* const squares, job->device()->AllocateHost(bytes));
        of_step.emplace_back(static_cast<double*>(squares), count);
      }
    }
  }
  return norm;
}

void GradientNorm::Enqueue() { pipelines_->EnqueueForEveryStage(SumOne, this); }

void GradientNorm::SumOne(const void* self, int64_t place, NativeStream stream) {
  static_cast<const GradientNorm*>(self)->Sum(/*step=*/0, place, stream);
}

void GradientNorm::Sum(int step, int64_t place, NativeStream stream) const {
  job_->kernels()->SumOfSquares(
      state_->blocks(pipelines_->CoordinateOf(place), pipelines_->StageOf(place)),
      squares_[static_cast<size_t>(step)][place].data(), stream);
}

// Visits every parameter once, in the order of the model and block by block: common parameters at
// their owner, experts' pieces at every expert coordinate. visit(place in that order, coordinate,
// stage, index among the owned blocks) for those of this process.
template <typename Visit>
void GradientNorm::ForEverySquare(Visit visit) const {
  const Plan& plan = job_->plan();
  const Mesh& mesh = job_->mesh();
  const auto programs = job_->programs();
  const size_t stages = plan.pipes.empty() ? programs.size() : plan.pipes[0].stages;
  int64_t place = 0;
  for (size_t s = 0; s < stages; ++s) {
    const StageId stage(static_cast<int32_t>(s));
    const StatePieces& cut = pipelines_->stages(0).pieces(stage);
    for (int p = 0; p < static_cast<int>(programs[s].params.size()); ++p) {
      const int copies = programs[s].params[p].expert ? mesh.expert : 1;
      const auto end = static_cast<int>(cut.blocks().size());
      for (int b = cut.FirstBlockOf(p); b < end && cut.blocks()[b].param == p; ++b) {
        for (int x = 0; x < copies; ++x) {
          const int coordinate = mesh.coordinate(cut.OwnerOf(b), x);
          if (job_->holds(stage, coordinate)) {
            visit(place, coordinate, stage, cut.PlaceAmongOwned(b));
          }
          ++place;
        }
      }
    }
  }
}

ExactSum GradientNorm::SumOfSquares(int step) const {
  ExactSum sum;
  ForEverySquare([&](int64_t /*place*/, int coordinate, StageId stage, int own) {
    sum.Add(squares(step, coordinate, stage)[own]);
  });
  return sum;
}

// A sum of squares of floats never overflows a double, so a sum that is not finite has a term that
// is not. The owner of the term looks for the value.
absl::StatusOr<GradientNorm::BadGradient> GradientNorm::DescribeBadGradient(int step) const {
  struct Bad {
    int64_t place = -1;
    int coordinate = 0;
    StageId stage;
    int own = 0;
  } bad;
  ForEverySquare([&](int64_t place, int coordinate, StageId stage, int own) {
    if (bad.place >= 0) return;
    if (!std::isfinite(squares(step, coordinate, stage)[own])) {
      bad = {place, coordinate, stage, own};
    }
  });
  if (bad.place < 0) return BadGradient();
  Stages& stages = pipelines_->stages(bad.coordinate);
  const OwnedBlock owned = stages.params().OwnedBlocks(bad.stage)[static_cast<size_t>(bad.own)];
  std::string value;
  if (!HasUpdates(job_->plan())) {
    SL_ASSIGN_OR_RETURN(const float found, BadValue(owned));
    value = absl::StrCat(" (", found, ")");
  }
  const int param = stages.pieces(bad.stage).blocks()[owned.block].param;
  return BadGradient{bad.place, absl::StrCat("the gradient of ",
                                             job_->programs()[bad.stage.value].params[param].name,
                                             " (stage ", bad.stage.value, ") is not finite", value,
                                             "; try a lower learning rate")};
}

absl::StatusOr<float> GradientNorm::BadValue(const OwnedBlock& owned) const {
  std::vector<float> values(owned.gradient.size());
  SL_RETURN_IF_ERROR(job_->device()->CopyNow(values.data(), owned.gradient.data(),
                                             static_cast<int64_t>(values.size() * sizeof(float))));
  const auto bad =
      std::find_if(values.begin(), values.end(), [](float value) { return !std::isfinite(value); });
  SL_CHECK(bad != values.end()) << "a sum of finite squares is not finite";
  return *bad;
}

}  // namespace stringline
