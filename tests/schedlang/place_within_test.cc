// Copies placed within the memory of ranks, on random plans: counted again action by action, from
// what LANGUAGE.md says of D and U.
#include "schedlang/orders/place_within.h"

#include <algorithm>
#include <map>
#include <random>
#include <utility>

#include "gtest/gtest.h"
#include "schedlang/check/check.h"
#include "schedlang/lower/lower.h"
#include "tests/schedlang/random_plan.h"

namespace stringline {
namespace {

struct Held {
  int64_t device = 0, host = 0;  // the most
};

// An F takes its bytes when it begins; a D frees them for what is listed behind it, a U takes them
// again where it stands. B and I have them until their end, W a half of them.
Held MostHeld(const Plan& plan, RankId rank, const CopyRoom& room) {
  Held most;
  int64_t device = 0, host = 0;
  const auto list = plan.of(rank);
  for (size_t i = 0; i < list.size();) {
    const auto group = GroupAt(list, i);
    i += group.size();
    int64_t freed = 0;
    for (const Action& action : group) {
      const int64_t bytes = room.stages[static_cast<size_t>(action.stage.value)].moved;
      if (action.kind == ActionKind::kOffload) {
        device -= bytes;
        host += bytes;
      }
      if (action.kind == ActionKind::kFetch) host -= bytes;
      if (action.kind == ActionKind::kForward || action.kind == ActionKind::kFetch) device += bytes;
      if (action.kind == ActionKind::kBackward) freed += bytes;
      if (action.kind == ActionKind::kInputGradient) freed += bytes - bytes / 2;
      if (action.kind == ActionKind::kWeightGradient) freed += bytes / 2;
    }
    most.device = std::max(most.device, device);
    most.host = std::max(most.host, host);
    device -= freed;
  }
  return most;
}

int64_t CopiesOf(const Plan& plan) {
  return std::count_if(plan.actions.begin(), plan.actions.end(),
                       [](const Action& action) { return action.kind == ActionKind::kOffload; });
}

TEST(PlaceWithin, KeepsLimitsAndCopiesOnlyForThem) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  int placed = 0, copied = 0;
  for (int i = 0; i < 600; ++i) {
    const Plan plan = RandomRightPlan(random, 4, 6);
    CopyRoom room;
    for (size_t s = 0; s < plan.stages.size(); ++s) {
      const int64_t bytes = 1 + static_cast<int64_t>(Below(random, 6));
      const int64_t half = bytes / 2;
      room.stages.push_back({{bytes}, {bytes, -bytes, half - bytes, -half}, bytes});
    }
    std::vector<Held> before;
    CopyPace pace;
    for (int r = 0; r < plan.ranks(); ++r) {
      before.push_back(MostHeld(plan, RankId(r), room));
      const auto most = static_cast<size_t>(before.back().device);
      room.capacity.push_back(static_cast<int64_t>(Below(random, 2 * most + 2)));
      room.host.push_back(static_cast<int64_t>(Below(random, 2 * most + 2)));
      pace.ahead.push_back(static_cast<int64_t>(Below(random, 4)));
      pace.behind.push_back(static_cast<int64_t>(Below(random, 4)));
    }
    pace.swaps = Below(random, 2) == 0;
    int lacking = -1;
    const auto within = PlaceCopiesWithin(plan, room, pace, &lacking);
    if (!within) {
      ASSERT_GE(lacking, 0);
      EXPECT_GT(before[static_cast<size_t>(lacking)].device,
                room.capacity[static_cast<size_t>(lacking)]);
      continue;
    }
    ++placed;
    copied += CopiesOf(*within) > 0 ? 1 : 0;
    SCOPED_TRACE(Print(*within));
    Diagnostics diagnostics;
    EXPECT_TRUE(Check(Lower(*within), &diagnostics)) << diagnostics.findings().front().text;
    bool has_room = true;
    for (int r = 0; r < plan.ranks(); ++r) {
      const auto at = static_cast<size_t>(r);
      const Held held = MostHeld(*within, RankId(r), room);
      EXPECT_LE(held.device, room.capacity[at]) << r;
      EXPECT_LE(held.host, room.host[at]) << r;
      has_room = has_room && before[at].device <= room.capacity[at];
      // The computations are those of the plan, in its order.
      std::vector<Action> kept;
      for (const Action& action : within->of(RankId(r))) {
        if (IsCompute(action.kind)) kept.push_back(action);
      }
      const auto of_plan = plan.of(RankId(r));
      ASSERT_EQ(kept.size(), of_plan.size());
      for (size_t k = 0; k < kept.size(); ++k) {
        EXPECT_EQ(Print(plan, kept[k]), Print(plan, of_plan[k]));
      }
    }
    EXPECT_EQ(CopiesOf(*within) == 0, has_room);
  }
  EXPECT_GT(placed, 60);
  EXPECT_GT(copied, 20);
}

// Four microbatches reach a rank that holds three: of those old enough, the one that is needed last
// leaves, and is back one action ahead.
TEST(PlaceWithin, TakesWhatIsNeededLast) {
  Plan plan = EmptyPlan({{0}}, 4);
  RankLists lists(1);
  for (int m = 0; m < 4; ++m) lists[0].push_back(MakeAction(ActionKind::kForward, 0, m));
  for (int m = 0; m < 4; ++m) lists[0].push_back(MakeAction(ActionKind::kBackward, 0, m));
  PutLists(lists, &plan);
  const CopyRoom room = {{{{1}, {1, -1}, 1}}, {3}, {9}};
  const auto printed = [&](int64_t ahead, int64_t behind, bool swaps = false) {
    const auto within = PlaceCopiesWithin(plan, room, {{ahead}, {behind}, swaps});
    if (!within) return std::string("none");
    const std::string text = Print(*within);
    return text.substr(text.find("0F0"));
  };
  EXPECT_EQ(printed(1, 1), "0F0 0F1 0F2 0D1 0F3 0B0 0U1 0B1 0B2 0B3\n");
  EXPECT_EQ(printed(0, 0), "0F0 0F1 0F2 0D2 0F3 0B0 0B1 0U2 0B2 0B3\n");
  EXPECT_EQ(printed(1, 0), "0F0 0F1 0F2 0D2 0F3 0B0 0U2 0B1 0B2 0B3\n");
  EXPECT_EQ(printed(2, 0), "0F0 0F1 0F2 0D2 0F3 0B0 0U2 0B1 0B2 0B3\n");
  EXPECT_EQ(printed(2, 0, true), "0F0 0F1 0F2 0D2 0F3 0D3 0U2 0B0 0U3 0B1 0B2 0B3\n");
  EXPECT_EQ(printed(0, 2), "0F0 0F1 0F2 0D0 0F3 0D1 0U0 0B0 0U1 0B1 0B2 0B3\n");
}

}  // namespace
}  // namespace stringline
