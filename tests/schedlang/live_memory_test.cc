// The memory held along a rank's list against counts made anew at every group, and limits that are
// met exactly.
#include "schedlang/check/live_memory.h"

#include <gtest/gtest.h>

#include <random>

#include "absl/strings/str_cat.h"
#include "schedlang/check/check.h"
#include "schedlang/lower/collectives.h"
#include "schedlang/lower/lower.h"
#include "schedlang/memory/memory_plan.h"
#include "tests/schedlang/plan_text.h"
#include "tests/schedlang/random_plan.h"

namespace stringline {
namespace {

Plan DrawPlan(std::mt19937_64& random) {
  Plan plan = RandomRightPlan(random, 6, 4, /*copies=*/true);
  if (Below(random, 2) == 0) plan = AddCollectives(plan, 1 + static_cast<int>(Below(random, 3)));
  return Lower(plan);
}

// The groups of the rank's list, as places in plan.actions.
struct ListGroup {
  uint32_t begin = 0, end = 0;
};
std::vector<ListGroup> GroupsOfRank(const Plan& plan, int rank) {
  std::vector<ListGroup> groups;
  for (uint32_t i = plan.first[rank]; i < plan.first[rank + 1]; ++i) {
    if (i == plan.first[rank] || !plan.actions[i].joined) groups.push_back({i, i});
    groups.back().end = i + 1;
  }
  return groups;
}

// A value alive from the group of an action to the group of another, both on the rank.
struct Lived {
  uint32_t from = 0;
  uint32_t to = 0;
  int64_t amount = 0;
};

// The largest sum over groups, and the last action of the first group with this sum.
PeakBytes LargestSum(const std::vector<ListGroup>& groups, const std::vector<Lived>& lived,
                     int64_t always) {
  PeakBytes peak{always, groups.front().begin};
  for (const ListGroup& group : groups) {
    int64_t sum = always;
    for (const Lived& one : lived) {
      if (one.from < group.end && one.to >= group.begin) sum += one.amount;
    }
    if (sum > peak.bytes) peak = {sum, group.end - 1};
  }
  return peak;
}

// The index of the stage's action in the plan; the number of all actions if missing.
uint32_t Find(const Plan& plan, ActionKind kind, StageId stage, int microbatch) {
  uint32_t i = 0;
  while (i < plan.actions.size() &&
         !(plan.actions[i].kind == kind && plan.actions[i].stage == stage &&
           plan.actions[i].microbatch.value == microbatch)) {
    ++i;
  }
  return i;
}

uint32_t EndOfBack(const Plan& plan, StageId stage, int microbatch, ActionKind last) {
  const auto none = static_cast<uint32_t>(plan.actions.size());
  const uint32_t whole = Find(plan, ActionKind::kBackward, stage, microbatch);
  return whole != none ? whole : Find(plan, last, stage, microbatch);
}

TEST(LiveMemory, ActivationsAreCountedFromForwardToTheLastGradient) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937_64 random(seed);
    const Plan plan = DrawPlan(random);
    int most = 0;
    for (int r = 0; r < plan.ranks(); ++r) {
      std::vector<Lived> lived;
      for (uint32_t i = plan.first[r]; i < plan.first[r + 1]; ++i) {
        const Action& action = plan.actions[i];
        if (action.kind != ActionKind::kForward) continue;
        const auto at = [&](ActionKind kind) {
          return Find(plan, kind, action.stage, action.microbatch.value);
        };
        const uint32_t offload = at(ActionKind::kOffload);
        const bool moves = offload < plan.actions.size();
        if (moves) lived.push_back({i, offload, 1});
        lived.push_back(
            {moves ? at(ActionKind::kFetch) : i,
             EndOfBack(plan, action.stage, action.microbatch.value, ActionKind::kWeightGradient),
             1});
      }
      if (lived.empty()) continue;
      const PeakBytes slow = LargestSum(GroupsOfRank(plan, r), lived, 0);
      const PeakActivations peak = PeakActivationsOf(plan, RankId(r));
      ASSERT_EQ(peak.count, slow.bytes);
      ASSERT_EQ(peak.action, slow.action);
      most = std::max(most, peak.count);
    }
    ASSERT_EQ(MostActivationsOf(plan), most);
    // A limit equal to the peak is allowed.
    Diagnostics none, findings;
    ASSERT_TRUE(Check(plan, {.activations = most}, &none));
    ASSERT_FALSE(Check(plan, {.activations = most - 1}, &findings));
  }
}

TEST(LiveMemory, BuffersAreHeldFromTheReceiveToTheUse) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937_64 random(seed);
    const Plan plan = DrawPlan(random);
    for (int r = 0; r < plan.ranks(); ++r) {
      std::vector<Lived> lived;
      for (uint32_t i = plan.first[r]; i < plan.first[r + 1]; ++i) {
        const Action& action = plan.actions[i];
        const int m = action.microbatch.value;
        if (action.kind == ActionKind::kRecvForward) {
          lived.push_back({i, Find(plan, ActionKind::kForward, action.stage, m), 1});
        }
        if (action.kind == ActionKind::kRecvBackward) {
          lived.push_back({i, EndOfBack(plan, action.stage, m, ActionKind::kInputGradient), 1});
        }
      }
      if (plan.of(RankId(r)).empty()) continue;
      ASSERT_EQ(ReceiveBuffersOf(plan)[static_cast<size_t>(r)],
                LargestSum(GroupsOfRank(plan, r), lived, 0).bytes);
    }
  }
}

// Sizes of stages as the memory plan has them: both sides of a message alike, none at the ends.
std::vector<StageSizes> DrawSizes(const Plan& plan, std::mt19937_64& random) {
  std::vector<StageSizes> sizes(plan.stages.size());
  for (size_t s = 0; s < sizes.size(); ++s) {
    sizes[s].resident = static_cast<int64_t>(Below(random, 1000));
    sizes[s].gathered = static_cast<int64_t>(Below(random, 1000));
    for (const StageValue value : {StageValue::kKept, StageValue::kSavedForInput,
                                   StageValue::kSavedForWeight, StageValue::kStash}) {
      sizes[s].of_microbatch[value] = static_cast<int64_t>(Below(random, 1000));
    }
    const StageId next = plan.graph.Behind(StageId(static_cast<int32_t>(s)));
    if (!next.valid()) continue;
    const auto message = static_cast<int64_t>(Below(random, 1000));
    sizes[s].of_microbatch[StageValue::kOutput] = message;
    sizes[s].of_microbatch[StageValue::kOutGrad] = message;
    sizes[next.value].of_microbatch[StageValue::kInput] = message;
    sizes[next.value].of_microbatch[StageValue::kInGrad] = message;
  }
  return sizes;
}

class LivedBytes {
 public:
  LivedBytes(const Plan& plan, const std::vector<StageSizes>& sizes) : plan_(plan), sizes_(sizes) {}

  std::vector<Lived> Of(int rank) {
    lived_.clear();
    for (uint32_t i = plan_.first[rank]; i < plan_.first[rank + 1]; ++i) {
      const Action& action = plan_.actions[i];
      if (action.kind == ActionKind::kForward) AddMicrobatch(action, i);
      if (action.kind == ActionKind::kUnshard) AddGathered(rank, i);
    }
    return lived_;
  }

 private:
  int64_t Bytes(StageId stage, StageValue value) const {
    return sizes_[stage.value].of_microbatch[value];
  }
  uint32_t At(ActionKind kind, StageId stage, int m) const { return Find(plan_, kind, stage, m); }
  bool OnThisRank(StageId a, StageId b) const {
    return b.valid() && plan_.stage(a).rank == plan_.stage(b).rank;
  }

  void AddMicrobatch(const Action& forward, uint32_t i) {
    using enum StageValue;
    const StageId s = forward.stage;
    const int m = forward.microbatch.value;
    const uint32_t back = EndOfBack(plan_, s, m, ActionKind::kInputGradient);
    const uint32_t last = EndOfBack(plan_, s, m, ActionKind::kWeightGradient);
    const auto none = static_cast<uint32_t>(plan_.actions.size());
    const uint32_t again = At(ActionKind::kRecompute, s, m);
    const uint32_t from = again == none ? i : again;
    const uint32_t offload = At(ActionKind::kOffload, s, m), fetch = At(ActionKind::kFetch, s, m);
    const auto add = [&](StageValue value, bool is_moved, uint32_t begin, uint32_t end) {
      const bool moves = offload != none && is_moved;
      if (moves) lived_.push_back({begin, offload, Bytes(s, value)});
      lived_.push_back({moves ? fetch : begin, end, Bytes(s, value)});
    };
    if (again != none) add(kKept, true, i, last);
    add(kSavedForInput, again == none, from, back);
    add(kSavedForWeight, again == none, from, last);
    if (back != last) lived_.push_back({back, last, Bytes(s, kStash)});
    const StageId next = plan_.graph.Behind(s), previous = plan_.graph.Before(s);
    if (OnThisRank(s, next)) {  // nothing moves: a single value for both sides
      lived_.push_back({i, At(ActionKind::kForward, next, m), Bytes(s, kOutput)});
      lived_.push_back(
          {EndOfBack(plan_, next, m, ActionKind::kInputGradient), back, Bytes(s, kOutGrad)});
    } else if (next.valid()) {
      lived_.push_back({i, At(ActionKind::kSendForward, s, m), Bytes(s, kOutput)});
      const uint32_t comes = At(ActionKind::kRecvBackward, s, m);
      if (comes != none) lived_.push_back({comes, back, Bytes(s, kOutGrad)});
    }
    if (!previous.valid() || OnThisRank(s, previous)) return;
    lived_.push_back({At(ActionKind::kRecvForward, s, m), i, Bytes(s, kInput)});
    const uint32_t goes = At(ActionKind::kSendBackward, s, m);
    if (goes != none) lived_.push_back({back, goes, Bytes(s, kInGrad)});
  }

  void AddGathered(int rank, uint32_t i) {
    uint32_t end = i;
    while (end < plan_.first[rank + 1] && !(plan_.actions[end].kind == ActionKind::kReshard &&
                                            plan_.actions[end].stage == plan_.actions[i].stage)) {
      ++end;
    }
    lived_.push_back({i, end, sizes_[plan_.actions[i].stage.value].gathered});
  }

  const Plan& plan_;
  const std::vector<StageSizes>& sizes_;
  std::vector<Lived> lived_;
};

TEST(LiveMemory, BytesAreThoseOfEveryValueThatIsAlive) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937_64 random(seed);
    const Plan plan = DrawPlan(random);
    const std::vector<StageSizes> sizes = DrawSizes(plan, random);
    LivedBytes lived(plan, sizes);
    for (int r = 0; r < plan.ranks(); ++r) {
      if (plan.of(RankId(r)).empty()) continue;
      int64_t always = 0;
      for (size_t s = 0; s < sizes.size(); ++s) {
        if (plan.stages[s].rank.value == r) always += sizes[s].resident;
      }
      const PeakBytes slow = LargestSum(GroupsOfRank(plan, r), lived.Of(r), always);
      const PeakBytes peak = PeakBytesOf(plan, RankId(r), sizes);
      ASSERT_EQ(peak.bytes, slow.bytes) << "rank " << r;
      ASSERT_EQ(peak.action, slow.action) << "rank " << r;
    }
  }
}

// Memory released by a part of the fullest group is still alive there, and not behind the group.
TEST(LiveMemory, SaysWhatIsAlive) {
  const Plan plan = PlanFromText(
      "plan x P=1 M=4\nstages 0 0\nrank 0: 0UNSHARD 1UNSHARD 0F0 0F1 0F3 1F0 1F1&1B0 0RESHARD "
      "0I0 0W0 0F2 1F3\n");
  const auto at = [&](const char* action) {
    uint32_t i = 0;
    while (Print(plan, plan.actions[i]) != action) ++i;
    return DescribeAlive(plan, RankId(0), i);
  };
  EXPECT_EQ(at("0UNSHARD"), "gathered: stage 0");
  EXPECT_EQ(at("0F3"), "stage 0: microbatches 0, 1, 3; gathered: stage 0, 1");
  EXPECT_EQ(at("1B0"),
            "stage 0: microbatches 0, 1, 3; stage 1: microbatches 0, 1; gathered: stage 0, 1");
  EXPECT_EQ(at("0I0"), "stage 0: microbatches 0, 1, 3; stage 1: microbatch 1; gathered: stage 1");
  EXPECT_EQ(at("0F2"), "stage 0: microbatches 1 .. 3; stage 1: microbatch 1; gathered: stage 1");
}

// A limit of a rank overrides the limit of all ranks.
TEST(LiveMemory, ALimitOfARankGoesBeforeThatOfAll) {
  const Plan plan = Lower(PlanFromText(
      "plan x P=2 M=2\nstages 0 1\nrank 0: 0F0 0F1 0B0 0B1\nrank 1: 1F0 1B0 1F1 1B1\n"));
  std::vector<StageSizes> sizes(2);
  sizes[0].resident = 640;
  sizes[1].resident = 1280;
  const auto fits = [&](MemoryLimit limit) {
    Diagnostics findings;
    return Check(plan, {.memory = std::move(limit), .sizes = sizes}, &findings);
  };
  EXPECT_TRUE(fits(1280));
  EXPECT_FALSE(fits(1279));
  const auto own = [](int64_t all, std::vector<int64_t> ranks) {
    MemoryLimit limit(all);
    limit.ranks = std::move(ranks);
    return limit;
  };
  EXPECT_TRUE(fits(own(640, {-1, 1280})));
  EXPECT_FALSE(fits(own(639, {-1, 1280})));
  EXPECT_FALSE(fits(own(5000, {-1, 1279})));
  EXPECT_TRUE(fits(own(1280, {640})));
  EXPECT_FALSE(fits(own(1280, {639})));
  EXPECT_TRUE(fits(own(-1, {640})));
  // Nothing at all is a limit, too.
  EXPECT_FALSE(fits(0));
  sizes[0].resident = sizes[1].resident = 0;
  EXPECT_TRUE(fits(0));
}

}  // namespace
}  // namespace stringline
