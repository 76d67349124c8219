// The rows of values.def are turned into a row for each action, one table for each place of a slice
// and each sort of stage. Live values are a set of bits by stage and microbatch, which Perform
// changes; what a neighbour's stage or slice gets is put there at once.
#include "schedlang/plan/effects.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "schedlang/base/sl_check.h"

namespace stringline {
namespace {

// A set of action kinds, one bit each, as values.def names them.
using Kinds = uint64_t;
static_assert(kActionKinds <= 64);
constexpr Kinds SetOf(ActionKind kind) { return Kinds{1} << static_cast<unsigned>(kind); }

enum class Whose : uint8_t { kOwn, kPrevious, kNext };

// The lowest value of a set, all of which take memory.
StageValue LowestIn(Values values) { return static_cast<StageValue>(std::countr_zero(values)); }

struct ValueRow {
  Values value;
  Kinds given, needed, last;
  const char* words;
  Whose whose;
  const char* words_at_end;
};

constexpr std::array<ValueRow, kValueRows> RowsOfValues() {
  constexpr Kinds F = SetOf(ActionKind::kForward);
  constexpr Kinds B = SetOf(ActionKind::kBackward);
  constexpr Kinds I = SetOf(ActionKind::kInputGradient);
  constexpr Kinds W = SetOf(ActionKind::kWeightGradient);
  constexpr Kinds R = SetOf(ActionKind::kRecompute);
  constexpr Kinds D = SetOf(ActionKind::kOffload);
  constexpr Kinds U = SetOf(ActionKind::kFetch);
  constexpr Kinds SEND_F = SetOf(ActionKind::kSendForward);
  constexpr Kinds RECV_F = SetOf(ActionKind::kRecvForward);
  constexpr Kinds SEND_B = SetOf(ActionKind::kSendBackward);
  constexpr Kinds RECV_B = SetOf(ActionKind::kRecvBackward);
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
    const Kinds bit = SetOf(static_cast<ActionKind>(kind));
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
  const bool away = own.on >= 0 && RankId(own.on) != plan.stage(own.stage).rank;
  return away ? plan.rows.of(own.kind).effects[2] : EffectsOf(plan, own.stage, own.kind);
}

LiveValues::LiveValues(const Plan& plan)
    : plan_(plan),
      microbatches_(static_cast<size_t>(plan.microbatches)),
      slices_(plan.slices),
      forward_only_(plan.forward_only),
      live_(plan.stages.size() * microbatches_, 0),
      elsewhere_(live_.size()),
      data_is_given_((plan.rows.given() & kInput) != 0),
      loss_is_given_((plan.rows.given() & kOutGrad) != 0) {
  if (!plan.rows.actions.empty()) FindSeats();
  for (size_t s = 0; s < plan.stages.size() && !data_is_given_; ++s) {
    if (plan.stages[s].previous.valid()) continue;
    std::fill_n(live_.begin() + static_cast<std::ptrdiff_t>(s * microbatches_),
                plan.microbatches_of(StageId(static_cast<int32_t>(s))),
                static_cast<Values>(kInput));
  }
}

void LiveValues::FindSeats() {
  int32_t seats = 0;
  seats_.assign(plan_.stages.size(), -1);
  for (const Action& action : plan_.actions) {
    int32_t& seat = seats_[static_cast<size_t>(action.stage.value)];
    if (action.on >= 0 && seat < 0) seat = seats++;
  }
  live_.resize(elsewhere_ + static_cast<size_t>(seats) * plan_.ranks() * microbatches_, 0);
}

size_t LiveValues::IndexElsewhere(const Action& action) const {
  if (RankId(action.on) == plan_.stage(action.stage).rank) {
    return Index(action.stage, action.microbatch);
  }
  const auto seat = static_cast<size_t>(seats_[static_cast<size_t>(action.stage.value)]);
  return elsewhere_ + (seat * plan_.ranks() + static_cast<size_t>(action.on)) * microbatches_ +
         static_cast<size_t>(action.microbatch.value);
}

void LiveValues::Perform(const Action& action) {
  if (IsCollective(action.kind)) return;
  if (IsOwn(action.kind)) [[unlikely]]
    return PerformOwn(action);
  const Stage& stage = plan_.stage(action.stage);
  const Effects& effects = EffectsOfBuiltIn(action);
  Values gives = effects.gives;
  Values& own = live_[Index(action.stage, action.microbatch)];
  own &= ~effects.releases;
  if (gives & kOutput) {
    if (!stage.next.valid()) {
      // The loss gives its own gradient, unless an own action does.
      gives = (gives & ~kOutput) | (loss_is_given_ || forward_only_ ? Values{0} : kOutGrad);
    } else if (plan_.stage(stage.next).rank == stage.rank) {
      gives &= ~kOutput;
      live_[Index(stage.next, action.microbatch)] |= kInput;
    }
  }
  if (gives & kInGrad) {
    if (!stage.previous.valid()) {
      gives &= ~kInGrad;
    } else if (plan_.stage(stage.previous).rank == stage.rank) {
      gives &= ~kInGrad;
      live_[Index(stage.previous, action.microbatch)] |= kOutGrad;
    }
  }
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
    if (std::count(row, row + count, left) != count) return false;
  }
  return std::all_of(live_.begin() + static_cast<std::ptrdiff_t>(elsewhere_), live_.end(),
                     [](Values values) { return values == 0; });
}

std::string Describe(const Plan& plan, StageId stage, MicrobatchId microbatch, Values values) {
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
  const Stage& place = plan.stage(stage);
  StageId named = stage;
  if (row->whose == Whose::kPrevious) named = place.previous;
  if (row->whose == Whose::kNext) named = place.next;
  return absl::StrCat(named.valid() ? row->words : row->words_at_end, " of stage ",
                      PrintStage(plan.pipes, named.valid() ? named : stage), ", microbatch ",
                      number);
}

}  // namespace stringline
