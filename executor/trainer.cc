// All is made once, in Prepare: groups, in one order in all processes, then memory, which is
// counted before it is taken, then an interpreter for each copy of the pipeline. A step only
// enqueues what is ready, so it can be captured and replayed.
#include "executor/trainer.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/available_memory.h"
#include "executor/cpu/backend.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"
#include "schedlang/lower/message_order.h"

namespace stringline {
namespace {

// Copies of the pipeline add up their gradients, which the plan must say.
Plan WithSums(Plan lowered, const Mesh& mesh) {
  return mesh.coordinates() == 1 ? std::move(lowered) : ReduceGradients(lowered);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Make(Plan lowered,
                                                       std::vector<StageProgram> programs,
                                                       const TrainerSettings& settings,
                                                       std::unique_ptr<Backend> backend) {
  if (backend != nullptr && settings.link.duration_ns != nullptr) {
    return absl::InvalidArgumentError(
        "TrainerSettings::link is the CPU's; another backend is made with its own");
  }
  std::unique_ptr<Trainer> trainer(
      new Trainer(std::move(lowered), std::move(programs), settings, std::move(backend)));
  SL_RETURN_IF_ERROR(trainer->GiveUp(trainer->Prepare()));
  return trainer;
}

Trainer::Trainer(Plan lowered, std::vector<StageProgram> programs, const TrainerSettings& settings,
                 std::unique_ptr<Backend> backend)
    : plan_(WithSums(std::move(lowered), settings.mesh)),
      programs_(std::move(programs)),
      settings_(settings),
      wiring_(WiringOf(plan_, settings.layout)),
      backend_(std::move(backend)),
      copies_(settings.mesh.coordinates()) {}

Trainer::~Trainer() {
  if (backend_ != nullptr) backend_->groups()->TellStates(nullptr);
}

absl::Status Trainer::Prepare() {
  if (backend_ == nullptr) SL_RETURN_IF_ERROR(MakeCpuBackend());
  SL_RETURN_IF_ERROR(FindLocalRanks());
  step_.emplace(device(), kPhases, settings_.capture);
  SL_ASSIGN_OR_RETURN(void* const update,
                      device()->AllocateHost(static_cast<int64_t>(sizeof(UpdateStep))));
  update_ = new (update) UpdateStep;
  // Before memory is counted: what communicators take is not there any more.
  MakeGroups();
  SL_RETURN_IF_ERROR(backend_->groups()->Connect());
  for (PipelineCopy& copy : copies_) {
    SL_ASSIGN_OR_RETURN(copy.stages,
                        Stages::Place(plan_, programs_, backend_->kernels(), sharing()));
  }
  for (int place = 0; place < device()->places(); ++place) SL_RETURN_IF_ERROR(CheckRoom(place));
  for (int c = 0; c < settings_.mesh.coordinates(); ++c) SL_RETURN_IF_ERROR(PrepareCopy(c));
  for (const Tie& tie : ties_) PrepareTie(tie);
  if (settings_.record) {
    std::vector<Recorder*> recorders;
    for (const PipelineCopy& copy : copies_) recorders.push_back(copy.recorder.get());
    flight_.emplace(plan_, std::move(recorders), local_, device());
    backend_->groups()->TellStates(&*flight_);
  }
  return ShareMemory();
}

void Trainer::MakeGroups() {
  replicas_ = std::make_unique<Replicas>(plan_, settings_.mesh, backend_->groups(),
                                         sharing().sharding != Sharding::kNone);
  for (int c = 0; c < settings_.mesh.coordinates(); ++c) {
    if (settings_.mesh.expert_of(c) == 0) MakeExpertGroups(settings_.mesh.data_of(c));
    copies_[c].messages.emplace(plan_, settings_.layout, c * plan_.ranks(), backend_->groups());
  }
  for (int64_t at = 0; at < stages() * settings_.mesh.coordinates(); ++at) {
    const std::vector<Param>& params = programs_[at % stages()].params;
    for (size_t p = 0; p < params.size(); ++p) {
      if (params[p].tied_to.empty()) continue;
      MakeTied(static_cast<int>(at / stages()), StageOf(at), static_cast<int>(p));
    }
  }
}

// Whether what the ranks of this process need there is there.
absl::Status Trainer::CheckRoom(int place) {
  NeededMemory needed;
  for (int c = 0; c < settings_.mesh.coordinates(); ++c) {
    std::vector<RankId> ranks;
    for (const RankId rank : local_.Of(c)) {
      if (device()->place_of(c * plan_.ranks() + rank.value) == place) ranks.push_back(rank);
    }
    const NeededMemory one = copies_[c].stages->needed(ranks);
    needed.params += one.params;
    needed.activations += one.activations;
  }
  return CheckMemory(needed, backend_->available(place));
}

absl::Status Trainer::FindLocalRanks() {
  const Mesh& mesh = settings_.mesh;
  if (world() == nullptr) {
    local_ = LocalRanks(mesh, plan_.ranks());
    return absl::OkStatus();
  }
  const int all = mesh.coordinates() * plan_.ranks();
  if (world()->ranks() != all) {
    return absl::InvalidArgumentError(
        absl::StrCat("the processes hold ", world()->ranks(), " ranks, but the run has ", all, ": ",
                     plan_.ranks(), " of the pipeline on ", mesh.coordinates(),
                     mesh.coordinates() == 1 ? " coordinate" : " coordinates", " of the mesh"));
  }
  local_ = LocalRanks(mesh, plan_.ranks(), world()->local());
  return absl::OkStatus();
}

absl::Status Trainer::MakeCpuBackend() {
  int threads = settings_.threads;
  if (threads == 0) {
    const unsigned cores = std::max(1u, std::thread::hardware_concurrency());  // that we may use
    threads = std::min(plan_.ranks() * settings_.mesh.coordinates(), static_cast<int>(cores));
  }
  // What is on its way over a slow link ends although every thread computes.
  if (settings_.link.duration_ns != nullptr) ++threads;
  auto backend = CpuBackend::Make(threads, settings_.link);
  if (!backend.ok()) {
    return absl::Status(backend.status().code(),
                        absl::StrCat(backend.status().message(),
                                     "; fewer train.threads in the run file would help"));
  }
  backend_ = *std::move(backend);
  return absl::OkStatus();
}

absl::Status Trainer::PrepareCopy(int coordinate) {
  PipelineCopy& copy = copies_[coordinate];
  if (settings_.record) copy.recorder = std::make_unique<Recorder>(plan_);
  const int expert = settings_.mesh.expert_of(coordinate);
  const std::vector<RankId>& local = local_.Of(coordinate);
  copy.stages->Join({coordinate, replicas_.get(),
                     expert_groups_[settings_.mesh.data_of(coordinate)], expert,
                     ShardOf(coordinate)});
  SL_RETURN_IF_ERROR(copy.stages->Allocate(settings_.seed, expert, local, device()));
  SL_ASSIGN_OR_RETURN(copy.interpreter, Interpreter::Make(plan_, copy.stages.get(), device(),
                                                          *copy.messages, copy.recorder.get(),
                                                          {.order = settings_.order,
                                                           .layout = settings_.layout,
                                                           .first_rank = coordinate * plan_.ranks(),
                                                           .local = local,
                                                           .between = BetweenSteps(coordinate)}));
  for (size_t s = 0; s < programs_.size(); ++s) {
    SL_RETURN_IF_ERROR(PrepareBlocks(coordinate, StageId(static_cast<int32_t>(s))));
  }
  return absl::OkStatus();
}

// What a compute stream is given between steps: squares, updates, sums of tied parameters, gathers.
int Trainer::BetweenSteps(int coordinate) const {
  const int calls = Group::OpsOf(CallKind::kAllReduce);
  int ops = 0;
  for (int64_t s = 0; s < stages(); ++s) {
    const Stages& of = *copies_[coordinate].stages;
    const StageId stage(static_cast<int32_t>(s));
    ops += 2 + calls * static_cast<int>(of.GatherUpdated(stage).size() +
                                        of.pieces(stage).buckets().size());
  }
  return ops;
}

// Moments are laid out as what is updated.
absl::Status Trainer::PrepareBlocks(int coordinate, StageId stage) {
  PipelineCopy& copy = copies_[coordinate];
  const RankId rank = plan_.stage(stage).rank;
  const std::vector<Param>& params = programs_[stage.value].params;
  const StatePieces& pieces = copy.stages->pieces(stage);
  const size_t count = pieces.BlocksOf(ShardOf(coordinate)).size();
  SL_ASSIGN_OR_RETURN(
      void* const squares,
      device()->AllocateHost(static_cast<int64_t>(std::max<size_t>(1, count) * sizeof(double))));
  copy.squares.emplace_back(static_cast<double*>(squares), count);
  std::vector<ParamBlock>& blocks = copy.blocks.emplace_back();
  copy.gathers.emplace_back();
  if (!holds(stage, coordinate)) return absl::OkStatus();
  copy.gathers.back() = copy.stages->GatherUpdated(stage);
  device()->MakeFor(coordinate * plan_.ranks() + rank.value);
  char* moments[2];
  for (char*& of : moments) {
    SL_ASSIGN_OR_RETURN(void* memory,
                        copy.stages->Take(rank, copy.stages->state(stage).moment, device()));
    of = static_cast<char*>(memory);
  }
  for (const Stages::Owned& owned : copy.stages->OwnedBlocks(stage)) {
    const Param& param = params[pieces.blocks()[owned.block].param];
    ParamBlock& block = blocks.emplace_back();
    block.values = owned.values;
    block.gradient = owned.gradient;
    block.m = {reinterpret_cast<float*>(moments[0] + owned.moment_at), owned.values.size()};
    block.v = {reinterpret_cast<float*>(moments[1] + owned.moment_at), owned.values.size()};
    block.working = owned.working;
    block.balances = param.update == stringline::Update::kBalance;
    block.decays = param.decay;
    block.counts = !block.balances && param.tied_to.empty();
  }
  return backend_->kernels()->Prepare(blocks);
}

void Trainer::MakeTied(int coordinate, StageId stage, int index) {
  const Param& param = programs_[stage.value].params[index];
  for (size_t s = 0; s < programs_.size(); ++s) {
    const StageId other(static_cast<int32_t>(s));
    if (plan_.stage(other).pipe != plan_.stage(stage).pipe) continue;
    const std::vector<Param>& params = programs_[s].params;
    const auto tied = std::find_if(params.begin(), params.end(), [&](const Param& candidate) {
      return candidate.name == param.tied_to;
    });
    if (tied == params.end()) continue;
    const int base = coordinate * plan_.ranks();
    const int ranks[] = {base + plan_.stage(other).rank.value,
                         base + plan_.stage(stage).rank.value};
    Group* const group = ranks[0] == ranks[1] ? nullptr : backend_->groups()->New(ranks);
    ties_.push_back(
        {coordinate, other, stage, {static_cast<int>(tied - params.begin()), index}, group});
    return;
  }
  SL_CHECK(false) << param.name << " is tied to " << param.tied_to << ", which nobody has";
}

// The sum of both gradients goes to both: of the whole, or, where sums are shared out, of the own
// pieces, which are cut alike at both ends (StatePieces).
void Trainer::PrepareTie(const Tie& tie) {
  const Param& param = programs_[tie.stage.value].params[tie.index_of[1]];
  if (sharing().sharding < Sharding::kGradients) {
    return AddTiedCalls(tie, 0, GradTypeOf(param).bytes());
  }
  const StatePieces& pieces = copies_[tie.coordinate].stages->pieces(tie.stage);
  const int own = ShardOf(tie.coordinate);
  for (const Bucket& bucket : pieces.buckets()) {
    const StateBlock& first = pieces.blocks()[bucket.first_block];
    if (first.param != tie.index_of[1]) continue;
    const int64_t begin = first.first * static_cast<int64_t>(sizeof(float));
    AddTiedCalls(tie, begin + bucket.pieces.begin[own], bucket.pieces.bytes(own));
  }
}

// Of so many bytes of the gradient. Member 0 is the one that the other is tied to.
void Trainer::AddTiedCalls(const Tie& tie, int64_t first, int64_t bytes) {
  if (bytes == 0) return;
  const Param& param = programs_[tie.stage.value].params[tie.index_of[1]];
  const StageId stage_of[] = {tie.other, tie.stage};
  bool here[2];
  float* gradients[] = {nullptr, nullptr};
  for (int m = 0; m < 2; ++m) {
    here[m] = holds(stage_of[m], tie.coordinate);
    if (!here[m]) continue;
    gradients[m] = grad(stage_of[m], tie.index_of[m], tie.coordinate).data() +
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
    tied_.push_back({tie.coordinate, tie.stage, nullptr, 0, backend_->kernels(), call});
    return;
  }
  for (int member = 0; member < 2; ++member) {
    if (!here[member]) continue;
    call.from = call.to = gradients[member];
    tied_.push_back({tie.coordinate, stage_of[member], tie.group, member, nullptr, call});
  }
}

// Of every rank of the pipeline: it with those of the other expert coordinates.
void Trainer::MakeExpertGroups(int data) {
  std::vector<Group*>& of_data = expert_groups_.emplace_back();
  for (int r = 0; r < plan_.ranks(); ++r) {
    std::vector<int> ranks;
    for (int x = 0; x < settings_.mesh.expert; ++x) {
      ranks.push_back(settings_.mesh.coordinate(data, x) * plan_.ranks() + r);
    }
    of_data.push_back(backend_->groups()->New(ranks));
  }
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
  if (flight_) flight_->StartStep(device()->NowNs());
  SL_RETURN_IF_ERROR(GiveUp(step_->Run(kGradients, [this] {
    for (PipelineCopy& copy : copies_) copy.interpreter->EnqueueStep();
    // If they are not the same, the device tells.
    if (!std::exchange(calls_checked_, true)) (void)backend_->groups()->CheckCalls();
  })));
  return Share();
}

double Trainer::loss_sum() const {
  double sum = 0;
  for (const PipelineCopy& copy : copies_) {
    for (int32_t m = 0; m < plan_.microbatches; ++m) sum += copy.stages->loss(MicrobatchId(m));
  }
  return sum;
}

double Trainer::aux_loss_sum() const {
  double sum = 0;
  ForEveryTally([&sum](const Stages& stages, StageId stage, MicrobatchId m, int layer) {
    sum += stages.aux_loss(stage, m, layer);
  });
  return sum;
}

int64_t Trainer::dropped() const {
  double sum = 0;
  ForEveryTally([&sum](const Stages& stages, StageId stage, MicrobatchId m, int layer) {
    sum += stages.dropped(stage, m, layer);
  });
  return std::llround(sum);
}

int64_t Trainer::tokens_per_step() const {
  return microbatches() * programs_.front().input.elements();
}

absl::Status Trainer::RefreshWorking() {
  for (PipelineCopy& copy : copies_) SL_RETURN_IF_ERROR(copy.stages->RefreshWorking(device()));
  EnqueueGathers();
  device()->Submit();
  return GiveUp(device()->Synchronize());
}

void Trainer::EnqueueForEveryStage(void (*work)(const void*, int64_t, NativeStream)) {
  for (size_t c = 0; c < copies_.size(); ++c) {
    for (int64_t s = 0; s < stages(); ++s) {
      if (!holds(StageId(static_cast<int32_t>(s)), static_cast<int>(c))) continue;
      device()->Launch(copies_[c].interpreter->ComputeStream(plan_.stages[s].rank),
                       {work, this, static_cast<int64_t>(c) * stages() + s});
    }
  }
}

absl::Span<float> Trainer::View(float* block, StageId stage, int index) const {
  const int64_t offset = copies_[0].stages->layout(stage).params[index];
  const int64_t elements = programs_[stage.value].params[index].type.elements();
  return {block + offset / static_cast<int64_t>(sizeof(float)), static_cast<size_t>(elements)};
}

}  // namespace stringline
