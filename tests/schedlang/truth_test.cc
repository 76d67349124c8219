// The checker's verdict is the truth: against a judge that tries every interleaving, on every plan
// of a few small families, and on random damage to the library's schedules.
//
// The families, all orders of the lists in which no value is used before its producer:
//   line   P=2, one stage a rank, M=2: 1750 lists of rank 0 with 70 of rank 1, 122,500 plans
//   loop   P=2, two stages a rank, M=1: 100,000 plans of 3150 lists with 1050
// The line is judged whole; of the others a part, and all of it with STRINGLINE_LONG=1, with
// 100,000 damaged plans, every interleaving of each.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schedlang/check/check.h"
#include "schedlang/elaborate/elaborate.h"
#include "schedlang/lower/lower.h"
#include "schedlang/text/parse.h"
#include "tests/schedlang/exhaustive.h"

namespace stringline {
namespace {

bool IsLong() { return std::getenv("STRINGLINE_LONG") != nullptr; }

bool Checks(const Plan& plan, const World& world) {
  Diagnostics diagnostics;
  CheckOptions options;
  options.layout = static_cast<CommLayout>(world.layout);
  options.buffers = world.buffers;
  options.lazy = world.lazy;
  return Check(plan, options, &diagnostics);
}

struct Tally {
  int64_t good = 0, bad = 0, too_large = 0;
};

// Judges a plan in a world. False, after a failure, when judge and checker disagree.
bool Agree(const Plan& plan, const World& world, const std::string& where, Tally* tally) {
  const Verdict verdict = JudgeExhaustively(plan, world);
  if (verdict == Verdict::kTooLarge) {
    ++tally->too_large;
    return true;
  }
  const bool good = verdict == Verdict::kGood;
  ++(good ? tally->good : tally->bad);
  if (Checks(plan, world) == good) return true;
  ADD_FAILURE() << where << ", layout " << world.layout << " buffers " << world.buffers << " lazy "
                << world.lazy << ": the judge says " << (good ? "good" : "bad") << "\n"
                << Print(plan);
  return false;
}

using Lists = std::vector<std::vector<Action>>;

Action Make(ActionKind kind, int stage, int microbatch) {
  Action action;
  action.kind = kind;
  action.stage = StageId(stage);
  action.microbatch = MicrobatchId(microbatch);
  return action;
}

// All orders of `actions` with every pair of `before` (indices) in order.
void AddOrders(const std::vector<Action>& actions, const std::vector<std::pair<int, int>>& before,
               std::vector<Action>* prefix, unsigned used, Lists* out) {
  if (prefix->size() == actions.size()) {
    out->push_back(*prefix);
    return;
  }
  for (int i = 0; i < static_cast<int>(actions.size()); ++i) {
    if (used >> i & 1U) continue;
    const bool ready = std::all_of(before.begin(), before.end(), [&](const auto& pair) {
      return pair.second != i || (used >> pair.first & 1U);
    });
    if (!ready) continue;
    prefix->push_back(actions[i]);
    AddOrders(actions, before, prefix, used | 1U << i, out);
    prefix->pop_back();
  }
}

Lists Orders(const std::vector<Action>& actions, const std::vector<std::pair<int, int>>& before) {
  Lists out;
  std::vector<Action> prefix;
  AddOrders(actions, before, &prefix, 0, &out);
  return out;
}

constexpr auto F = ActionKind::kForward, B = ActionKind::kBackward;
constexpr auto SF = ActionKind::kSendForward, RF = ActionKind::kRecvForward;
constexpr auto SB = ActionKind::kSendBackward, RB = ActionKind::kRecvBackward;

Plan PlanOf(const std::vector<int>& rank_of_stage, int microbatches,
            const std::vector<std::vector<Action>>& lists) {
  Plan plan;
  plan.schedule = "family";
  plan.microbatches = microbatches;
  plan.parameters = {{"P", static_cast<int64_t>(lists.size())}, {"M", microbatches}};
  plan.lowered = true;
  const int stages = static_cast<int>(rank_of_stage.size());
  for (int s = 0; s < stages; ++s) {
    plan.stages.push_back({RankId(rank_of_stage[s])});
  }
  plan.SetChains();
  for (const auto& list : lists) {
    plan.actions.insert(plan.actions.end(), list.begin(), list.end());
    plan.first.push_back(static_cast<uint32_t>(plan.actions.size()));
  }
  return plan;
}

// The worlds take turns, so each family meets all of them.
World WorldOf(int64_t turn) {
  constexpr int kLayouts = kCommLayouts;
  return {.layout = static_cast<int>(turn % kLayouts),
          .buffers = static_cast<int>(turn / kLayouts % 3),
          .lazy = turn / kLayouts / 3 % 4 == 3};
}

void JudgeFamily(const char* name, const Lists& first, const Lists& second,
                 const std::vector<int>& stages, int microbatches, int64_t count) {
  const int64_t all = static_cast<int64_t>(first.size() * second.size());
  // A step coprime to `all` visits every plan once.
  int64_t step = 7919;
  while (std::gcd(step, all) != 1) ++step;
  ASSERT_LE(count, all);
  Tally tally;
  for (int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i * step % all);
    const Plan plan =
        PlanOf(stages, microbatches, {first[at % first.size()], second[at / first.size()]});
    if (!Agree(plan, WorldOf(i), name, &tally)) return;
  }
  std::cout << name << ": " << count << " of " << all << " plans, " << tally.good << " good, "
            << tally.bad << " bad, " << tally.too_large << " too large\n";
  EXPECT_GT(tally.good, 0);
  EXPECT_GT(tally.bad, 0);
  EXPECT_EQ(tally.too_large, 0);
}

TEST(Truth, EveryOrderOfALine) {
  const Lists first = Orders({Make(F, 0, 0), Make(SF, 0, 0), Make(RB, 0, 0), Make(B, 0, 0),
                              Make(F, 0, 1), Make(SF, 0, 1), Make(RB, 0, 1), Make(B, 0, 1)},
                             {{0, 1}, {0, 3}, {2, 3}, {4, 5}, {4, 7}, {6, 7}});
  const Lists second = Orders({Make(RF, 1, 0), Make(F, 1, 0), Make(B, 1, 0), Make(SB, 1, 0),
                               Make(RF, 1, 1), Make(F, 1, 1), Make(B, 1, 1), Make(SB, 1, 1)},
                              {{0, 1}, {1, 2}, {2, 3}, {4, 5}, {5, 6}, {6, 7}});
  JudgeFamily("line", first, second, {0, 1}, 2, 122'500);
}

TEST(Truth, OrdersOfALoop) {
  const Lists first =
      Orders({Make(F, 0, 0), Make(SF, 0, 0), Make(RF, 2, 0), Make(F, 2, 0), Make(SF, 2, 0),
              Make(RB, 2, 0), Make(B, 2, 0), Make(SB, 2, 0), Make(RB, 0, 0), Make(B, 0, 0)},
             {{0, 1}, {0, 9}, {8, 9}, {2, 3}, {3, 4}, {3, 6}, {5, 6}, {6, 7}});
  const Lists second =
      Orders({Make(RF, 1, 0), Make(F, 1, 0), Make(SF, 1, 0), Make(RF, 3, 0), Make(F, 3, 0),
              Make(B, 3, 0), Make(SB, 3, 0), Make(RB, 1, 0), Make(B, 1, 0), Make(SB, 1, 0)},
             {{0, 1}, {1, 2}, {1, 8}, {7, 8}, {8, 9}, {3, 4}, {4, 5}, {5, 6}});
  JudgeFamily("loop", first, second, {0, 1, 0, 1}, 1, IsLong() ? 100'000 : 10'000);
}

// A library schedule, lowered, small enough to be judged.
Plan SmallLibraryPlan(std::mt19937_64& random) {
  static const char* const kNames[] = {"gpipe", "1f1b",  "interleaved", "looped_bfs", "zb_h1",
                                       "zb_v",  "v_min", "dualpipe_v",  "chimera",    "dualpipe"};
  const auto pick = [&random](int n) {
    return static_cast<int>(random() % static_cast<uint64_t>(n));
  };
  while (true) {
    const std::string name = kNames[pick(10)];
    const int64_t p = 2 + pick(2), m = 1 + pick(3);
    const auto source =
        ReadSource(absl::StrCat(STRINGLINE_SOURCE_DIR "/schedules/", name, ".sched"));
    Diagnostics diagnostics;
    const auto file = Parse(*source, &diagnostics);
    const auto plan = Elaborate(*file, "", {{"P", p}, {"M", m}}, &diagnostics);
    if (!plan || plan->actions.size() > 28) continue;
    Plan lowered = Lower(*plan, static_cast<CommLayout>(pick(kCommLayouts)));
    // The judge knows no collectives.
    const auto is_collective = [](const Action& a) { return IsCollective(a.kind); };
    if (std::any_of(lowered.actions.begin(), lowered.actions.end(), is_collective)) {
      std::vector<Action> kept;
      std::vector<uint32_t> first = {0};
      for (int r = 0; r < lowered.ranks(); ++r) {
        for (const Action& a : lowered.of(RankId(r))) {
          if (!is_collective(a)) kept.push_back(a);
        }
        first.push_back(static_cast<uint32_t>(kept.size()));
      }
      lowered.actions = std::move(kept);
      lowered.first = std::move(first);
    }
    return lowered;
  }
}

// Swaps two actions of a rank, drops or doubles an action, moves a message, makes or breaks a
// group.
void Damage(Plan* plan, std::mt19937_64& random) {
  const auto pick = [&random](size_t n) { return static_cast<size_t>(random() % n); };
  std::vector<std::vector<Action>> lists;
  for (int r = 0; r < plan->ranks(); ++r) {
    const auto actions = plan->of(RankId(r));
    lists.emplace_back(actions.begin(), actions.end());
  }
  std::vector<Action>& list = lists[pick(lists.size())];
  if (list.size() < 2) return;
  const size_t i = pick(list.size()), j = pick(list.size());
  switch (pick(6)) {
    case 0:
      std::swap(list[i], list[j]);
      break;
    case 1:
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    case 2:
      list.insert(list.begin() + static_cast<std::ptrdiff_t>(j), Action(list[i]));
      break;
    case 3:
    case 4: {  // move a message, by a few places mostly
      if (!IsMessage(list[i].kind)) break;
      const Action moved = list[i];
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
      const size_t to = std::min(list.size(), i > 3 ? i - 3 + pick(7) : pick(7));
      list.insert(list.begin() + static_cast<std::ptrdiff_t>(to), moved);
      break;
    }
    default:
      list[i].joined = !list[i].joined;
  }
  // Groups hold computations, or messages.
  plan->actions.clear();
  plan->first = {0};
  for (std::vector<Action>& actions : lists) {
    for (size_t k = 0; k < actions.size(); ++k) {
      if (k == 0 || IsMessage(actions[k].kind) != IsMessage(actions[k - 1].kind)) {
        actions[k].joined = false;
      }
    }
    plan->actions.insert(plan->actions.end(), actions.begin(), actions.end());
    plan->first.push_back(static_cast<uint32_t>(plan->actions.size()));
  }
}

TEST(Truth, DamagedLibrarySchedules) {
  const uint64_t seed = 20261121;
  std::mt19937_64 random(seed);
  const int64_t count = IsLong() ? 100'000 : 2'000;
  Tally tally;
  for (int64_t i = 0; i < count; ++i) {
    Plan plan = SmallLibraryPlan(random);
    const uint64_t damages = random() % 4;
    for (uint64_t k = 0; k < damages; ++k) Damage(&plan, random);
    const World world = WorldOf(static_cast<int64_t>(random() % 1000));
    if (!Agree(plan, world, absl::StrCat("seed ", seed, ", plan ", i), &tally)) return;
  }
  std::cout << "damaged: seed " << seed << ", " << count << " plans, " << tally.good << " good, "
            << tally.bad << " bad, " << tally.too_large << " too large\n";
  EXPECT_GT(tally.good, count / 20);
  EXPECT_GT(tally.bad, count / 20);
  EXPECT_LT(tally.too_large, count / 10);
}

}  // namespace
}  // namespace stringline
