// Memory over time against a judge that lists the lifetimes of all values and adds up at every
// moment: on random plans with different sizes of all stages. Then the sizes for the checker's
// memory, and capacities that are met exactly.
#include "schedlang/report/memory_curve.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "absl/strings/str_cat.h"
#include "schedlang/check/check.h"
#include "schedlang/lower/collectives.h"
#include "schedlang/lower/lower.h"
#include "schedlang/memory/memory_plan.h"
#include "schedlang/sim/simulate.h"
#include "tests/schedlang/plan_text.h"
#include "tests/schedlang/random_plan.h"

namespace stringline {
namespace {

using BytesByClass = std::array<int64_t, kMemoryClasses>;

struct HeldPart {
  int64_t from_ns = 0;
  int64_t to_ns = 0;
  MemoryClass memory_class = MemoryClass::kWeights;
  int64_t bytes = 0;
};

// The comment at the top of memory_curve.h, sentence by sentence.
class HeldParts {
 public:
  HeldParts(const Plan& plan, const Timeline& timeline, const std::vector<StageMemory>& sizes)
      : plan_(plan), timeline_(timeline), sizes_(sizes) {
    for (const Event& event : timeline.events) last_ns_ = std::max(last_ns_, event.end_ns);
  }

  std::vector<HeldPart> Of(RankId rank) {
    parts_.clear();
    for (int s = 0; s < static_cast<int>(plan_.stages.size()); ++s) {
      if (plan_.stages[s].rank != rank) continue;
      AddState(s);
      for (int m = 0; m < plan_.microbatches; ++m) AddMicrobatch(s, m);
    }
    return parts_;
  }

 private:
  // The event of the stage's action; null if missing.
  const Event* Find(ActionKind kind, int stage, int microbatch) const {
    for (uint32_t i = 0; i < plan_.actions.size(); ++i) {
      const Action& action = plan_.actions[i];
      if (action.kind == kind && action.stage.value == stage &&
          (IsCollective(kind) || action.microbatch.value == microbatch)) {
        return &timeline_.events[i];
      }
    }
    return nullptr;
  }

  void Add(int64_t from_ns, int64_t to_ns, MemoryClass memory_class, int64_t bytes) {
    parts_.push_back({from_ns, to_ns, memory_class, bytes});
  }

  void AddState(int s) {
    for (const MemoryClass always :
         {MemoryClass::kWeights, MemoryClass::kGradients, MemoryClass::kOptimizer}) {
      Add(0, INT64_MAX, always, sizes_[s][always]);
    }
    int64_t gathered_ns = -1, gradients_ns = -1;
    for (uint32_t i = 0; i < plan_.actions.size(); ++i) {
      const Event& event = timeline_.events[i];
      if (plan_.actions[i].stage.value != s) continue;
      const ActionKind kind = plan_.actions[i].kind;
      if (kind == ActionKind::kUnshard) gathered_ns = event.start_ns;
      if (kind == ActionKind::kReshard && gathered_ns >= 0) {
        Add(gathered_ns, event.end_ns, MemoryClass::kUnsharded, sizes_[s][MemoryClass::kUnsharded]);
        gathered_ns = -1;
      }
      const bool adds = kind == ActionKind::kBackward || kind == ActionKind::kWeightGradient;
      if (adds && gradients_ns < 0) gradients_ns = event.start_ns;
    }
    if (gathered_ns >= 0) {
      Add(gathered_ns, last_ns_, MemoryClass::kUnsharded, sizes_[s][MemoryClass::kUnsharded]);
    }
    const Event* const reduced = Find(ActionKind::kReduceGrad, s, 0);
    if (gradients_ns < 0) return;
    Add(gradients_ns, reduced != nullptr ? reduced->end_ns : last_ns_, MemoryClass::kGradients,
        sizes_[s].unreduced);
  }

  void AddMicrobatch(int s, int m) {
    const Event* const forward = Find(ActionKind::kForward, s, m);
    if (forward == nullptr) return;  // another pipe's
    const Event* const whole = Find(ActionKind::kBackward, s, m);
    const Event* const input = Find(ActionKind::kInputGradient, s, m);
    const Event* const weight = Find(ActionKind::kWeightGradient, s, m);
    const Event& back = whole != nullptr ? *whole : *input;
    const StageMemory& size = sizes_[s];
    const Event* const again = Find(ActionKind::kRecompute, s, m);
    const int64_t last_ns = (whole != nullptr ? whole : weight)->end_ns;
    const int64_t from_ns = (again != nullptr ? again : forward)->start_ns;
    // From F or R on, or until the end of a D and from the start of its U.
    const Event* const offload = Find(ActionKind::kOffload, s, m);
    const Event* const fetch = Find(ActionKind::kFetch, s, m);
    const auto add = [&](MemoryClass of, bool is_moved, int64_t begin_ns, int64_t end_ns) {
      const bool moves = offload != nullptr && is_moved;
      if (moves) Add(begin_ns, offload->end_ns, of, size[of]);
      Add(moves ? fetch->start_ns : begin_ns, end_ns, of, size[of]);
    };
    if (again != nullptr) add(MemoryClass::kKept, true, forward->start_ns, last_ns);
    add(MemoryClass::kSavedForInput, again == nullptr, from_ns, back.end_ns);
    add(MemoryClass::kSavedForWeight, again == nullptr, from_ns, last_ns);
    int64_t remade = size.remade_for_input;
    if (whole != nullptr) remade += size.remade_for_weight;
    Add(back.start_ns, back.end_ns, MemoryClass::kSavedForInput, remade);
    if (whole == nullptr) {
      Add(input->start_ns, weight->end_ns, MemoryClass::kStash, size[MemoryClass::kStash]);
    }
    const int64_t own = size[MemoryClass::kMessages];
    const StageId previous = plan_.graph.Before(StageId(static_cast<int32_t>(s)));
    const int64_t before = previous.valid() ? sizes_[previous.value][MemoryClass::kMessages] : 0;
    Moves(forward->start_ns, Find(ActionKind::kSendForward, s, m), own);
    Moves(back.start_ns, Find(ActionKind::kSendBackward, s, m), before);
    Comes(Find(ActionKind::kRecvForward, s, m), forward->end_ns, before);
    Comes(Find(ActionKind::kRecvBackward, s, m), back.end_ns, own);
  }

  void Moves(int64_t from_ns, const Event* send, int64_t bytes) {
    if (send != nullptr) Add(from_ns, send->end_ns, MemoryClass::kMessages, bytes);
  }
  void Comes(const Event* receive, int64_t to_ns, int64_t bytes) {
    if (receive != nullptr) Add(receive->start_ns, to_ns, MemoryClass::kMessages, bytes);
  }

  const Plan& plan_;
  const Timeline& timeline_;
  const std::vector<StageMemory>& sizes_;
  int64_t last_ns_ = 0;
  std::vector<HeldPart> parts_;
};

BytesByClass HeldAt(const std::vector<HeldPart>& parts, int64_t now_ns) {
  BytesByClass held = {};
  for (const HeldPart& part : parts) {
    if (part.from_ns > now_ns || part.to_ns <= now_ns) continue;
    held[static_cast<size_t>(part.memory_class)] += part.bytes;
  }
  return held;
}

int64_t SumOf(const BytesByClass& held) {
  int64_t sum = 0;
  for (const int64_t bytes : held) sum += bytes;
  return sum;
}

// In front of the first point nothing is held.
int64_t AmountAt(const MemoryCurve& curve, int64_t now_ns) {
  int64_t amount = 0;
  for (const MemoryPoint& point : curve.points) {
    if (point.time_ns <= now_ns) amount = point.amount;
  }
  return amount;
}

void CompareCurve(const MemoryCurve& curve, const std::vector<HeldPart>& parts) {
  std::set<int64_t> moments;
  for (const HeldPart& part : parts) {
    moments.insert(part.from_ns);
    moments.insert(part.to_ns);
  }
  int64_t peak = 0, peak_ns = 0;
  BytesByClass at_peak = {};
  for (const int64_t now_ns : moments) {
    const BytesByClass held = HeldAt(parts, now_ns);
    if (now_ns == INT64_MAX) continue;
    ASSERT_EQ(AmountAt(curve, now_ns), SumOf(held)) << "at " << now_ns;
    if (SumOf(held) <= peak) continue;
    peak = SumOf(held);
    peak_ns = now_ns;
    at_peak = held;
  }
  ASSERT_EQ(curve.peak, peak);
  ASSERT_EQ(curve.peak_ns, peak_ns);
  ASSERT_EQ(curve.at_peak, at_peak);
  for (size_t k = 1; k < curve.points.size(); ++k) {
    ASSERT_LT(curve.points[k - 1].time_ns, curve.points[k].time_ns);
  }
}

// At its peak the rank is not overfull. With a byte less: overfull from the first moment above.
void CompareOverfull(const MemoryCurves& curves, int rank, const std::vector<HeldPart>& parts) {
  const MemoryCurve& curve = curves.ranks[rank];
  const auto of_rank = [&](int64_t capacity) -> std::optional<OverfullRank> {
    for (const OverfullRank& one : FindOverfull(curves, capacity)) {
      if (one.rank == rank) return one;
    }
    return std::nullopt;
  };
  ASSERT_FALSE(of_rank(curve.peak).has_value());
  for (const int64_t capacity : {curve.peak - 1, curve.peak / 2, int64_t{1}}) {
    if (capacity <= 0 || capacity >= curve.peak) continue;
    std::set<int64_t> moments;
    for (const HeldPart& part : parts) moments.insert(part.from_ns);
    int64_t first_ns = -1;
    for (const int64_t now_ns : moments) {
      if (first_ns < 0 && SumOf(HeldAt(parts, now_ns)) > capacity) first_ns = now_ns;
    }
    const auto overfull = of_rank(capacity);
    ASSERT_TRUE(overfull.has_value());
    ASSERT_EQ(overfull->first_ns, first_ns);
    ASSERT_EQ(overfull->peak, curve.peak);
    ASSERT_EQ(overfull->peak_ns, curve.peak_ns);
  }
}

struct DrawnStep {
  Plan plan;  // lowered
  CostModel costs;
};

DrawnStep DrawStep(std::mt19937_64& random) {
  DrawnStep step;
  Plan plan = RandomRightPlan(random, 5, 3, /*copies=*/true);
  if (Below(random, 2) == 0) plan = AddCollectives(plan, 1 + static_cast<int>(Below(random, 3)));
  step.plan = Lower(plan);
  const auto draw = [&](size_t most) { return static_cast<int64_t>(1 + Below(random, most)); };
  CostModel& costs = step.costs;
  costs.hop = draw(9);
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    for (auto* const times :
         {&costs.forward, &costs.backward, &costs.input_gradient, &costs.weight_gradient,
          &costs.recompute, &costs.offload, &costs.fetch, &costs.unshard, &costs.reduce}) {
      times->push_back(draw(20));
    }
    StageMemory memory;
    for (int64_t& bytes : memory.bytes) bytes = draw(1000);
    memory.unreduced = draw(1000);
    memory.remade_for_input = draw(1000);
    memory.remade_for_weight = draw(1000);
    costs.memory.push_back(memory);
  }
  return step;
}

TEST(MemoryCurve, IsThatOfWhatIsHeldFromWhenToWhen) {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937_64 random(seed);
    const DrawnStep step = DrawStep(random);
    const auto timeline = Simulate(step.plan, step.costs);
    ASSERT_TRUE(timeline.ok()) << timeline.status();
    const MemoryCurves curves = MemoryOver(step.plan, *timeline, step.costs.memory);
    ASSERT_TRUE(curves.in_bytes);
    HeldParts held(step.plan, *timeline, step.costs.memory);
    for (int r = 0; r < step.plan.ranks(); ++r) {
      SCOPED_TRACE(absl::StrCat("rank ", r));
      const std::vector<HeldPart> parts = held.Of(RankId(r));
      CompareCurve(curves.ranks[r], parts);
      if (!HasFatalFailure()) CompareOverfull(curves, r, parts);
      if (HasFatalFailure()) return;
    }
  }
}

// From the start of F to the end of B or W, however large stages are.
TEST(MemoryCurve, CountsActivationsWhereNoSizesAreKnown) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937_64 random(seed);
    const DrawnStep step = DrawStep(random);
    const auto timeline = Simulate(step.plan, step.costs);
    ASSERT_TRUE(timeline.ok()) << timeline.status();
    const MemoryCurves curves = MemoryOver(step.plan, *timeline, {});
    ASSERT_FALSE(curves.in_bytes);
    EXPECT_TRUE(FindOverfull(curves, 1).empty());
    for (int r = 0; r < step.plan.ranks(); ++r) {
      std::map<std::pair<int, int>, HeldPart> held;
      std::vector<HeldPart> parts;
      for (uint32_t i = step.plan.first[r]; i < step.plan.first[r + 1]; ++i) {
        const Action& action = step.plan.actions[i];
        HeldPart& part = held[{action.stage.value, action.microbatch.value}];
        part.memory_class = MemoryClass::kSavedForInput;
        const Event& event = timeline->events[i];
        if (action.kind == ActionKind::kForward) part.from_ns = event.start_ns, part.bytes = 1;
        if (action.kind == ActionKind::kOffload) {
          parts.push_back({part.from_ns, event.end_ns, MemoryClass::kSavedForInput, 1});
        }
        if (action.kind == ActionKind::kFetch) part.from_ns = event.start_ns;
        const bool last =
            action.kind == ActionKind::kBackward || action.kind == ActionKind::kWeightGradient;
        if (last) part.to_ns = event.end_ns;
      }
      int64_t peak = 0;
      for (const auto& [key, part] : held) parts.push_back(part);
      for (const HeldPart& part : parts) {
        const int64_t now = SumOf(HeldAt(parts, part.from_ns));
        ASSERT_EQ(AmountAt(curves.ranks[r], part.from_ns), now);
        ASSERT_EQ(AmountAt(curves.ranks[r], part.to_ns), SumOf(HeldAt(parts, part.to_ns)));
        peak = std::max(peak, now);
      }
      ASSERT_EQ(curves.ranks[r].peak, peak);
    }
  }
}

// Three stages whose sizes are all different: every number has its place.
TEST(MemoryCurve, SizesForTheCheckerAreThoseOfTheRightStage) {
  const Plan plan = PlanFromText(
      "plan x P=3 M=1\nstages 0 1 2\nrank 0: 0F0 0B0\nrank 1: 1F0 1I0 1W0\nrank 2: 2F0 2B0\n");
  std::vector<StageMemory> memory(3);
  for (int s = 0; s < 3; ++s) {
    const int64_t stage = 1'000'000 * (s + 1);
    for (int c = 0; c < kMemoryClasses; ++c) {
      memory[s][static_cast<MemoryClass>(c)] = stage + (int64_t{1} << c);
    }
    memory[s].unreduced = stage + 1000;
    memory[s].remade_for_input = stage + 2000;
    memory[s].remade_for_weight = stage + 3000;
  }
  const std::vector<StageSizes> sizes = SizesOfCosts(plan, memory);
  ASSERT_EQ(sizes.size(), 3u);
  for (int s = 0; s < 3; ++s) {
    SCOPED_TRACE(absl::StrCat("stage ", s));
    const StageMemory& own = memory[s];
    EXPECT_EQ(sizes[s].resident, own[MemoryClass::kWeights] + own[MemoryClass::kGradients] +
                                     own[MemoryClass::kOptimizer] + own.unreduced);
    EXPECT_EQ(sizes[s].gathered, own[MemoryClass::kUnsharded]);
    const StageBytes& of = sizes[s].of_microbatch;
    const int64_t sent = own[MemoryClass::kMessages];
    const int64_t entered = s > 0 ? memory[s - 1][MemoryClass::kMessages] : 0;
    EXPECT_EQ(of[StageValue::kInput], entered);
    EXPECT_EQ(of[StageValue::kInGrad], entered);
    EXPECT_EQ(of[StageValue::kOutput], s < 2 ? sent : 0);
    EXPECT_EQ(of[StageValue::kOutGrad], s < 2 ? sent : 0);
    EXPECT_EQ(of[StageValue::kSavedForInput], own[MemoryClass::kSavedForInput]);
    EXPECT_EQ(of[StageValue::kSavedForWeight], own[MemoryClass::kSavedForWeight]);
    EXPECT_EQ(of[StageValue::kStash], own[MemoryClass::kStash]);
  }
  const auto remade = [&](int s, ActionKind kind) {
    return sizes[s].temporaries[static_cast<size_t>(kind)];
  };
  EXPECT_EQ(remade(0, ActionKind::kBackward), 2 * 1'000'000 + 5000);
  EXPECT_EQ(remade(1, ActionKind::kInputGradient), 2'002'000);
  EXPECT_EQ(remade(2, ActionKind::kBackward), 2 * 3'000'000 + 5000);
  EXPECT_EQ(remade(0, ActionKind::kForward), 0);
  EXPECT_EQ(remade(1, ActionKind::kWeightGradient), 0);
  // A rank has room for the largest recomputation of an action, in whole cache lines.
  std::vector<StageSizes> kept = sizes;
  for (StageSizes& stage : kept) stage.temporaries = {};
  const Plan lowered = Lower(plan);
  const auto with = PlanMemory(lowered, sizes), without = PlanMemory(lowered, kept);
  ASSERT_TRUE(with.ok() && without.ok());
  constexpr int64_t kMost[] = {2'005'000, 2'002'000, 6'005'000};
  for (int r = 0; r < 3; ++r) {
    const int64_t room = with->ranks[r].all() - without->ranks[r].all();
    EXPECT_EQ(room, (kMost[r] + 63) / 64 * 64) << "rank " << r;
  }
  // A stage recomputes nothing for actions that are not in the plan.
  EXPECT_EQ(remade(0, ActionKind::kInputGradient), 0);
  EXPECT_EQ(remade(1, ActionKind::kBackward), 0);
}

// A simulated step holds at most the checker's count, and the checker accepts exactly this count.
TEST(MemoryCurve, TheCheckerTakesExactlyItsOwnBytes) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937_64 random(seed);
    DrawnStep step = DrawStep(random);
    // Parts of a group recompute in turn; a timeline shows them at once.
    for (StageMemory& memory : step.costs.memory) {
      memory.remade_for_input = memory.remade_for_weight = 0;
    }
    const auto timeline = Simulate(step.plan, step.costs);
    ASSERT_TRUE(timeline.ok()) << timeline.status();
    const MemoryCurves curves = MemoryOver(step.plan, *timeline, step.costs.memory);
    const std::vector<StageSizes> sizes = SizesOfCosts(step.plan, step.costs.memory);
    const auto memory = PlanMemory(step.plan, sizes);
    ASSERT_TRUE(memory.ok()) << memory.status();
    CheckOptions options = {.sizes = sizes};
    for (int r = 0; r < step.plan.ranks(); ++r) {
      EXPECT_LE(curves.ranks[r].peak, memory->ranks[r].all()) << "rank " << r;
      options.memory.ranks.push_back(memory->ranks[r].all());
    }
    Diagnostics none;
    ASSERT_TRUE(Check(step.plan, options, &none));
    const int tight = static_cast<int>(Below(random, step.plan.ranks()));
    if (step.plan.of(RankId(tight)).empty()) continue;
    --options.memory.ranks[tight];
    Diagnostics findings;
    ASSERT_FALSE(Check(step.plan, options, &findings));
    ASSERT_EQ(findings.findings().size(), 1u);
    EXPECT_EQ(findings.findings()[0].text.rfind(absl::StrCat("rank ", tight, " holds "), 0), 0u)
        << findings.findings()[0].text;
  }
}

}  // namespace
}  // namespace stringline
