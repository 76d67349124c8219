// Place computes layouts, sizes and a memory plan from types alone. Allocate then takes a few
// blocks for each rank, and every address is an offset in a block. A part of an action is a run of
// its program's nodes, or calls on the group of the stage's experts; each part is bound once to the
// addresses of its microbatch.
#include "executor/training/stages.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "schedlang/base/align.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"
#include "schedlang/plan/effects.h"

namespace stringline {
namespace {

absl::Status CheckFit(const Plan& plan, absl::Span<const StageProgram> programs) {
  if (plan.stages.size() != programs.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the plan has ", plan.stages.size(), " stages, the model ", programs.size()));
  }
  for (size_t s = 0; s < programs.size(); ++s) {
    if (programs[s].slice.of != plan.slices) {
      return absl::InvalidArgumentError(absl::StrCat("stage ", s, " of the model has programs of ",
                                                     programs[s].slice.of,
                                                     " slices, and the plan has ", plan.slices));
    }
    const StageId stage(static_cast<int32_t>(s));
    if (programs[s].first != plan.graph.In(stage).empty() ||
        programs[s].last != plan.graph.Out(stage).empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("stage ", s, " of the model does not stand where the plan has it"));
    }
    if (programs[s].remakes != plan.stages[s].remakes) {
      return absl::InvalidArgumentError(
          absl::StrCat("stage ", s,
                       plan.stages[s].remakes ? " has R in the plan, and no program for it"
                                              : " of the model has an R, the plan none"));
    }
  }
  return absl::OkStatus();
}

bool ReadsParameters(const StageProgram& program, ActionKind kind) {
  const Graph* const graphs[] = {&program.forward, &program.backward, &program.input_gradient,
                                 &program.weight_gradient, &program.recompute};
  const std::vector<Port>& inputs = graphs[static_cast<int>(kind)]->inputs;
  return std::any_of(inputs.begin(), inputs.end(),
                     [](const Port& port) { return port.role == Role::kParam; });
}

// Walks each rank's list: parameters are gathered from an UNSHARD to the next RESHARD of the stage.
absl::Status CheckGathered(const Plan& plan, absl::Span<const StageProgram> programs) {
  for (int r = 0; r < plan.ranks(); ++r) {
    std::vector<bool> there(programs.size(), false);
    for (const Action& action : plan.of(RankId(r))) {
      if (action.kind == ActionKind::kUnshard) there[action.stage.value] = true;
      if (action.kind == ActionKind::kReshard) there[action.stage.value] = false;
      if (!ComputesMicrobatch(action.kind)) continue;
      if (there[action.stage.value]) continue;
      if (!ReadsParameters(programs[action.stage.value], action.kind)) continue;
      return absl::FailedPreconditionError(
          absl::StrCat("rank ", r, " would run ", PrintWithLine(plan, action),
                       " without the parameters of "
                       "stage ",
                       action.stage.value, ", which 'sharding: parameters' shares out: no UNSHARD ",
                       "before it gathers them"));
    }
  }
  return absl::OkStatus();
}

// The kind of the program to which a part of the action belongs: an R is the only part of its own.
ActionKind ProgramOfPart(const Action& action, LayerPart part) {
  const bool remakes = action.kind == ActionKind::kRecompute;
  return remakes ? action.kind : RowOfPart(part.part).of;
}

// The index in the graph's parts (StageProgram) of a part of a stage: input gradients count from
// the last layer, and weight gradients leave out the network.
int IndexInParts(LayerPart part, int layers) {
  const ActionKind of = RowOfPart(part.part).of;
  const bool forward = of == ActionKind::kForward;
  const int layer = forward ? part.layer : layers - 1 - part.layer;
  switch (part.part) {
    case kFAttn:
      return 4 * layer;
    case kFDispatch:
    case kBCombine:
      return 4 * layer + 1;
    case kFExperts:
    case kBExperts:
      return 4 * layer + 2;
    case kFCombine:
    case kBDispatch:
      return 4 * layer + 3;
    case kFPost:
      return 4 * layers;
    case kBAttn:
      return 4 * layer + 4;
    case kWExperts:
      return 2 * layer + 1;
    case kWAttn:
      return 2 * layer + 2;
    default:
      return 0;  // B.post and W.post
  }
}

}  // namespace

Stages::Stages(const Plan& lowered, absl::Span<const StageProgram> programs, Kernels* kernels,
               const StateSharing& sharing, const Stages* lender)
    : plan_(lowered),
      programs_(programs),
      params_(lowered, programs, sharing, lender == nullptr ? nullptr : &lender->params_),
      data_(lowered, programs),
      ready_(lowered, programs, params_.gathers(), kernels),
      stages_(programs.size()),
      collectives_(&params_, kernels, sharing),
      exchanges_(lowered, kernels),
      copies_(lowered, kernels) {}

std::vector<StageSizes> Stages::SizesOf(const Plan& plan, absl::Span<const StageProgram> programs,
                                        Kernels* kernels, const StateSharing& sharing) {
  return Stages(plan, programs, kernels, sharing).Sizes();
}

std::vector<StageSizes> Stages::Sizes() const {
  std::vector<StageSizes> sizes;
  for (size_t s = 0; s < stages_.size(); ++s) {
    const StageId id(static_cast<int32_t>(s));
    const StageLayout& layout = params_.layout(id);
    StageSizes& size = sizes.emplace_back();
    for (int v = 0; v < kBuiltInValues; ++v) {
      const auto value = static_cast<StageValue>(v);
      size.of_microbatch[value] = BytesOf(id, value);
    }
    size.in_parts = layout.layers > 0;
    for (int kind = 0; kind < ReadyPrograms::kKinds; ++kind) {
      const auto program = static_cast<ActionKind>(kind);
      const bool runs = !size.in_parts || program != ActionKind::kBackward;
      size.temporaries[kind] = runs ? ready_.arena_bytes(id, program) : 0;
    }
    size.resident = state(id).all() + data_.BytesOf(id);
    if (params_.gathers()) size.gathered = layout.working_bytes;
  }
  return sizes;
}

absl::StatusOr<std::unique_ptr<Stages>> Stages::Place(const Plan& lowered,
                                                      absl::Span<const StageProgram> programs,
                                                      Kernels* kernels, const StateSharing& sharing,
                                                      const Stages* lender) {
  SL_RETURN_IF_ERROR(CheckFit(lowered, programs));
  std::unique_ptr<Stages> stages(new Stages(lowered, programs, kernels, sharing, lender));
  SL_RETURN_IF_ERROR(stages->ready_.status());
  if (stages->params_.gathers()) SL_RETURN_IF_ERROR(CheckGathered(lowered, programs));
  SL_ASSIGN_OR_RETURN(stages->memory_, PlanMemory(lowered, stages->Sizes()));
  return stages;
}

bool Stages::Holds(absl::Span<const RankId> ranks, StageId stage) const {
  return std::find(ranks.begin(), ranks.end(), plan_.stage(stage).rank) != ranks.end();
}

NeededMemory Stages::needed(absl::Span<const RankId> ranks) const {
  NeededMemory needed;
  double tallies = 0;
  for (size_t s = 0; s < stages_.size(); ++s) {
    const StageId stage(static_cast<int32_t>(s));
    if (!Holds(ranks, stage)) continue;
    needed.params += static_cast<double>(state(stage).all());
    tallies += static_cast<double>(data_.TallyBytes(stage));
  }
  // With the copies in host memory.
  for (const RankId rank : ranks) {
    const RankMemory& memory = memory_.ranks[rank.value];
    needed.activations += static_cast<double>(memory.all()) + static_cast<double>(memory.host);
  }
  needed.activations -= needed.params;
  int64_t positions = 0;
  for (const StageProgram& program : programs_) {
    if (program.positions) positions = program.positions->bytes();
  }
  const int64_t data = plan_.chunks * (programs_.front().input.bytes() +
                                       programs_.back().target.bytes() + positions);
  needed.activations += plan_.microbatches * (static_cast<double>(data) + tallies);
  return needed;
}

std::vector<RankBytes> Stages::rank_bytes() const {
  std::vector<RankBytes> ranks;
  for (int r = 0; r < plan_.ranks(); ++r) {
    const int64_t taken = allocator_ ? allocator_->taken(RankId(r)) : 0;
    ranks.push_back({memory_.ranks[r].all(), taken});
  }
  return ranks;
}

absl::StatusOr<void*> Stages::Take(StageId stage, int64_t bytes) {
  return allocator_->Take(plan_.stage(stage).rank, bytes);
}

absl::Status Stages::Allocate(const MeshSeat& seat, uint64_t seed, absl::Span<const RankId> ranks,
                              Device* device) {
  seat_ = seat;
  collectives_.Join(seat);
  allocator_.emplace(device, seat.coordinate * plan_.ranks(), plan_.ranks());
  std::vector<StageId> held;
  for (size_t s = 0; s < stages_.size(); ++s) {
    const StageId stage(static_cast<int32_t>(s));
    if (!Holds(ranks, stage)) continue;
    held.push_back(stage);
    device->ExpectLaunches(ready_.most_launches(stage));
  }
  for (const StageId stage : held) {
    SL_RETURN_IF_ERROR(params_.Allocate(stage, seat, seed, &*allocator_));
  }
  SL_RETURN_IF_ERROR(data_.Allocate(held, &*allocator_));
  blocks_.resize(plan_.ranks());
  for (const RankId rank : ranks) {
    const RankMemory& memory = memory_.ranks[rank.value];
    RankBlocks& blocks = blocks_[rank.value];
    SL_ASSIGN_OR_RETURN(blocks.values, allocator_->Take(rank, memory.block));
    SL_ASSIGN_OR_RETURN(blocks.gathered, allocator_->Take(rank, memory.gathered));
    if (memory.host > 0) {
      SL_ASSIGN_OR_RETURN(void* const host, device->AllocateHost(memory.host));
      blocks.host = static_cast<char*>(host);
    }
    for (const int64_t bytes : memory.arenas) {
      SL_ASSIGN_OR_RETURN(blocks.arenas.emplace_back(), allocator_->Take(rank, bytes));
    }
  }
  return absl::OkStatus();
}

char* Stages::AddressOf(StageId stage, MicrobatchId microbatch, StageValue value, bool back) const {
  const int64_t offset = memory_.OffsetOf(stage, microbatch, value, back);
  const RankBlocks& blocks = blocks_[plan_.stage(stage).rank.value];
  if (offset < 0) return nullptr;
  return (IsOnHost(value) ? blocks.host : blocks.values) + offset;
}

absl::StatusOr<Work> Stages::Copy(const Action& action) {
  const bool back = action.kind == ActionKind::kFetch;
  std::vector<Bytes> kept;
  ForEachOf(CopiedValues(plan_.stage(action.stage).remakes), [&](StageValue value) {
    kept.push_back(
        {AddressOf(action.stage, action.microbatch, value, back), BytesOf(action.stage, value)});
  });
  return copies_.Bind(kept, AddressOf(action.stage, action.microbatch, StageValue::kHosted), back);
}

absl::StatusOr<Piece> Stages::Update(const Action& action) {
  SL_RETURN_IF_ERROR(collectives_.CheckSummed(action.stage));
  return update_(action.stage, plan_.StepOf(action));
}

int64_t Stages::StrideOf(StageId stage, StageValue value) const {
  const int64_t bytes = ready_.bytes(stage, value);
  return plan_.chunks == 1 ? bytes : AlignUp(bytes);
}

Bytes Stages::Payload(const Action& action) const {
  const StageValue value = MessageOf(action.kind);
  return {AddressOf(action.stage, action.microbatch, value), BytesOf(action.stage, value)};
}

Regions Stages::RegionsOf(const Action& action, ActionKind program, int chunk) {
  const int32_t rank = plan_.stage(action.stage).rank.value;
  Regions regions = {};
  const auto set = [&](Region region, char* address) {
    regions[static_cast<int>(region)] = address;
  };
  const auto index = static_cast<uint32_t>(&action - plan_.actions.data());
  SL_CHECK(index < plan_.actions.size()) << Print(plan_, action);
  const int twins = TwinsBefore(plan_, index, program) * plan_.chunks + chunk;
  set(Region::kArena, blocks_[rank].arenas[memory_.ranks[rank].ArenaOf(program, twins)]);
  const ReadParams read = params_.ReadBy(index);
  set(Region::kParams, read.params);
  set(Region::kWorking, params_.gathers() ? stages_[action.stage.value].gathered : read.working);
  set(Region::kGrads, params_.grads(action.stage));
  for (int v = 0; v < kBuiltInValues; ++v) {
    const auto value = static_cast<StageValue>(v);
    char* const address =
        AddressOf(action.stage, action.microbatch, value, copies_.IsBack(action, value));
    if (address != nullptr) set(RegionOf(value), address + chunk * StrideOf(action.stage, value));
  }
  data_.Bind(action, chunk, &regions);
  if (plan_.SliceOf(action) > 0) BindSlices(action, &regions);
  return regions;
}

// The keys of the slices before the action's, and the gradients that it gives to the one before.
void Stages::BindSlices(const Action& action, Regions* regions) {
  const int slice = plan_.SliceOf(action);
  const int32_t first = action.microbatch.value - slice;
  const auto of = [&](int k, StageValue value) {
    return AddressOf(action.stage, MicrobatchId(first + k), value);
  };
  std::vector<char*>& past = past_.emplace_back();
  for (int k = 0; k < slice; ++k) past.push_back(of(k, StageValue::kSliceKeys));
  regions->past = past;
  (*regions)[static_cast<int>(Region::kKeyGradBefore)] = of(slice - 1, StageValue::kSliceKeyGrad);
}

int Stages::IndexOf(const Action& action, LayerPart part) const {
  if (action.kind == ActionKind::kRecompute) return 0;
  return IndexInParts(part, layers(action.stage));
}

Piece Stages::Compute(const Action& action, LayerPart part) {
  // A B in parts is an I and a W; otherwise its B.post is the whole backward.
  ActionKind kind = ProgramOfPart(action, part);
  if (layers(action.stage) == 0 && action.kind == ActionKind::kBackward) {
    if (kind == ActionKind::kWeightGradient) return {};
    kind = ActionKind::kBackward;
  }
  SL_CHECK(static_cast<int>(kind) < ReadyPrograms::kKinds) << Print(plan_, action);
  bound_.push_back(
      {&ready_.Of(action, kind), RegionsOf(action, kind, part.chunk), IndexOf(action, part)});
  if (LaneOf(part.part) == Lane::kNetwork) {
    const Bound& bound = bound_.back();
    Group* const group = seat_.experts[plan_.stage(action.stage).rank.value];
    return exchanges_.Bind(action, part, group, seat_.expert,
                           bound.program->ExchangesOf(bound.part, bound.regions));
  }
  return Piece{{[](const void* self, int64_t, NativeStream stream) {
                  const auto& bound = *static_cast<const Bound*>(self);
                  bound.program->Run(bound.part, bound.regions, stream);
                },
                &bound_.back(), 0},
               {},
               {}};
}

bool Stages::MeetsBuckets(const Action& collective) const {
  if (collective.kind == ActionKind::kUnshard) {
    return params_.gathers() && params_.pieces(collective.stage).buckets().size() > 1;
  }
  return collective.kind == ActionKind::kReduceGrad &&
         collectives_.Summed(collective.stage).size() > 1;
}

const std::vector<int>& Stages::ReduceOrderOf(StageId of) {
  Stage& stage = stages_[of.value];
  if (stage.reduce_order.empty()) {
    stage.reduce_order = ReduceOrder(params_.pieces(of).buckets(), collectives_.Summed(of),
                                     ready_.Of(of, ActionKind::kBackward));
  }
  return stage.reduce_order;
}

std::vector<BucketPiece> Stages::ComputeByBucket(const Action& action, bool gathers, bool reduces) {
  const ReadyGraph& program = ProgramOf(action);
  std::vector<BucketNode> needed, given;
  if (gathers) needed = GatheredBy(params_.pieces(action.stage).buckets(), program);
  if (reduces) {
    given = GivenBy(params_.pieces(action.stage).buckets(), ReduceOrderOf(action.stage), program);
  }
  const Regions regions = RegionsOf(action, action.kind, /*chunk=*/0);
  std::vector<BucketPiece> pieces;
  for (NodePiece& of : CutAtBuckets(program.nodes(), needed, given)) {
    bound_.push_back({&program, regions, /*part=*/0, of.first, of.end});
    const Work work = {[](const void* self, int64_t, NativeStream stream) {
                         const auto& bound = *static_cast<const Bound*>(self);
                         bound.program->Run(bound.first, bound.end, bound.regions, stream);
                       },
                       &bound_.back(), 0};
    pieces.push_back({work, std::move(of.needs), std::move(of.gives)});
  }
  return pieces;
}

int Stages::BucketsRead(const Action& action, LayerPart part) {
  return ReadByPart(params_.pieces(action.stage).buckets(),
                    stages_[action.stage.value].gather_order,
                    ready_.Of(action, ProgramOfPart(action, part)), IndexOf(action, part));
}

std::vector<int> Stages::BucketsGiven(const Action& action, LayerPart part) {
  return GivenByPart(params_.pieces(action.stage).buckets(), ReduceOrderOf(action.stage),
                     ready_.Of(action, ProgramOfPart(action, part)), IndexOf(action, part));
}

absl::StatusOr<std::vector<Piece>> Stages::Collective(const Action& action, const Action* inside) {
  Piece all;
  switch (action.kind) {
    case ActionKind::kReduceGrad:
      all = collectives_.ReduceGrads(
          action.stage, ReduceOrderOf(seat_.replicas->OnItsRank(action.stage).front()));
      break;
    case ActionKind::kUnshard:
      if (params_.gathers()) all = Unshard(action.stage, inside);
      break;
    case ActionKind::kReshard:
      break;
    default:
      return StageWork::Collective(action, inside);
  }
  if (inside == nullptr) return std::vector<Piece>{std::move(all)};
  SL_CHECK(all.work.run == nullptr && all.after.run == nullptr) << "work around buckets";
  std::vector<Piece> pieces;
  for (const MemberCall& call : all.calls) pieces.push_back({{}, {call}, {}});
  return pieces;
}

Piece Stages::Unshard(StageId of, const Action* inside) {
  Stage& stage = stages_[of.value];
  char* const room = blocks_[plan_.stage(of).rank.value].gathered;
  const int64_t offset = memory_.gathers[of.value][stage.unshards++];
  stage.gathered = room == nullptr ? nullptr : room + offset;
  stage.gather_order.clear();
  for (const BucketNode& bucket :
       GatheredBy(params_.pieces(of).buckets(),
                  inside == nullptr ? ready_.Of(of, ActionKind::kForward) : ProgramOf(*inside))) {
    stage.gather_order.push_back(bucket.bucket);
  }
  return collectives_.Unshard(of, stage.gathered, stage.gather_order);
}

}  // namespace stringline
