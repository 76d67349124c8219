// The core table: the needs, gives and releases of every action. Nothing else in the project knows
// them: order, deadlock, the sends and receives of lowering, simulated time, live memory and the
// executor's buffers all follow. values.def has the table by value; by action:
//
//   action     | needs                 | gives                        | releases
//   -----------+-----------------------+------------------------------+---------------------
//   F s.m      | input s.m             | output s.m, saved s.m        | input s.m
//   B s.m      | out grad s.m, saved   | in grad s.m, weight grad s.m | out grad, saved s.m
//   I s.m      | out grad s.m, saved   | in grad s.m, stash s.m       | out grad, saved for I s.m
//   W s.m      | stash s.m             | weight grad s.m              | stash, saved for W s.m
//   R s.m      | kept s.m, to remake   | saved s.m                    | to remake s.m
//   D s.m      | saved, to offload s.m | hosted s.m                   | saved, to offload s.m
//   U s.m      | hosted s.m            | saved s.m                    | hosted s.m
//   SEND_F s.m | output s.m            |                              | output s.m
//   RECV_F s.m |                       | input s.m                    |
//   SEND_B s.m | in grad s.m           |                              | in grad s.m
//   RECV_B s.m |                       | out grad s.m                 |
//
// F gives `to offload`, too, which R, B and I release: D comes before them, and once. In a stage
// with R (Stage::remakes) an F gives `kept` and `to remake` in place of `saved`, D and U move
// `kept`, and all that follow need it; it lives until B or W.
//
// In a plan with slices (Plan::slices) F gives the keys of its slice, which stay until its B or I;
// the F of the next slice needs them. A B or I gives the gradient of all keys before its slice,
// which is the key gradient of the slice before, and ends with its B or I.
//
// In a plan without backwards (Plan::forward_only) F gives its output only; with slices also all
// keys so far to the slice behind, whose F takes them.
//
// A schedule's own actions (rows.h) are further rows of the table. For them F gives `result` until
// B or I, and B or I `sent back`, which stays.
//
// Collectives (UNSHARD, RESHARD, REDUCE_GRAD) act on the parameters of a stage, whatever the
// microbatch, and have no row of values here.
//
// A step is whole when every action ran with its needs live and at the end only the weight gradient
// of every stage and microbatch is live: nothing was done twice, dropped or left over.
//
// The output of stage s is the input of stage s+1, and the in grad of stage s+1 is the out grad of
// stage s: at once when both live on one rank, by a send and a receive otherwise. A first stage's
// input is the data, live from the start; a last stage's out grad comes from its own loss, with F.
//
// Each edge of stages that are no chain (stage_graph.h) has such values of its own: F needs the
// inputs of all edges that lead to its stage, gives an output to each that leaves it, and so on
// backwards. A stage's `input` is live when all its inputs are, and its `output` until all of them
// are sent.
#pragma once

#include <array>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/types/span.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/values.h"

namespace stringline {

using EffectsByKind = std::array<Effects, kActionKinds>;

// The place of a slice in its microbatch; whole: a plan without slices.
enum class SliceAt : uint8_t { kWhole, kFirst, kBetween, kLast };
inline SliceAt SliceAtOf(const Plan& plan, MicrobatchId microbatch) {
  if (plan.slices == 1) return SliceAt::kWhole;
  const int slice = microbatch.value % plan.slices;
  if (slice == 0) return SliceAt::kFirst;
  return slice + 1 == plan.slices ? SliceAt::kLast : SliceAt::kBetween;
}

// The sorts of stages, which differ in the effects of their actions.
enum class StageSort : uint8_t { kKeeps, kRemakes, kForwardOnly };  // without R, with it
inline constexpr size_t kStageSorts = 3;
inline StageSort SortOf(const Plan& plan, const Stage& stage) {
  if (plan.forward_only) return StageSort::kForwardOnly;
  return stage.remakes ? StageSort::kRemakes : StageSort::kKeeps;
}

// By SliceAt, then sort.
extern const std::array<EffectsByKind, 4 * kStageSorts> kEffects;

inline const Effects& EffectsOf(ActionKind kind, StageSort sort, SliceAt at = SliceAt::kWhole) {
  const size_t table = static_cast<size_t>(at) * kStageSorts + static_cast<size_t>(sort);
  return kEffects[table][static_cast<size_t>(kind)];
}
// `remakes`: in a stage with R.
inline const Effects& EffectsOf(ActionKind kind, bool remakes = false) {
  return EffectsOf(kind, remakes ? StageSort::kRemakes : StageSort::kKeeps);
}
// On the rank of the stage, of some slice.
inline const Effects& EffectsOf(const Plan& plan, StageId stage, ActionKind kind) {
  if (IsOwn(kind)) return plan.rows.of(kind).effects[plan.stage(stage).remakes ? 1 : 0];
  return EffectsOf(kind, SortOf(plan, plan.stage(stage)),
                   plan.slices > 1 ? SliceAt::kBetween : SliceAt::kWhole);
}
const Effects& EffectsOfOwn(const Plan& plan, const Action& own);
inline const Effects& EffectsOf(const Plan& plan, const Action& action) {
  if (IsOwn(action.kind)) [[unlikely]]
    return EffectsOfOwn(plan, action);
  return EffectsOf(action.kind, SortOf(plan, plan.stage(action.stage)),
                   SliceAtOf(plan, action.microbatch));
}

// The microbatch of a value that an action on `microbatch` gives: with slices, the gradient of keys
// is that of the slice before, and without backwards the keys are those of the slice behind.
inline MicrobatchId GivenTo(const Plan& plan, MicrobatchId microbatch, StageValue value) {
  if (value == StageValue::kSliceKeyGrad) return MicrobatchId(microbatch.value - 1);
  const bool keys_go_on = value == StageValue::kSliceKeys && plan.forward_only;
  return MicrobatchId(microbatch.value + (keys_go_on ? 1 : 0));
}
// The bytes of a value are those of a slice times this: a gradient of keys has those of its slice
// and of all before it; keys that go on from slice to slice have those of all before.
inline int64_t SlicesIn(const Plan& plan, MicrobatchId microbatch, StageValue value) {
  const int slice = microbatch.value % plan.slices;
  if (value == StageValue::kSliceKeyGrad) return slice + 1;
  return value == StageValue::kSliceKeys && plan.forward_only ? slice : 1;
}

// True for the values that move over edges.
constexpr bool Moves(StageValue value) {
  return value == StageValue::kInput || value == StageValue::kOutput ||
         value == StageValue::kOutGrad || value == StageValue::kInGrad;
}
// True for those of them that a stage has for the edges that lead to it, and false for those of
// edges that leave it.
constexpr bool LeadsHere(StageValue value) {
  return value == StageValue::kInput || value == StageValue::kInGrad;
}
// The entry of a value that moves over the edge (StageGraph::entries).
inline StageId EntryOf(const Plan& plan, const Edge& edge, StageValue value) {
  return LeadsHere(value) ? plan.graph.EntryAtTo(edge) : plan.graph.EntryAtFrom(edge);
}
// Visits the entries of a value that the action needs, gives or releases:
// visit(entry). Of a value that moves those of all edges, and for a message that of its edge.
template <typename Visit>
void ForEachEntry(const Plan& plan, const Action& action, StageValue value, Visit visit) {
  if (!Moves(value) || plan.graph.is_chain()) {
    visit(action.stage);
  } else if (IsMessage(action.kind)) {
    visit(plan.graph.EntryAtTo(*EdgeOf(plan, action)));
  } else {
    const StageGraph& graph = plan.GraphOf(action.microbatch);
    for (const Edge& edge : LeadsHere(value) ? graph.In(action.stage) : graph.Out(action.stage)) {
      visit(plan.graph.EntryAtTo(edge));
    }
  }
}

// The values that D and U move between a rank and its host.
inline Values CopiedValues(bool remakes) { return EffectsOf(ActionKind::kFetch, remakes).gives; }

// The value that a send takes, or a receive gives.
StageValue MessageOf(ActionKind send_or_recv);

// The actions that read a value, in a plan with rows: what ends its life, later in the list, waits
// for them. By stage, microbatch and value, since the value was given; for a walk down a list.
using OwnReaders = std::map<std::tuple<int32_t, int32_t, Values>, std::vector<uint32_t>>;

// Visits the readers of the values that plan.actions[i] releases, and notes the action if it is
// such a reader itself: visit(index).
template <typename Visit>
void ForReadersOfReleased(const Plan& plan, uint32_t i, OwnReaders* readers, Visit visit) {
  const Action& action = plan.actions[i];
  const Effects& effects = EffectsOf(plan, action);
  const auto key = [&action](Values value) {
    return std::tuple(action.stage.value, action.microbatch.value, value);
  };
  ForEachSetOf(effects.releases, [&](Values value) {
    const auto known = readers->find(key(value));
    if (known == readers->end()) return;
    for (const uint32_t reader : known->second) visit(reader);
    readers->erase(known);
  });
  ForEachSetOf(effects.needs & ~effects.releases,
               [&](Values value) { (*readers)[key(value)].push_back(i); });
}

// The live values of every stage and microbatch. Starts with the data of the first stages.
class LiveValues {
 public:
  explicit LiveValues(const Plan& plan);

  Values of(StageId stage, MicrobatchId microbatch) const {
    return live_[Index(stage, microbatch)];
  }
  // The live values of the action's stage and microbatch on the action's rank.
  Values There(const Action& action) const { return live_[IndexOn(action)]; }
  // The needs of `action` that are not live.
  Values Missing(const Action& action) const {
    if (IsOwn(action.kind)) [[unlikely]]
      return MissingOfOwn(action);
    const Values needs = EffectsOfBuiltIn(action).needs;
    if (needs == 0) return 0;
    return (needs & ~of(action.stage, action.microbatch)) | MissingOfSliceBefore(action) |
           MissingOfEdge(action);
  }
  // The same for group[part]. Parts of a group run at once, so values given by earlier parts are
  // not yet live, and values released by earlier parts are no longer available. Messages over
  // different edges take values of their own.
  Values Missing(absl::Span<const Action> group, size_t part) const {
    if (part == 0) return Missing(group[0]);
    const Values needs = EffectsOf(plan_, group[part]).needs;
    if (needs == 0) return 0;
    Values there = There(group[part]);
    for (size_t k = 0; k < part; ++k) {
      const bool same =
          group[k].stage == group[part].stage && group[k].microbatch == group[part].microbatch;
      const bool apart = IsMessage(group[k].kind) && IsMessage(group[part].kind) &&
                         group[k].other != group[part].other;
      if (same && !apart) there &= static_cast<Values>(~EffectsOf(plan_, group[k]).releases);
    }
    return (needs & ~there) | MissingOfSliceBefore(group[part]) | MissingOfEdge(group[part]);
  }
  // True if the edge has brought the value (kInput to its stage, kOutGrad back) and it is not used
  // yet; false in a chain, where of() tells it.
  bool IsAtEdge(const Edge& edge, MicrobatchId microbatch, Values value) const {
    return !at_edges_.empty() && (at_edges_[EdgeIndex(edge, microbatch)] & value) != 0;
  }
  // Takes the releases of the action, then adds its gives, as the neighbour stage's value if the
  // neighbour lives on the same rank.
  void Perform(const Action& action);
  // True when only weight gradients are left, one for each stage and microbatch of its pipe;
  // without backwards, when nothing is.
  bool Whole() const;

 private:
  size_t Index(StageId stage, MicrobatchId microbatch) const {
    return static_cast<size_t>(stage.value) * microbatches_ + microbatch.value;
  }
  // The index of the action's stage and microbatch on the action's rank.
  size_t IndexOn(const Action& action) const {
    const bool at_home = action.other < 0 || IsMessage(action.kind);
    return at_home ? Index(action.stage, action.microbatch) : IndexElsewhere(action);
  }
  size_t IndexElsewhere(const Action& action) const;
  const Effects& EffectsOfBuiltIn(const Action& action) const {
    const Stage& stage = plan_.stage(action.stage);
    if (slices_ == 1 && !forward_only_) return EffectsOf(action.kind, stage.remakes);
    return EffectsOf(action.kind, SortOf(plan_, stage), SliceAtOf(plan_, action.microbatch));
  }
  // The keys of the slice before, which an F needs.
  Values MissingOfSliceBefore(const Action& action) const {
    if (slices_ == 1 || forward_only_ || action.kind != ActionKind::kForward ||
        plan_.SliceOf(action) == 0) {
      return 0;
    }
    return kSliceKeys & ~live_[Index(action.stage, action.microbatch) - 1];
  }
  // The value of its edge, which a send needs where stages are no chain.
  Values MissingOfEdge(const Action& action) const {
    return at_edges_.empty() || !IsSend(action.kind) ? Values{0} : MissingOfSend(action);
  }
  Values MissingOfSend(const Action& send) const;
  // The values of an edge and microbatch, of kInput, kOutput, kOutGrad and kInGrad.
  Values& AtEdge(const Edge& edge, MicrobatchId microbatch) {
    return at_edges_[EdgeIndex(edge, microbatch)];
  }
  size_t EdgeIndex(const Edge& edge, MicrobatchId microbatch) const {
    return static_cast<size_t>(edge.id) * microbatches_ + static_cast<size_t>(microbatch.value);
  }
  // The value comes to a stage over an edge that leads to it, or that leaves it.
  void Arrive(const Edge& edge, MicrobatchId microbatch, Values value);
  // A stage gives `given` to each of the edges; on the same rank it is `taken` at the other end.
  // Returns `given` if one of them leads to another rank.
  Values GiveTo(absl::Span<const Edge> edges, MicrobatchId microbatch, Values given, Values taken);
  // Changes the values of edges, where stages are no chain, and leaves in *gives and *releases what
  // the action changes at its stage.
  void ChangeEdges(const Action& action, Values* gives, Values* releases);
  // Own actions give no value to a neighbour.
  Values MissingOfOwn(const Action& own) const;
  void PerformOwn(const Action& own);
  void FindSeats();
  void FindNeighbours();

  // The neighbours of a stage of a chain: those on its rank, or -1, and what is left at the stage
  // of an output and an input gradient that it gives. With a neighbour on another rank that is the
  // value itself; the F of a last stage leaves the gradient of the loss, unless an own action gives
  // that.
  struct Neighbours {
    int32_t before = -1;
    int32_t behind = -1;
    Values left_of_output = 0;
    Values left_of_in_grad = 0;
  };

  const Plan& plan_;
  size_t microbatches_;
  const int slices_;
  const bool forward_only_;
  const bool is_chain_;
  // The values on the ranks of the stages, by stage and microbatch; behind them those that each
  // rank has of a stage, by seat, rank and microbatch. The rank of the stage has no part of that.
  std::vector<Values> live_;
  size_t elsewhere_ = 0;                // the index of the first value on another rank
  std::vector<Neighbours> neighbours_;  // by stage; empty where stages are no chain
  std::vector<Values> at_edges_;        // by edge and microbatch; empty for chains
  std::vector<int32_t> seats_;  // by stage: its seat there, or -1; empty without own actions
  const Values of_loss_;        // given by an F of a last stage, unless an own action gives it
};

// "activation of stage 1, microbatch 0": the lowest value in `values`, in words. A stage's input is
// named for the stages that produce it, and the keys that an F lacks for the slice before. `live`:
// leaves out the stages whose outputs are there.
std::string Describe(const Plan& plan, StageId stage, MicrobatchId microbatch, Values values,
                     const LiveValues* live = nullptr);

// The same of one value, by its entry (StageGraph::entries): "activation of stage 1 for stage 3,
// microbatch 0" over an edge where stages are no chain.
std::string DescribeEntry(const Plan& plan, StageId entry, MicrobatchId microbatch,
                          StageValue value);

// The change in live stage activations on the rank, as memory is counted in the literature:
// +1 at F, -1 at B or W, also of a stage that recomputes; -1 at D and +1 at U.
constexpr int ActivationChange(ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward:
    case ActionKind::kFetch:
      return 1;
    case ActionKind::kBackward:
    case ActionKind::kOffload:
    case ActionKind::kWeightGradient:
      return -1;
    default:
      return 0;
  }
}
// The change by an action of a plan or a timeline, which may be a schedule's own: +1 if that gives
// what F saved, -1 if it frees it. Without backwards nothing is kept.
template <typename PlanOrTimeline>
int ActivationChange(const PlanOrTimeline& of, ActionKind kind) {
  if (of.forward_only) return 0;
  if (!IsOwn(kind)) return ActivationChange(kind);
  const OwnAction& own = of.rows.of(kind);
  return ((own.gives & kSaved) != 0 ? 1 : 0) - ((own.frees & kSaved) != 0 ? 1 : 0);
}

}  // namespace stringline
