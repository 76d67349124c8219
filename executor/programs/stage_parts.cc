// What a part of an action is: a run of its program's nodes, or calls on the group that
// shares out the experts. Each part is bound once to the addresses of its microbatch.
#include "absl/strings/str_cat.h"
#include "executor/programs/stages.h"
#include "schedlang/base/sl_check.h"

namespace stringline {
namespace {

// Which part of its graph (StageProgram) a part of a stage is: those of an input gradient count
// from the last layer, and those of a weight gradient leave out the network.
int IndexOf(LayerPart part, int layers) {
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

// The number that ends of one exchange have in common, and nobody else.
int64_t NumberOf(const Plan& plan, const Action& action, LayerPart part, int64_t exchange) {
  int64_t number = static_cast<int64_t>(action.kind);
  number = number * static_cast<int64_t>(plan.stages.size()) + action.stage.value;
  number = number * plan.microbatches + action.microbatch.value;
  number = (number << 20) + part.layer;
  return (number * kParts + part.part) * 8 + exchange;
}

}  // namespace

Regions Stages::RegionsOf(const Action& action, int program) const {
  const Stage& stage = stages_[action.stage.value];
  const RankId rank = plan_.stage(action.stage).rank;
  Regions regions = {};
  const auto set = [&](Region region, char* address) {
    regions[static_cast<int>(region)] = address;
  };
  set(Region::kArena,
      arenas_[rank.value][memory_.ranks[rank.value].ArenaOf(static_cast<ActionKind>(program))]);
  set(Region::kParams, stage.params);
  set(Region::kWorking, gathers() ? stage.gathered : stage.working);
  set(Region::kGrads, stage.grads);
  for (int v = 0; v < kStageValues; ++v) {
    const auto value = static_cast<StageValue>(v);
    set(RegionOf(value), AddressOf(action.stage, action.microbatch, value));
  }
  const int32_t data = DataOf(action);
  set(Region::kTallies, stage.tallies + data * TallyBytes(action.stage));
  if (programs_[action.stage.value].first) set(Region::kInput, device_tokens_[data]);
  if (programs_[action.stage.value].last) {
    set(Region::kTarget, device_targets_[data]);
    set(Region::kLoss, device_losses_[data]);
  }
  return regions;
}

Piece Stages::Compute(const Action& action, LayerPart part) {
  const Stage& stage = stages_[action.stage.value];
  // A B in parts is an I and a W; otherwise all of it is its B.post.
  ActionKind kind = RowOfPart(part.part).of;
  if (stage.layout.layers == 0 && action.kind == ActionKind::kBackward) {
    if (kind == ActionKind::kWeightGradient) return {};
    kind = ActionKind::kBackward;
  }
  const int program = static_cast<int>(kind);
  SL_CHECK(program < kPrograms) << Print(plan_, action);
  bound_.push_back(
      {&stage.programs[program], RegionsOf(action, program), IndexOf(part, stage.layout.layers)});
  if (LaneOf(part.part) == Lane::kNetwork) return ExchangePiece(action, part, bound_.back());
  return Piece{{[](const void* self, int64_t, NativeStream stream) {
                  const auto& bound = *static_cast<const Bound*>(self);
                  bound.program->Run(bound.part, bound.regions, stream);
                },
                &bound_.back(), 0},
               {},
               {}};
}

Piece Stages::ExchangePiece(const Action& action, LayerPart part, const Bound& bound) {
  const RankId rank = plan_.stage(action.stage).rank;
  Group* const group = seat_.experts[rank.value];
  exchange_names_.push_back({this, action, part});
  Piece piece;
  std::vector<CountedRows> tails;
  for (const ReadyGraph::Exchange& exchange :
       bound.program->ExchangesOf(bound.part, bound.regions)) {
    piece.calls.push_back({group, seat_.expert, {}});
    Call& call = piece.calls.back().call;
    const auto number = static_cast<int64_t>(piece.calls.size());
    call.name = {PrintExchange, &exchange_names_.back(), NumberOf(plan_, action, part, number)};
    call.from = exchange.in[0].data;
    call.to = exchange.out[0].data;
    if (exchange.node->op == Op::kAllToAllCounts) {
      call.kind = CallKind::kAllToAll;
      call.bytes = exchange.in[0].type->bytes() / group->members();
      continue;
    }
    const bool there = exchange.node->op == Op::kDispatch;
    SL_CHECK(there || exchange.node->op == Op::kCombine) << "no exchange of rows";
    const int32_t* const counts = exchange.in[1].i32();
    const int32_t* const received = exchange.in[2].i32();
    const int64_t experts = exchange.in[1].type->elements();
    call.kind = CallKind::kAllToAllCounted;
    call.bytes = exchange.out[0].type->bytes() / exchange.out[0].type->shape[0];
    const int64_t most_rows = exchange.out[0].type->shape[0];
    const int64_t most_piece_rows = std::min(most_rows, exchange.in[0].type->shape[0]);
    row_counts_.push_back({there ? counts : received, there ? received : counts,
                           static_cast<int32_t>(experts / group->members()), most_rows,
                           most_piece_rows});
    call.rows = &row_counts_.back();
    if (there) continue;
    tails.push_back({static_cast<char*>(call.to), call.bytes, most_rows, counts, experts});
  }
  if (tails.empty()) return piece;
  tails_.push_back({kernels_, std::move(tails)});
  piece.after = {ClearTails, &tails_.back(), 0};
  return piece;
}

// The rows behind those that a combine brought back are zeros.
void Stages::ClearTails(const void* self, int64_t /*argument*/, NativeStream stream) {
  const auto& tails = *static_cast<const Tails*>(self);
  for (const CountedRows& rows : tails.all) tails.kernels->ClearBehind(rows, stream);
}

std::string Stages::PrintExchange(const void* self, int64_t /*index*/) {
  const auto& name = *static_cast<const ExchangeName*>(self);
  return absl::StrCat("the rows of ", Print(name.owner->plan_, name.action), ":", Print(name.part));
}

}  // namespace stringline
