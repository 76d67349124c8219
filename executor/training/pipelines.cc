// The constructor makes all groups before any memory is counted, since communicators take memory
// themselves. Place decides the places of all values of every coordinate, so that all bytes can be
// counted; Prepare takes them.
#include "executor/training/pipelines.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "schedlang/base/status.h"

namespace stringline {

Pipelines::Pipelines(const TrainingJob* job)
    : job_(job),
      replicas_(job->plan(), job->mesh(), job->groups(),
                job->sharing().sharding != Sharding::kNone),
      copies_(job->mesh().coordinates()) {
  const Mesh& mesh = job->mesh();
  for (int c = 0; c < mesh.coordinates(); ++c) {
    if (mesh.expert_of(c) == 0) MakeExpertGroups(mesh.data_of(c));
    copies_[c].messages.emplace(job->plan(), job->settings().layout, c * job->plan().ranks(),
                                job->groups());
  }
}

// For every rank of the pipeline, a group with the same rank at the other expert coordinates.
void Pipelines::MakeExpertGroups(int data) {
  std::vector<Group*>& of_data = expert_groups_.emplace_back();
  const Mesh& mesh = job_->mesh();
  for (int r = 0; r < job_->plan().ranks(); ++r) {
    std::vector<int> ranks;
    for (int x = 0; x < mesh.expert; ++x) {
      ranks.push_back(mesh.coordinate(data, x) * job_->plan().ranks() + r);
    }
    of_data.push_back(job_->groups()->New(ranks));
  }
}

absl::Status Pipelines::Place(const Pipelines* lender) {
  for (size_t c = 0; c < copies_.size(); ++c) {
    SL_ASSIGN_OR_RETURN(
        copies_[c].stages,
        Stages::Place(job_->plan(), job_->programs(), job_->kernels(),
                      job_->local().Of(static_cast<int>(c)), job_->sharing(),
                      lender == nullptr ? nullptr : lender->copies_[c].stages.get()));
  }
  return absl::OkStatus();
}

absl::Status Pipelines::Prepare(const UpdateWork& update) {
  for (int c = 0; c < job_->mesh().coordinates(); ++c) {
    SL_RETURN_IF_ERROR(PrepareCopy(c, update));
  }
  return absl::OkStatus();
}

NeededMemory Pipelines::needed(int place) const {
  NeededMemory needed;
  for (int c = 0; c < job_->mesh().coordinates(); ++c) {
    std::vector<RankId> ranks;
    for (const RankId rank : job_->local().Of(c)) {
      if (job_->device()->place_of(c * job_->plan().ranks() + rank.value) == place) {
        ranks.push_back(rank);
      }
    }
    const NeededMemory one = copies_[c].stages->needed(ranks);
    needed.params += one.params;
    needed.activations += one.activations;
    if (job_->groups()->SumsTakeMemory()) needed.activations += SummandBytes(c, ranks);
  }
  return needed;
}

// The bytes for the other members' shares in a sum: for each group of these ranks, its largest
// bucket.
double Pipelines::SummandBytes(int coordinate, const std::vector<RankId>& ranks) const {
  double all = 0;
  if (job_->plan().forward_only) return all;
  for (int32_t s = 0; s < job_->stages(); ++s) {
    const StageId stage(s);
    const RankId rank = job_->plan().stage(stage).rank;
    if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) continue;
    if (replicas_.OnItsRank(stage)[0] != stage) continue;
    int64_t most[2] = {0, 0};
    for (const Bucket& bucket : copies_[coordinate].stages->pieces(stage).buckets()) {
      const Replicas::Seat seat = bucket.experts ? replicas_.OfExperts(coordinate, stage)
                                                 : replicas_.OfDense(coordinate, stage);
      if (seat.group == nullptr) continue;
      Call call;
      call.bytes = bucket.pieces.begin.back();
      Pieces pieces = bucket.pieces;
      pieces.stride = seat.stride;
      if (job_->sharing().sharding >= Sharding::kGradients) call.pieces = &pieces;
      const int members = seat.group->members();
      const int64_t slice = SliceOf(call, seat.member, members, sizeof(float)).bytes();
      most[bucket.experts] = std::max(most[bucket.experts], members * slice);
    }
    all += static_cast<double>(most[0] + most[1]);
  }
  return all;
}

absl::Status Pipelines::PrepareCopy(int coordinate, const UpdateWork& update) {
  Copy& copy = copies_[coordinate];
  const Plan& plan = job_->plan();
  const TrainerSettings& settings = job_->settings();
  if (settings.record) copy.recorder = std::make_unique<Recorder>(plan);
  const std::vector<RankId>& local = job_->local().Of(coordinate);
  const MeshSeat seat = {coordinate, &replicas_, expert_groups_[settings.mesh.data_of(coordinate)],
                         settings.mesh.expert_of(coordinate), job_->ShardOf(coordinate)};
  SL_RETURN_IF_ERROR(copy.stages->Allocate(seat, settings.seed, local, job_->device()));
  copy.stages->SetUpdate(
      [coordinate, update](StageId stage, int step) { return update(coordinate, stage, step); });
  SL_ASSIGN_OR_RETURN(copy.interpreter, Interpreter::Make(plan, copy.stages.get(), job_->device(),
                                                          *copy.messages, copy.recorder.get(),
                                                          {.order = settings.order,
                                                           .layout = settings.layout,
                                                           .first_rank = coordinate * plan.ranks(),
                                                           .local = local,
                                                           .links = &job_->links(),
                                                           .between = BetweenSteps(coordinate)}));
  return absl::OkStatus();
}

// The operations on a compute stream between steps: squares, updates, sums of tied parameters,
// gathers.
int Pipelines::BetweenSteps(int coordinate) const {
  const int calls = Group::OpsOf(CallKind::kAllReduce);
  int ops = 0;
  for (int32_t s = 0; s < job_->stages(); ++s) {
    const Stages& of = *copies_[coordinate].stages;
    ops += 2 + calls * static_cast<int>(of.GatherUpdated(StageId(s)).size() +
                                        of.pieces(StageId(s)).buckets().size());
  }
  return ops;
}

void Pipelines::EnqueueStep() {
  for (Copy& copy : copies_) copy.interpreter->EnqueueStep();
  // If the calls differ, the device reports the error.
  if (!std::exchange(calls_checked_, true)) (void)job_->groups()->CheckCalls();
}

void Pipelines::EnqueueForEveryStage(void (*work)(const void*, int64_t, NativeStream),
                                     const void* self) {
  for (int c = 0; c < job_->mesh().coordinates(); ++c) {
    for (int32_t s = 0; s < job_->stages(); ++s) {
      const StageId stage(s);
      if (!job_->holds(stage, c)) continue;
      job_->device()->Launch(ComputeStream(c, stage), {work, self, PlaceOf(c, stage)});
    }
  }
}

int32_t Pipelines::WholeOnes() const {
  const Plan& plan = job_->plan();
  return plan.microbatches_in_step();
}

MicrobatchId Pipelines::FirstSliceOf(int step, int32_t microbatch) const {
  return job_->plan().OfStep(step, microbatch * job_->plan().slices);
}

absl::Span<int32_t> Pipelines::tokens(int step, MicrobatchId microbatch) {
  return copies_[microbatch.value / WholeOnes()].stages->tokens(
      FirstSliceOf(step, microbatch.value % WholeOnes()));
}

absl::Span<int32_t> Pipelines::targets(int step, MicrobatchId microbatch) {
  return copies_[microbatch.value / WholeOnes()].stages->targets(
      FirstSliceOf(step, microbatch.value % WholeOnes()));
}

absl::Span<int32_t> Pipelines::positions(int step, MicrobatchId microbatch) {
  return copies_[microbatch.value / WholeOnes()].stages->positions(
      FirstSliceOf(step, microbatch.value % WholeOnes()));
}

void Pipelines::SetMaskKey(int step, MicrobatchId microbatch, const MaskKey& key) {
  copies_[microbatch.value / WholeOnes()].stages->SetMaskKey(
      FirstSliceOf(step, microbatch.value % WholeOnes()), key);
}

template <typename Visit>
void Pipelines::ForEveryForward(int step, Visit visit) const {
  const Plan& plan = job_->plan();
  for (size_t c = 0; c < copies_.size(); ++c) {
    for (int32_t s = 0; s < job_->stages(); ++s) {
      const StageId stage(s);
      if (!job_->holds(stage, static_cast<int>(c))) continue;
      const int32_t before =
          plan.pipes.empty() ? 0 : plan.pipes[plan.stage(stage).pipe].first_microbatch / plan.steps;
      for (int32_t m = 0; m < plan.microbatches_of(stage) / plan.steps; ++m) {
        visit(*copies_[c].stages, stage, plan.OfStep(step, before + m));
      }
    }
  }
}

StepSums Pipelines::SumsOf(int step) const {
  StepSums sums;
  ForEveryForward(step, [&](const Stages& stages, StageId stage, MicrobatchId m) {
    const StageProgram& program = job_->programs()[stage.value];
    if (program.last) sums.losses.Add(stages.loss(m));
    for (int layer = 0; layer < program.moe_layers; ++layer) {
      sums.balance_losses.Add(stages.aux_loss(stage, m, layer));
      sums.dropped += std::llround(stages.dropped(stage, m, layer));
    }
  });
  return sums;
}

std::vector<RankBytes> Pipelines::rank_bytes() const {
  std::vector<RankBytes> all;
  for (const Copy& copy : copies_) {
    const std::vector<RankBytes> ranks = copy.stages->rank_bytes();
    all.insert(all.end(), ranks.begin(), ranks.end());
  }
  return all;
}

}  // namespace stringline
