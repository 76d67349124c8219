#include "executor/training/tied_sums.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "schedlang/base/sl_check.h"

namespace stringline {

TiedSums::TiedSums(const TrainingJob* job, Pipelines* pipelines)
    : job_(job), pipelines_(pipelines) {
  for (int c = 0; c < job->mesh().coordinates(); ++c) {
    for (int32_t s = 0; s < job->stages(); ++s) {
      const std::vector<Param>& params = job->programs()[s].params;
      for (size_t p = 0; p < params.size(); ++p) {
        if (!params[p].tied_to.empty()) MakeTie(c, StageId(s), static_cast<int>(p));
      }
    }
  }
}

void TiedSums::MakeTie(int coordinate, StageId stage, int index) {
  const Plan& plan = job_->plan();
  const Param& param = job_->programs()[stage.value].params[index];
  for (int32_t s = 0; s < job_->stages(); ++s) {
    const StageId other(s);
    if (plan.stage(other).pipe != plan.stage(stage).pipe) continue;
    const std::vector<Param>& params = job_->programs()[s].params;
    const auto tied = std::find_if(params.begin(), params.end(), [&](const Param& candidate) {
      return candidate.name == param.tied_to;
    });
    if (tied == params.end()) continue;
    const int base = coordinate * plan.ranks();
    const int ranks[] = {base + plan.stage(other).rank.value, base + plan.stage(stage).rank.value};
    Group* const group = ranks[0] == ranks[1] ? nullptr : job_->groups()->New(ranks);
    ties_.push_back(
        {coordinate, other, stage, {static_cast<int>(tied - params.begin()), index}, group});
    return;
  }
  SL_CHECK(false) << param.name << " is tied to " << param.tied_to << ", which nobody has";
}

void TiedSums::Prepare() {
  for (const Tie& tie : ties_) PrepareTie(tie);
}

void TiedSums::PrepareTie(const Tie& tie) {
  const Param& param = job_->programs()[tie.stage.value].params[tie.index_of[1]];
  if (job_->sharing().sharding < Sharding::kGradients) {
    return AddCalls(tie, 0, GradTypeOf(param).bytes());
  }
  const StatePieces& pieces = pipelines_->stages(tie.coordinate).pieces(tie.stage);
  const int own = job_->ShardOf(tie.coordinate);
  for (const Bucket& bucket : pieces.buckets()) {
    const StateBlock& first = pieces.blocks()[bucket.first_block];
    if (first.param != tie.index_of[1]) continue;
    const int64_t begin = first.first * static_cast<int64_t>(sizeof(float));
    AddCalls(tie, begin + bucket.pieces.begin[own], bucket.pieces.bytes(own));
  }
}

// For `bytes` of the gradient from `first`. Member 0 is the parameter that the other is tied to.
void TiedSums::AddCalls(const Tie& tie, int64_t first, int64_t bytes) {
  if (bytes == 0) return;
  const Param& param = job_->programs()[tie.stage.value].params[tie.index_of[1]];
  const StageId stage_of[] = {tie.other, tie.stage};
  bool here[2];
  float* gradients[] = {nullptr, nullptr};
  for (int m = 0; m < 2; ++m) {
    here[m] = job_->holds(stage_of[m], tie.coordinate);
    if (!here[m]) continue;
    gradients[m] =
        pipelines_->stages(tie.coordinate).params().grad(stage_of[m], tie.index_of[m]).data() +
        first / static_cast<int64_t>(sizeof(float));
  }
  Call call;
  call.kind = CallKind::kAllReduce;
  call.bytes = bytes;
  call.name = {[](const void* self, int64_t) {
                 return absl::StrCat("the gradient of ", *static_cast<const std::string*>(self));
               },
               &param.tied_to, first};
  if (tie.group == nullptr) {
    call.from = gradients[0];
    call.to = gradients[1];
    if (!here[0]) return;
    calls_.push_back({tie.coordinate, tie.stage, nullptr, 0, job_->kernels(), call});
    return;
  }
  for (int member = 0; member < 2; ++member) {
    if (!here[member]) continue;
    call.from = call.to = gradients[member];
    calls_.push_back({tie.coordinate, stage_of[member], tie.group, member, nullptr, call});
  }
}

void TiedSums::Enqueue() {
  for (const TiedCall& tied : calls_) {
    const StreamId stream = pipelines_->ComputeStream(tied.coordinate, tied.stage);
    if (tied.group != nullptr) {
      tied.group->Enqueue(tied.member, stream, &tied.call);
    } else {
      job_->device()->Launch(stream, {AddBoth, &tied, 0});
    }
  }
}

void TiedSums::AddBoth(const void* self, int64_t /*argument*/, NativeStream stream) {
  const auto& tied = *static_cast<const TiedCall*>(self);
  auto* const first = static_cast<float*>(const_cast<void*>(tied.call.from));
  auto* const second = static_cast<float*>(tied.call.to);
  tied.kernels->Add(first, second, tied.call.bytes / static_cast<int64_t>(sizeof(float)), stream);
  tied.kernels->Copy(second, first, tied.call.bytes, stream);
}

}  // namespace stringline
