// Trains a model cut into stages with any plan, on the ranks of this process: all of them, or those
// that a World says are here. Then every process makes the same calls in the same order, and has
// the same losses, norms and times of all ranks.
//
// A step: fill in the data, ComputeGradients (every copy of the pipeline runs once, and gradients
// are summed over all copies of a stage), Update. Losses and gradients are sums over the step's
// tokens; Update divides once. The step's microbatches are those of coordinate 0 of the mesh, then
// those of coordinate 1, and so on.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/backend.h"
#include "executor/flight_log.h"
#include "executor/interpreter.h"
#include "executor/local_ranks.h"
#include "executor/mesh.h"
#include "executor/optimizer.h"
#include "executor/programs/stages.h"
#include "executor/recorder.h"
#include "executor/repeated_step.h"
#include "executor/replicas.h"
#include "executor/state_piece.h"
#include "executor/threads/group.h"
#include "executor/when_ready.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/plan.h"
#include "schedlang/sim/wiring.h"
#include "schedlang/timeline.h"
#include "stages/stage_program.h"

namespace stringline {

struct TrainerSettings {
  uint64_t seed = 0;   // of the parameters' first values
  int threads = 0;     // that run work; 0: one for every rank, at most one for every core
  bool record = true;  // timestamps of every action
  AdamW optimizer;
  double clip_norm = 1;     // of the mean gradient over all stages; 0: no clipping
  double balance_rate = 0;  // of routers' biases (Update::kBalance)
  Mesh mesh;
  Sharding sharding = Sharding::kNone;    // of what the mesh's shard groups share out; with
                                          // kParameters the plan has UNSHARD and RESHARD
  int64_t bucket_bytes = kBucketBytes;    // of gradients that are summed in one call, at most
  CommLayout layout = CommLayout::kEdge;  // which messages share a communicator; the plan is
                                          // lowered and checked for it
  // kListedWork: a message waits for all that its rank lists before it, as strict.h has it.
  MessageOrder order = MessageOrder::kValues;
  CallTimes link;  // how long messages and exchanges are on their way
  // Steps are captured and replayed, where the device can.
  bool capture = true;
};

class Trainer {
 public:
  // FailedPrecondition for a plan that cannot be executed, ResourceExhausted where memory or
  // threads are not there, Unimplemented, with its name, for an op of which the backend has no
  // kernel. All memory is counted before any is taken. Without a backend it is the CPU's; `threads`
  // and `link` are settings of that one only.
  static absl::StatusOr<std::unique_ptr<Trainer>> Make(Plan lowered,
                                                       std::vector<StageProgram> programs,
                                                       const TrainerSettings& settings,
                                                       std::unique_ptr<Backend> backend = nullptr);
  ~Trainer();

  int32_t microbatches() const { return plan_.microbatches * settings_.mesh.coordinates(); }
  absl::Span<int32_t> tokens(MicrobatchId microbatch);
  absl::Span<int32_t> targets(MicrobatchId microbatch);

  // Runs the plan once. The gradients must be zero, as they are at first and after Update. Errors
  // as Device::Synchronize and World::Exchange.
  absl::Status ComputeGradients();
  // How steps were given to the device.
  const RepeatedStep& repeated_step() const { return *step_; }

  // Sum over the step's tokens, added up in the order of the microbatches.
  double loss_sum() const;
  // Sum over the step's microbatches and the model's mixtures of experts: their balance losses, and
  // how many slots no expert took.
  double aux_loss_sum() const;
  int64_t dropped() const;
  int64_t tokens_per_step() const;

  // Clips, updates every parameter and sets the gradients to zero. Returns the global norm of the
  // mean gradient before clipping: the same sum in the same order for every cut of the model.
  // OutOfRange, with every parameter as it was, when a gradient is not finite: the message names
  // the first one in the order of the model.
  absl::StatusOr<double> Update(double learning_rate);

  // In the device's memory, of a rank that is here; F32 also where graphs read BF16: whoever writes
  // them calls RefreshWorking before the next step. All coordinates hold the same, but for the
  // pieces of experts' parameters. Where gradients are shared out, those are only sums in the
  // blocks that the coordinate owns; where parameters are, ask OwnedBlocks.
  absl::Span<float> param(StageId stage, int index, int coordinate = 0) {
    SL_CHECK(sharing().sharding != Sharding::kParameters) << "no copy has whole parameters";
    return View(copies_[coordinate].stages->params(stage), stage, index);
  }
  absl::Span<float> grad(StageId stage, int index, int coordinate = 0) {
    return View(copies_[coordinate].stages->grads(stage), stage, index);
  }

  // What that coordinate updates of a stage that is here, and how the stage is cut.
  std::vector<Stages::Owned> OwnedBlocks(StageId stage, int coordinate) const {
    return copies_[coordinate].stages->OwnedBlocks(stage);
  }
  const StatePieces& pieces(StageId stage) const { return copies_[0].stages->pieces(stage); }
  StateSharing sharing() const {
    return {settings_.sharding, settings_.mesh, settings_.bucket_bytes};
  }

  // Stages::RefreshWorking, everywhere; where copies keep whole parameters that they share out, all
  // get them from their owners. All processes call it.
  absl::Status RefreshWorking();

  // The state of the ranks that are here (trainer_state.cc): together with the pieces of the other
  // processes every value of every parameter, some more than once. Whoever writes calls
  // RefreshWorking. Between steps.
  std::vector<StatePiece> LocalState() const;
  // How many updates there were: what AdamW corrects the moments by.
  int64_t updates() const { return update_->number; }
  void SetUpdates(int64_t updates) { update_->number = updates; }

  // Whether this process holds the rank of that stage on that coordinate.
  bool holds(StageId stage, int coordinate) const {
    return local_.Has(coordinate, plan_.stage(stage).rank);
  }
  // This process cannot go on: the others, if there are any, are told. Returns what all of them say
  // that it was, where it was not of this process alone (Groups::Agree).
  absl::Status GiveUp(absl::Status status);
  // What the ranks did last; null without settings.record.
  const FlightLog* flight() const { return flight_ ? &*flight_ : nullptr; }
  const LocalRanks& local() const { return local_; }
  // Null where this process holds all ranks.
  World* world() { return backend_ == nullptr ? nullptr : backend_->world(); }
  Device* device() { return backend_->device(); }
  // What its kernels were chosen for: Kernels::Describe.
  std::string DescribeKernels() const { return backend_->kernels()->Describe(); }
  // What its communicators take: Groups::Describe.
  std::string DescribeGroups() const { return backend_->groups()->Describe(); }
  // Which rank of the mesh is where: Backend::DescribePlaces.
  std::string DescribePlaces() const { return backend_->DescribePlaces(); }
  const Plan& plan() const { return plan_; }
  const Mesh& mesh() const { return settings_.mesh; }
  absl::Span<const StageProgram> programs() const { return programs_; }
  // Of each coordinate.
  const MemoryPlan& memory() const { return copies_[0].stages->memory(); }
  // Of all ranks: those of coordinate 0, then those of coordinate 1, and so on.
  const std::vector<RankBytes>& rank_bytes() const { return rank_bytes_; }
  // The last step of a coordinate as it was observed, and as when_ready.h tells it; both need
  // settings.record.
  Timeline Observed(int coordinate = 0) const {
    return copies_[coordinate].recorder->Observed(plan_);
  }
  Timeline Measured(int coordinate = 0) const {
    return WhenReady(plan_, wiring_, Observed(coordinate));
  }

 private:
  // What a coordinate of the mesh has for itself.
  struct PipelineCopy {
    std::optional<MessageGroups> messages;
    std::unique_ptr<Recorder> recorder;
    std::unique_ptr<Stages> stages;
    std::unique_ptr<Interpreter> interpreter;
    std::vector<std::vector<ParamBlock>> blocks;   // by stage; those that it owns
    std::vector<absl::Span<double>> squares;       // the same; in host memory of the device
    std::vector<std::vector<MemberCall>> gathers;  // by stage: after an update
  };

  Trainer(Plan lowered, std::vector<StageProgram> programs, const TrainerSettings& settings,
          std::unique_ptr<Backend> backend);
  absl::Status Prepare();
  absl::Status MakeCpuBackend();
  absl::Status CheckRoom(int place);
  absl::Status FindLocalRanks();
  // visit(stages, stage, microbatch of the coordinate's step, layer) for every mixture of experts.
  template <typename Visit>
  void ForEveryTally(Visit visit) const {
    for (const PipelineCopy& copy : copies_) {
      for (size_t s = 0; s < programs_.size(); ++s) {
        const StageId stage(static_cast<int32_t>(s));
        const int32_t before =
            plan_.pipes.empty() ? 0 : plan_.pipes[plan_.stage(stage).pipe].first_microbatch;
        for (int32_t m = 0; m < plan_.microbatches_of(stage); ++m) {
          for (int layer = 0; layer < programs_[s].moe_layers; ++layer) {
            visit(*copy.stages, stage, MicrobatchId(before + m), layer);
          }
        }
      }
    }
  }
  // All groups of all ranks: what they are, no work says.
  void MakeGroups();
  absl::Status PrepareCopy(int coordinate);
  void MakeTied(int coordinate, StageId stage, int index);
  void MakeExpertGroups(int data);
  absl::Status PrepareBlocks(int coordinate, StageId stage);
  int BetweenSteps(int coordinate) const;
  void EnqueueGathers();
  // The shard group's member that a coordinate is; 0 where nothing is shared out.
  int ShardOf(int coordinate) const {
    return sharing().shards == 1 ? 0 : settings_.mesh.shard_of(coordinate);
  }
  // Enqueues `work` for every coordinate and stage on its rank's compute stream; `at` is
  // coordinate * stages + stage.
  void EnqueueForEveryStage(void (*work)(const void* trainer, int64_t at, NativeStream stream));
  static void SumSquares(const void* trainer, int64_t at, NativeStream stream);
  static void UpdateStage(const void* trainer, int64_t at, NativeStream stream);
  StageId StageOf(int64_t at) const { return StageId(static_cast<int32_t>(at % stages())); }
  PipelineCopy& CopyOf(int64_t at) { return copies_[at / stages()]; }
  int64_t stages() const { return static_cast<int64_t>(programs_.size()); }
  void EnqueueTied();
  double SumOfAllSquares() const;
  absl::Status BadGradient();
  absl::StatusOr<std::string> DescribeBadGradient(int64_t at, const Stages::Owned& owned);
  // What other processes need of a step, and what they have of it (trainer_share.cc). Without a
  // world these do nothing.
  void Say(const char* doing) {
    if (flight_) flight_->Say(doing);
  }
  absl::Status ShareMemory();
  absl::Status Share();
  absl::Status ShareSquares();
  // What the first process says that says something.
  absl::StatusOr<std::string> ShareText(const std::string& text);
  template <typename Visit>
  void ForStagesOf(const LocalRanks& ranks, Visit visit);
  absl::Span<float> View(float* block, StageId stage, int index) const;

  const Plan plan_;
  const std::vector<StageProgram> programs_;
  const TrainerSettings settings_;
  const Wiring wiring_;
  std::unique_ptr<Backend> backend_;
  LocalRanks local_;
  std::vector<RankBytes> rank_bytes_;  // of the mesh
  std::vector<LocalRanks> processes_;  // what each holds, where there is a world
  int64_t clock_ahead_ns_ = 0;         // of process 0's
  std::unique_ptr<Replicas> replicas_;
  // One end of a sum of tied parameters, after all other sums; the whole of it where one rank has
  // both (no group).
  struct TiedCall {
    int coordinate;
    StageId stage;
    Group* group;
    int member;
    Kernels* kernels;
    Call call;  // `from` is the first parameter's gradient, `to` the second's
  };
  // A parameter of `stage` that is tied to one of `other`, and the group of their ranks, if they
  // are two.
  struct Tie {
    int coordinate;
    StageId other, stage;
    int index_of[2];  // of the parameter in each of them
    Group* group;
  };
  void PrepareTie(const Tie& tie);
  void AddTiedCalls(const Tie& tie, int64_t first, int64_t bytes);
  static void AddBoth(const void* self, int64_t argument, NativeStream stream);
  std::vector<Tie> ties_;
  std::deque<TiedCall> tied_;  // the ends that are here
  bool calls_checked_ = false;
  std::vector<std::vector<Group*>> expert_groups_;  // by data coordinate and rank
  std::vector<PipelineCopy> copies_;                // by coordinate
  std::optional<FlightLog> flight_;                 // of settings.record
  // A step's phases. After the gradients the host looks at the loss, after their squares at the
  // norm.
  enum Phase { kGradients, kSquares, kUpdate, kPhases };
  std::optional<RepeatedStep> step_;
  UpdateStep* update_ = nullptr;  // the last one, or the one under way; host memory of the device
};

}  // namespace stringline
