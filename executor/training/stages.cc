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

// The number of edges over which values come, or go.
size_t EdgesOf(const std::vector<Crossing>& crossings) {
  int last = Crossing::kNoEdge;
  for (const Crossing& crossing : crossings) last = std::max(last, crossing.edge);
  return static_cast<size_t>(last) + 1;
}

bool IsSameEdge(const Edge& a, const Edge& b) { return a.id == b.id; }

// The types of the values that cross over one of a stage's edges.
std::vector<Type> TypesAt(const std::vector<Crossing>& crossings, size_t edge) {
  std::vector<Type> types;
  for (const Crossing& crossing : crossings) {
    if (crossing.edge == static_cast<int>(edge)) types.push_back(crossing.type);
  }
  return types;
}

// A microbatch that leaves out stages brings those behind them what they read otherwise: every
// stage has as many edges as without, and the same types cross.
absl::Status CheckWay(const Plan& plan, const StageGraph& way,
                      absl::Span<const StageProgram> programs) {
  const StageGraph& whole = plan.WholeGraph();
  for (int s = 0; s < way.stages(); ++s) {
    const StageId stage(s);
    const absl::Span<const Edge> edges = way.Out(stage);
    if (way.In(stage).empty() && edges.empty()) continue;  // left out
    if (edges.size() > 1 && !std::equal(edges.begin(), edges.end(), whole.Out(stage).begin(),
                                        whole.Out(stage).end(), IsSameEdge)) {
      return absl::UnimplementedError(absl::StrCat(
          "stage ", s, " has several outputs, and microbatches leave out a stage behind it"));
    }
    for (size_t e = 0; e < edges.size(); ++e) {
      const absl::Span<const Edge> in = way.In(edges[e].to);
      const auto at = std::find_if(in.begin(), in.end(),
                                   [&](const Edge& edge) { return IsSameEdge(edge, edges[e]); });
      const auto place = static_cast<size_t>(at - in.begin());
      if (TypesAt(programs[s].outputs, e) == TypesAt(programs[edges[e].to.value].inputs, place)) {
        continue;
      }
      return absl::InvalidArgumentError(absl::StrCat(
          "microbatches go from stage ", s, " to stage ", edges[e].to.value,
          " and leave out those between, whose results have other types than their inputs"));
    }
  }
  return absl::OkStatus();
}

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
    const StageGraph& graph = plan.WholeGraph();
    if (EdgesOf(programs[s].inputs) != graph.In(stage).size() ||
        EdgesOf(programs[s].outputs) != graph.Out(stage).size()) {
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
  for (const StageGraph& way : plan.ways) SL_RETURN_IF_ERROR(CheckWay(plan, way, programs));
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
      memory_(lowered, ready_),
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
      size.of_microbatch[value] = memory_.BytesOf(id, value);
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
  while (static_cast<int>(sizes.size()) < plan_.graph.entries()) {
    const StageId edge(static_cast<int32_t>(sizes.size()));
    StageSizes& size = sizes.emplace_back();
    for (const StageValue value : kMoving) size.of_microbatch[value] = memory_.BytesOf(edge, value);
  }
  return sizes;
}

absl::StatusOr<std::unique_ptr<Stages>> Stages::Place(
    const Plan& lowered, absl::Span<const StageProgram> programs, Kernels* kernels,
    absl::Span<const RankId> ranks, const StateSharing& sharing, const Stages* lender) {
  SL_RETURN_IF_ERROR(CheckFit(lowered, programs));
  std::unique_ptr<Stages> stages(new Stages(lowered, programs, kernels, sharing, lender));
  SL_RETURN_IF_ERROR(stages->ready_.status());
  if (stages->params_.gathers()) SL_RETURN_IF_ERROR(CheckGathered(lowered, programs));
  SL_RETURN_IF_ERROR(stages->memory_.Place(stages->Sizes(), ranks));
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
    const RankMemory& memory = memory_.places().ranks[rank.value];
    needed.activations += static_cast<double>(memory.all()) + static_cast<double>(memory.host);
  }
  needed.activations -= needed.params;
  int64_t positions = 0, mask_key = 0;
  for (const StageProgram& program : programs_) {
    if (program.positions) positions = program.positions->bytes();
    if (program.mask_key) mask_key = program.mask_key->bytes();
  }
  const int64_t data = plan_.chunks * (2 * data_.sequence_bytes() + positions + mask_key);
  needed.activations += plan_.microbatches * (static_cast<double>(data) + tallies);
  return needed;
}

std::vector<RankBytes> Stages::rank_bytes() const {
  std::vector<RankBytes> ranks;
  for (int r = 0; r < plan_.ranks(); ++r) {
    const int64_t taken = allocator_ ? allocator_->taken(RankId(r)) : 0;
    ranks.push_back({memory_.places().ranks[r].all(), taken});
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
  return memory_.Allocate(ranks, &*allocator_);
}

absl::StatusOr<Work> Stages::Copy(const Action& action) {
  const bool back = action.kind == ActionKind::kFetch;
  const auto address_of = [&](StageValue value, bool brought) {
    return memory_.AddressOf(action.stage, action.microbatch, value, brought);
  };
  std::vector<Bytes> kept;
  ForEachOf(CopiedValues(plan_.stage(action.stage).remakes), [&](StageValue value) {
    kept.push_back({address_of(value, back), memory_.BytesOf(action.stage, value)});
  });
  return copies_.Bind(kept, address_of(StageValue::kHosted, false), back);
}

absl::StatusOr<Piece> Stages::Update(const Action& action) {
  SL_RETURN_IF_ERROR(collectives_.CheckSummed(action.stage));
  return update_(action.stage, plan_.StepOf(action));
}

Regions Stages::RegionsOf(const Action& action, ActionKind program, int chunk) {
  Regions regions = {};
  const auto set = [&](Region region, char* address) {
    regions[static_cast<int>(region)] = address;
  };
  const auto index = static_cast<uint32_t>(&action - plan_.actions.data());
  const ReadParams read = params_.ReadBy(index);
  set(Region::kParams, read.params);
  set(Region::kWorking, params_.gathers() ? stages_[action.stage.value].gathered : read.working);
  set(Region::kGrads, params_.grads(action.stage));
  memory_.Bind(action, program, chunk, copies_, &regions);
  data_.Bind(action, chunk, &regions);
  return regions;
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
  stage.gathered = memory_.RoomOf(of, stage.unshards++);
  stage.gather_order.clear();
  for (const BucketNode& bucket :
       GatheredBy(params_.pieces(of).buckets(),
                  inside == nullptr ? ready_.Of(of, ActionKind::kForward) : ProgramOf(*inside))) {
    stage.gather_order.push_back(bucket.bucket);
  }
  return collectives_.Unshard(of, stage.gathered, stage.gather_order);
}

}  // namespace stringline
