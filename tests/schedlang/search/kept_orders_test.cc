// Kept orders, and the order that holds least.
#include "schedlang/search/kept_orders.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <set>

#include "schedlang/search/lower_bound.h"
#include "schedlang/search/one_at_a_time.h"
#include "schedlang/search/policies.h"
#include "tests/schedlang/search/tiny_problems.h"

namespace stringline::search {
namespace {

// `stages` on ranks back and forth, F 1, B 2, I 1, W 1.
Problem BackAndForth(int ranks, int stages, int microbatches, int64_t capacity) {
  Problem problem{.ranks = ranks, .whole = true, .split = true};
  problem.capacity.assign(static_cast<size_t>(ranks), capacity);
  for (int s = 0; s < stages; ++s) {
    const int along = s % ranks;
    StageWork work{.rank = (s / ranks) % 2 == 0 ? along : ranks - 1 - along,
                   .previous = s - 1,
                   .next = s + 1 < stages ? s + 1 : -1,
                   .microbatches = microbatches};
    work.time = {1, 2, 1, 1};
    work.during = {1, 0, 0, 0};
    work.after = {1, -1, 0, -1};
    problem.stages.push_back(work);
  }
  return problem;
}

// In memory, with the order found for each key.
class InMemory : public KeptOrders {
 public:
  std::optional<Found> Find(uint64_t key) override {
    ++asked;
    const auto found = orders.find(key);
    if (found == orders.end()) return std::nullopt;
    return found->second;
  }
  void Keep(uint64_t key, const Found& found) override { orders[key] = found; }

  std::map<uint64_t, Found> orders;
  int asked = 0;
};

TEST(KeptOrdersTest, PlacesAreFoundOnce) {
  Partitioning of{.layers = 3, .stages = 2, .key = 1};
  of.problem_of = [](absl::Span<const int> partition) {
    Problem problem = BackAndForth(2, 2, 2, 3);
    for (size_t s = 0; s < 2; ++s) {
      for (int64_t& time : problem.stages[s].time) time *= partition[s];
    }
    return problem;
  };
  InMemory kept;
  const Found first = FindPlaceOnce({of}, {.iterations = 100}, INT64_MAX, &kept);
  EXPECT_TRUE(IsPartition(of, first.partition));
  ASSERT_EQ(kept.orders.size(), 1u);
  Found& lies_there = kept.orders.begin()->second;
  lies_there.partition = first.partition == Partition{1, 2} ? Partition{2, 1} : Partition{1, 2};
  lies_there.value = ValueOf(of.problem_of(lies_there.partition), lies_there.words);
  const Found again = FindPlaceOnce({of}, {.iterations = 100}, INT64_MAX, &kept);
  EXPECT_EQ(again.partition, lies_there.partition);
  // At other costs of layers the key is another, although the even partition costs the same.
  of.key = 2;
  EXPECT_EQ(FindPlaceOnce({of}, {.iterations = 100}, INT64_MAX, &kept).partition, first.partition);
  EXPECT_EQ(kept.orders.size(), 2u);
}

TEST(KeptOrdersTest, AreFoundOnce) {
  const Problem problem = BackAndForth(2, 4, 3, 3);
  InMemory kept;
  const Found first = FindOrdersOnce(problem, {.iterations = 100}, INT64_MAX, &kept);
  ASSERT_TRUE(FitsProblem(problem, first));
  ASSERT_EQ(kept.orders.size(), 1u);
  // A kept order is taken, even if a better order exists.
  Found other;
  other.words = OneAtATime(problem);
  other.value = ValueOf(problem, other.words);
  kept.orders.begin()->second = other;
  const Found again = FindOrdersOnce(problem, {.iterations = 100}, INT64_MAX, &kept);
  EXPECT_EQ(again.words, other.words);
  EXPECT_EQ(again.bound, 0);
  EXPECT_EQ(kept.asked, 2);
}

TEST(KeptOrdersTest, WhatDoesNotFitIsPassedOver) {
  const Problem problem = BackAndForth(2, 4, 3, 3);
  InMemory kept;
  const Found good = FindOrdersOnce(problem, {.iterations = 100}, INT64_MAX, &kept);
  const std::function<void(Found*)> kChanges[] = {
      [](Found* found) { found->words.clear(); },
      [](Found* found) { found->words.pop_back(); },
      [](Found* found) { found->words[0].pop_back(); },
      [](Found* found) { std::swap(found->words[0], found->words[1]); },
      [](Found* found) { std::swap(found->words[0].front(), found->words[0].back()); },
      [](Found* found) { found->words[1][0].first = LetterOf(ActionKind::kForward, 4); },
      [](Found* found) { found->words[1][0].first = kNoLetter; },
      [](Found* found) { found->words[1][0].second = LetterOf(ActionKind::kBackward, 1); },
      [](Found* found) { found->words[1][0].second = LetterOf(ActionKind::kWeightGradient, 1); },
      [](Found* found) { ++found->value; },
      [](Found* found) { found->bound = found->value + 1; },
      [](Found* found) { found->bound = -1; },
  };
  for (const auto& change : kChanges) {
    Found changed = good;
    change(&changed);
    EXPECT_FALSE(FitsProblem(problem, changed));
    kept.orders.begin()->second = changed;
    const Found found = FindOrdersOnce(problem, {.iterations = 100}, INT64_MAX, &kept);
    EXPECT_EQ(found.words, good.words);
    EXPECT_EQ(found.value, good.value);
    EXPECT_EQ(kept.orders.begin()->second.words, good.words);
  }
}

TEST(KeptOrdersTest, LessThanTheWholeEffortIsNotKept) {
  const Problem problem = BackAndForth(2, 4, 3, 3);
  InMemory kept;
  const Found found = FindOrdersOnce(problem, {.iterations = 1000}, 100, &kept);
  EXPECT_TRUE(FitsProblem(problem, found));
  EXPECT_TRUE(kept.orders.empty());
}

TEST(KeptOrdersTest, EveryNumberIsInTheKey) {
  const Problem problem = BackAndForth(2, 4, 3, 3);
  std::set<uint64_t> keys = {KeyOf(problem, {})};
  const std::function<void(Problem*)> kChanges[] = {
      [](Problem* p) { ++p->ranks; },
      [](Problem* p) { p->whole = false; },
      [](Problem* p) { p->split = false; },
      [](Problem* p) { p->objective = Objective::kSpan; },
      [](Problem* p) { p->objective = Objective::kPeriod; },
      [](Problem* p) { ++p->capacity[1]; },
      [](Problem* p) { p->whole_pairs.assign(16, 3); },
      [](Problem* p) { p->input_pairs.assign(16, 3); },
      [](Problem* p) { p->stages[3].rank = 1; },
      [](Problem* p) { p->stages[3].previous = 1; },
      [](Problem* p) { p->stages[2].next = -1; },
      [](Problem* p) { ++p->stages[2].microbatches; },
      [](Problem* p) { ++p->stages[2].time[3]; },
      [](Problem* p) { ++p->stages[2].activation.latency; },
      [](Problem* p) { ++p->stages[2].activation.transfer; },
      [](Problem* p) { ++p->stages[2].gradient.latency; },
      [](Problem* p) { ++p->stages[2].gradient.transfer; },
      [](Problem* p) { ++p->stages[2].during[0]; },
      [](Problem* p) { ++p->stages[2].after[0]; },
      [](Problem* p) { p->stages[2].each.resize(4); },
      [](Problem* p) {
        p->stages[2].each.resize(4, {.time = {0, 0, 1, 0}});
      },
      [](Problem* p) {
        p->stages[2].each.resize(4, {.activation = {0, 1}});
      },
      [](Problem* p) {
        p->stages[2].each.resize(4, {.gradient = {0, 1}});
      },
  };
  for (const auto& change : kChanges) {
    Problem changed = problem;
    change(&changed);
    EXPECT_TRUE(keys.insert(KeyOf(changed, {})).second);
  }
  EXPECT_TRUE(keys.insert(KeyOf(problem, {.iterations = 1})).second);
  EXPECT_TRUE(keys.insert(KeyOf(problem, {.seed = 2})).second);
}

TEST(OneAtATimeTest, HoldsWhatItSaysAndNoLess) {
  for (const int ranks : {1, 2, 3}) {
    for (const int rows : {1, 2, 3}) {
      for (const bool whole : {true, false}) {
        Problem problem = BackAndForth(ranks, rows * ranks, 2, rows);
        problem.whole = whole;
        for (int r = 0; r < ranks; ++r) EXPECT_EQ(LeastCapacity(problem, r), rows);
        EXPECT_TRUE(IsComplete(problem, OneAtATime(problem)));
        EXPECT_LT(ValueOf(problem, OneAtATime(problem)), kNoLimit);
        problem.capacity[0] = rows - 1;
        EXPECT_FALSE(IsComplete(problem, OneAtATime(problem)));
      }
    }
  }
  // An I adds to the held memory, while all stages of the rank hold their microbatch.
  Problem problem = BackAndForth(2, 4, 2, 0);
  problem.whole = false;
  for (StageWork& stage : problem.stages) {
    stage.during = {3, 0, 5, 0};
    stage.after = {3, -3, 3, -6};
  }
  EXPECT_EQ(LeastCapacity(problem, 0), 11);
  problem.whole = true;
  EXPECT_EQ(LeastCapacity(problem, 0), 6);
}

TEST(OneAtATimeTest, IsFoundWhereRulesGetStuck) {
  int stuck = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const Problem problem = RandomProblem(random, 3, 3);
    bool has_order = true;
    for (int r = 0; r < problem.ranks; ++r) {
      has_order = has_order && LeastCapacity(problem, r) <= problem.capacity[r];
    }
    const Found found = FindOrders(problem, {}, {.iterations = 12});
    ASSERT_EQ(!found.words.empty(), has_order) << Print(problem);
    if (!has_order) continue;
    EXPECT_TRUE(IsComplete(problem, found.words));
    EXPECT_LE(found.bound, found.value);
    const std::vector<Policy> policies = PlainPolicies(problem);
    stuck += std::all_of(policies.begin(), policies.end(),
                         [&](const Policy& policy) { return ListOrders(problem, policy).empty(); });
  }
  EXPECT_GT(stuck, 0);
}

}  // namespace
}  // namespace stringline::search
