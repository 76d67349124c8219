// The rows of values.def are turned into a row for each action, one table for each place of a slice
// and each sort of stage. Live values are a set of bits by stage and microbatch, which Perform
// changes; what a neighbour's stage or slice gets is put there at once.
#include "schedlang/plan/effects.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schedlang/base/sl_check.h"

namespace stringline {
namespace {

enum class Whose : uint8_t { kOwn, kPrevious, kNext };

// The lowest value of a set, all of which take memory.
StageValue LowestIn(Values values) { return static_cast<StageValue>(std::countr_zero(values)); }

struct ValueRow {
  Values value;
  ActionKinds given, needed, last;
  const char* words;
  Whose whose;
  const char* words_at_end;
};

constexpr std::array<ValueRow, kValueRows> RowsOfValues() {
  constexpr ActionKinds F = SetOf(ActionKind::kForward);
  constexpr ActionKinds B = SetOf(ActionKind::kBackward);
  constexpr ActionKinds I = SetOf(ActionKind::kInputGradient);
  constexpr ActionKinds W = SetOf(ActionKind::kWeightGradient);
  constexpr ActionKinds R = SetOf(ActionKind::kRecompute);
  constexpr ActionKinds D = SetOf(ActionKind::kOffload);
  constexpr ActionKinds U = SetOf(ActionKind::kFetch);
  constexpr ActionKinds SEND_F = SetOf(ActionKind::kSendForward);
  constexpr ActionKinds RECV_F = SetOf(ActionKind::kRecvForward);
  constexpr ActionKinds SEND_B = SetOf(ActionKind::kSendBackward);
  constexpr ActionKinds RECV_B = SetOf(ActionKind::kRecvBackward);
  using enum Whose;
  return {{
#define KEPT(value, printed, again, given, needed, last, words, whose, at_end, ...) \
  {value, given, needed, last, words, whose, at_end},
#define MOVED(...) KEPT(__VA_ARGS__, )
#define HOSTED(...) KEPT(__VA_ARGS__)
#define OWN(value) {value, 0, 0, 0, "", kOwn, ""},
#define ADDED(value, given, needed, last, words) {value, given, needed, last, words, kOwn, ""},
#include "schedlang/plan/values.def"
  }};
}
constexpr std::array<ValueRow, kValueRows> kRowsOfValues = RowsOfValues();

constexpr EffectsByKind EffectsOfAll(SliceAt at, StageSort sort) {
  const bool remakes = sort == StageSort::kRemakes;
  EffectsByKind all = {};
  for (int kind = 0; kind < kActionKinds; ++kind) {
    const ActionKinds bit = SetOf(static_cast<ActionKind>(kind));
    for (const ValueRow& row : kRowsOfValues) {
      if (row.needed & bit) all[kind].needs |= row.value;
      if (row.given & bit) all[kind].gives |= row.value;
      if (row.last & bit) all[kind].releases |= row.value;
    }
  }
  // F, D and U are about what a stage keeps.
  const Values others = remakes ? kSaved : kKept | kToRemake;
  for (const ActionKind kind : {ActionKind::kForward, ActionKind::kOffload, ActionKind::kFetch}) {
    Effects& effects = all[static_cast<int>(kind)];
    for (Values* const values : {&effects.needs, &effects.gives, &effects.releases}) {
      *values &= static_cast<Values>(~others);
    }
  }
  const bool whole = at == SliceAt::kWhole;
  const Values none = (remakes ? 0 : kKept) | (whole ? kSliceKeys | kSliceKeyGrad : 0);
  const Values not_given = none | (at == SliceAt::kFirst ? kSliceKeyGrad : 0);
  const Values not_needed = none | (at == SliceAt::kLast ? kSliceKeyGrad : 0);
  for (Effects& effects : all) {
    effects.needs &= static_cast<Values>(~not_needed);
    effects.gives &= static_cast<Values>(~not_given);
    effects.releases &= static_cast<Values>(~not_needed);
  }
  if (sort != StageSort::kForwardOnly) return all;
  Effects& forward = all[static_cast<int>(ActionKind::kForward)];
  const Values taken = whole || at == SliceAt::kFirst ? 0 : kSliceKeys;
  const Values handed_on = whole || at == SliceAt::kLast ? 0 : kSliceKeys;
  forward = {kInput | taken, kOutput | kMade | handed_on, kInput | taken};
  return all;
}

}  // namespace

constinit const std::array<EffectsByKind, 4 * kStageSorts> kEffects = [] {
  std::array<EffectsByKind, 4 * kStageSorts> all = {};
  for (size_t i = 0; i < all.size(); ++i) {
    all[i] = EffectsOfAll(static_cast<SliceAt>(i / kStageSorts),
                          static_cast<StageSort>(i % kStageSorts));
  }
  return all;
}();

StageValue MessageOf(ActionKind send_or_recv) {
  SL_CHECK(IsMessage(send_or_recv)) << PrintedKind(send_or_recv);
  const Effects& effects = EffectsOf(send_or_recv);
  return LowestIn(effects.needs | effects.gives);
}

const Effects& EffectsOfOwn(const Plan& plan, const Action& own) {
  const bool away = own.other >= 0 && RankId(own.other) != plan.stage(own.stage).rank;
  return away ? plan.rows.of(own.kind).effects[2] : EffectsOf(plan, own.stage, own.kind);
}

LiveValues::LiveValues(const Plan& plan)
    : plan_(plan),
      microbatches_(static_cast<size_t>(plan.microbatches)),
      slices_(plan.slices),
      forward_only_(plan.forward_only),
      is_chain_(plan.graph.is_chain()),
      live_(plan.stages.size() * microbatches_, 0),
      elsewhere_(live_.size()),
      of_loss_(plan.forward_only || (plan.rows.given() & kOutGrad) != 0 ? Values{0} : kOutGrad) {
  if (!plan.rows.actions.empty()) FindSeats();
  if (is_chain_) {
    FindNeighbours();
  } else {
    at_edges_.assign(plan.graph.edges().size() * microbatches_, 0);
  }
  const bool data_is_given = (plan.rows.given() & kInput) != 0;
  for (size_t s = 0; s < plan.stages.size() && !data_is_given; ++s) {
    if (!plan.graph.In(StageId(static_cast<int32_t>(s))).empty()) continue;
    std::fill_n(live_.begin() + static_cast<std::ptrdiff_t>(s * microbatches_),
                plan.microbatches_of(StageId(static_cast<int32_t>(s))),
                static_cast<Values>(kInput));
  }
}

void LiveValues::FindNeighbours() {
  neighbours_.resize(plan_.stages.size());
  for (Neighbours& neighbours : neighbours_) neighbours.left_of_output = of_loss_;
  for (const Edge& edge : plan_.graph.edges()) {
    const bool here = plan_.SameRank(edge.from, edge.to);
    Neighbours& from = neighbours_[static_cast<size_t>(edge.from.value)];
    Neighbours& to = neighbours_[static_cast<size_t>(edge.to.value)];
    from.left_of_output = here ? 0 : kOutput;
    to.left_of_in_grad = here ? 0 : kInGrad;
    if (!here) continue;
    from.behind = edge.to.value;
    to.before = edge.from.value;
  }
}

void LiveValues::FindSeats() {
  int32_t seats = 0;
  seats_.assign(plan_.stages.size(), -1);
  for (const Action& action : plan_.actions) {
    int32_t& seat = seats_[static_cast<size_t>(action.stage.value)];
    if (IsOwn(action.kind) && action.other >= 0 && seat < 0) seat = seats++;
  }
  live_.resize(elsewhere_ + static_cast<size_t>(seats) * plan_.ranks() * microbatches_, 0);
}

size_t LiveValues::IndexElsewhere(const Action& action) const {
  if (RankId(action.other) == plan_.stage(action.stage).rank) {
    return Index(action.stage, action.microbatch);
  }
  const auto seat = static_cast<size_t>(seats_[static_cast<size_t>(action.stage.value)]);
  return elsewhere_ + (seat * plan_.ranks() + static_cast<size_t>(action.other)) * microbatches_ +
         static_cast<size_t>(action.microbatch.value);
}

void LiveValues::Perform(const Action& action) {
  if (IsCollective(action.kind)) return;
  if (IsOwn(action.kind)) [[unlikely]]
    return PerformOwn(action);
  const Effects& effects = EffectsOfBuiltIn(action);
  Values gives = effects.gives, releases = effects.releases;
  Values& own = live_[Index(action.stage, action.microbatch)];
  if (is_chain_) [[likely]] {
    const Neighbours& neighbours = neighbours_[static_cast<size_t>(action.stage.value)];
    if (gives & kOutput) {
      gives = (gives & ~kOutput) | neighbours.left_of_output;
      if (neighbours.behind >= 0) {
        live_[Index(StageId(neighbours.behind), action.microbatch)] |= kInput;
      }
    }
    if (gives & kInGrad) {
      gives = (gives & ~kInGrad) | neighbours.left_of_in_grad;
      if (neighbours.before >= 0) {
        live_[Index(StageId(neighbours.before), action.microbatch)] |= kOutGrad;
      }
    }
  } else {
    ChangeEdges(action, &gives, &releases);
  }
  own &= ~releases;
  if (gives & kSliceKeyGrad) [[unlikely]] {
    gives &= ~kSliceKeyGrad;
    live_[Index(action.stage, action.microbatch) - 1] |= kSliceKeyGrad;
  }
  if (forward_only_ && (gives & kSliceKeys) != 0) [[unlikely]] {
    gives &= ~kSliceKeys;
    live_[Index(action.stage, action.microbatch) + 1] |= kSliceKeys;
  }
  own |= gives;
}

Values LiveValues::GiveTo(absl::Span<const Edge> edges, MicrobatchId microbatch, Values given,
                          Values taken) {
  Values sent = 0;
  for (const Edge& edge : edges) {
    if (plan_.SameRank(edge.from, edge.to)) {
      Arrive(edge, microbatch, taken);
    } else {
      sent = given;
      AtEdge(edge, microbatch) |= given;
    }
  }
  return sent;
}

void LiveValues::Arrive(const Edge& edge, MicrobatchId microbatch, Values value) {
  const StageId stage = value == kInput ? edge.to : edge.from;
  AtEdge(edge, microbatch) |= value;
  const StageGraph& graph = plan_.GraphOf(microbatch);
  const auto all = value == kInput ? graph.In(stage) : graph.Out(stage);
  const bool whole = std::all_of(all.begin(), all.end(),
                                 [&](const Edge& one) { return IsAtEdge(one, microbatch, value); });
  if (whole) live_[Index(stage, microbatch)] |= value;
}

Values LiveValues::MissingOfSend(const Action& send) const {
  const Edge* const edge = EdgeOf(plan_, send);
  SL_CHECK(edge != nullptr) << Print(plan_, send);
  return EffectsOf(send.kind).needs & ~at_edges_[EdgeIndex(*edge, send.microbatch)];
}

// A computation releases a value of all its edges, and gives one to all. A send releases that of
// its own edge, and a receive gives it: the stage's value follows.
void LiveValues::ChangeEdges(const Action& action, Values* gives, Values* releases) {
  const MicrobatchId m = action.microbatch;
  const StageGraph& graph = plan_.GraphOf(m);
  if (!IsMessage(action.kind)) {
    for (const Edge& edge : graph.In(action.stage)) AtEdge(edge, m) &= ~(*releases & kInput);
    for (const Edge& edge : graph.Out(action.stage)) {
      AtEdge(edge, m) &= ~(*releases & kOutGrad);
    }
    if (*gives & kOutput) {
      const auto edges = graph.Out(action.stage);
      *gives &= ~kOutput;
      *gives |= edges.empty() ? of_loss_ : GiveTo(edges, m, kOutput, kInput);
    }
    if (*gives & kInGrad) {
      *gives &= ~kInGrad;
      *gives |= GiveTo(graph.In(action.stage), m, kInGrad, kOutGrad);
    }
    return;
  }
  const Edge* const edge = EdgeOf(plan_, action);
  SL_CHECK(edge != nullptr) << Print(plan_, action);
  if (IsRecv(action.kind)) {
    Arrive(*edge, m, std::exchange(*gives, 0));
    return;
  }
  const Values value = *releases;
  AtEdge(*edge, m) &= ~value;
  const auto all = value == kOutput ? graph.Out(action.stage) : graph.In(action.stage);
  const bool others = std::any_of(all.begin(), all.end(),
                                  [&](const Edge& other) { return IsAtEdge(other, m, value); });
  if (others) *releases = 0;
}

Values LiveValues::MissingOfOwn(const Action& own) const {
  return EffectsOf(plan_, own).needs & ~There(own);
}

void LiveValues::PerformOwn(const Action& own) {
  const Effects& effects = EffectsOf(plan_, own);
  Values& there = live_[IndexOn(own)];
  there = (there & ~effects.releases) | effects.gives;
}

bool LiveValues::Whole() const {
  for (size_t s = 0; s < plan_.stages.size(); ++s) {
    const auto row = live_.begin() + static_cast<std::ptrdiff_t>(s * microbatches_);
    const int count = plan_.microbatches_of(StageId(static_cast<int32_t>(s)));
    const Values left = forward_only_ ? kMade : kWeightGrad | kSentBack;
    for (int m = 0; m < count; ++m) {
      const bool left_out = plan_.LeavesOut(StageId(static_cast<int32_t>(s)), MicrobatchId(m));
      if (row[m] != (left_out ? 0 : left)) return false;
    }
  }
  const auto is_gone = [](Values values) { return values == 0; };
  return std::all_of(at_edges_.begin(), at_edges_.end(), is_gone) &&
         std::all_of(live_.begin() + static_cast<std::ptrdiff_t>(elsewhere_), live_.end(), is_gone);
}

std::string Describe(const Plan& plan, StageId stage, MicrobatchId microbatch, Values values,
                     const LiveValues* live) {
  const auto* const row = std::find_if(kRowsOfValues.begin(), kRowsOfValues.end(),
                                       [&](const ValueRow& r) { return (values & r.value) != 0; });
  SL_CHECK(row != kRowsOfValues.end()) << "describes nothing";
  // Only the F behind it lacks the keys of a slice.
  const MicrobatchId of(microbatch.value - (row->value == kSliceKeys ? 1 : 0));
  const std::string number = PrintMicrobatch(plan.slices, of);
  if (row->value & kOwnValues) {
    return absl::StrCat("'", NameOf(plan.rows, LowestIn(row->value)), "' of stage ",
                        PrintStage(plan.pipes, stage), ", microbatch ", number);
  }
  std::vector<StageId> named;
  const auto is_there = [&](const Edge& edge) {
    return live != nullptr && live->IsAtEdge(edge, microbatch, row->value);
  };
  if (row->whose == Whose::kPrevious) {
    for (const Edge& edge : plan.GraphOf(of).In(stage)) {
      if (!is_there(edge)) named.push_back(edge.from);
    }
  } else if (row->whose == Whose::kNext) {
    for (const Edge& edge : plan.GraphOf(of).Out(stage)) {
      if (!is_there(edge)) named.push_back(edge.to);
    }
  } else {
    named.push_back(stage);
  }
  const char* const words = named.empty() ? row->words_at_end : row->words;
  if (named.empty()) named.push_back(stage);
  std::string stages;
  for (const StageId one : named) {
    absl::StrAppend(&stages,
                    stages.empty()        ? ""
                    : one == named.back() ? " or "
                                          : ", ",
                    PrintStage(plan.pipes, one));
  }
  return absl::StrCat(words, " of stage ", stages, ", microbatch ", number);
}

std::string DescribeEntry(const Plan& plan, StageId entry, MicrobatchId microbatch,
                          StageValue value) {
  const int number = entry.value - plan.graph.stages();
  if (number < 0) return Describe(plan, entry, microbatch, SetOf(value));
  const Edge& edge = plan.graph.edges()[static_cast<size_t>(number)];
  const bool forward = value == StageValue::kInput || value == StageValue::kOutput;
  const StageId giver = forward ? edge.from : edge.to, taker = forward ? edge.to : edge.from;
  return absl::StrCat(forward ? "activation" : "gradient", " of stage ", giver.value, " for stage ",
                      taker.value, ", microbatch ", PrintMicrobatch(plan.slices, microbatch));
}

}  // namespace stringline
