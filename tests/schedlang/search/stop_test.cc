// Searches that are stopped at any of their looks at the wish: their results are whole.
#include "schedlang/base/stop.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "schedlang/search/exact.h"
#include "schedlang/search/list_orders.h"
#include "schedlang/search/lower_bound.h"
#include "schedlang/search/partition.h"
#include "schedlang/search/policies.h"
#include "schedlang/search/search.h"
#include "tests/schedlang/search/tiny_problems.h"

namespace stringline::search {
namespace {

// A stop that is wished from the `looks`-th look on.
class StopAtLook {
 public:
  explicit StopAtLook(int looks)
      : left_(looks), stop_([this] { return --left_ < 0; }, Stop::kNever) {}
  const Stop* get() const { return &stop_; }

 private:
  std::atomic<int> left_;
  const Stop stop_;
};

// Iterations for days, unless a stop ends them.
constexpr int64_t kForever = int64_t{1} << 40;

const int kLooks[] = {0, 1, 2, 3, 5, 8, 13, 21, 50, 100, 300, 1000};

TEST(StopTest, IsWishedOnceAndForAll) {
  bool asked = false;
  const Stop stop([&asked] { return asked; }, Stop::kNever);
  EXPECT_FALSE(stop.IsWished());
  asked = true;
  EXPECT_TRUE(stop.IsWished());
  asked = false;
  EXPECT_TRUE(stop.IsWished());
  EXPECT_TRUE(Stop(&stop, Stop::kNever).IsWished());
  EXPECT_TRUE(Stop(0).IsWished());
  EXPECT_FALSE(Stop(Stop::kNever).IsWished());
  EXPECT_FALSE(IsWished(nullptr));
  SparseStop sparse(&stop, 3);
  EXPECT_FALSE(sparse.IsWished());
  EXPECT_FALSE(sparse.IsWished());
  EXPECT_TRUE(sparse.IsWished());
}

TEST(StopTest, OrdersAreCompleteOrNone) {
  const uint64_t seed = 5;
  std::mt19937_64 random(seed);
  for (int i = 0; i < 60; ++i) {
    Problem problem = RandomProblem(random, 4, 6);
    const int64_t bound = LowerBoundOf(problem);
    const bool can_be = bound < kNoLimit;
    for (const int looks : kLooks) {
      const StopAtLook stop(looks);
      problem.stop = stop.get();
      const std::string where =
          absl::StrCat("seed ", seed, ", case ", i, ", look ", looks, "\n", Print(problem));
      const Found found = FindOrders(problem, {}, {.iterations = kForever, .seed = seed});
      ASSERT_LE(found.bound, bound) << where;
      if (found.words.empty()) continue;
      ASSERT_TRUE(can_be) << where;
      ASSERT_TRUE(IsComplete(problem, found.words)) << where;
      ASSERT_EQ(ValueOf(problem, found.words), found.value) << where;
      ASSERT_LE(found.bound, found.value) << where;
    }
    problem.stop = nullptr;
  }
}

TEST(StopTest, AProblemWithOrdersHasOneHoweverSoonItIsStopped) {
  for (const int looks : kLooks) {
    Problem problem = OnRanks({0, 1, 2, 3, 3, 2, 1, 0}, 40, Costs(1, 2, 1, 1));
    const StopAtLook stop(looks);
    problem.stop = stop.get();
    const Found found = FindOrders(problem, {}, {.iterations = kForever});
    EXPECT_TRUE(IsComplete(problem, found.words)) << looks;
  }
}

TEST(StopTest, BoundsAndProofsHold) {
  const uint64_t seed = 6;
  std::mt19937_64 random(seed);
  int judged = 0;
  for (int i = 0; i < 1500; ++i) {
    Problem problem = RandomProblem(random, 3, 3);
    const std::optional<int64_t> best = BestOfAll(problem, 3000);
    if (!best) continue;
    ++judged;
    for (const int looks : {0, 1, 3, 10, 50}) {
      const std::string where =
          absl::StrCat("seed ", seed, ", case ", i, ", look ", looks, "\n", Print(problem));
      {
        const StopAtLook stop(looks);
        problem.stop = stop.get();
        ASSERT_LE(LowerBoundOf(problem), *best) << where;
      }
      const StopAtLook stop(looks);
      problem.stop = stop.get();
      const Proven proven = SolveExactly(problem, kNoLimit, kForever);
      ASSERT_LE(proven.bound, *best) << where;
      ASSERT_GE(proven.value, *best) << where;
      if (proven.finished) {
        ASSERT_EQ(proven.value, *best) << where;
      }
      if (!proven.words.empty()) {
        ASSERT_EQ(ValueOf(problem, proven.words), proven.value) << where;
      }
      problem.stop = nullptr;
    }
  }
  EXPECT_GT(judged, 400);
}

// These problems would take days without a stop.
TEST(StopTest, TheExactSolverEndsInTheMiddle) {
  for (const Objective objective : {Objective::kMakespan, Objective::kSpan, Objective::kPeriod}) {
    Problem problem = OnRanks({0, 1, 2, 3, 0, 1, 2, 3}, 10, Costs(3, 7, 4, 5, 2));
    problem.capacity.assign(problem.ranks, 4);
    problem.objective = objective;
    const StopAtLook stop(2000);
    problem.stop = stop.get();
    const Proven proven = SolveExactly(problem, kNoLimit, kForever);
    EXPECT_FALSE(proven.finished);
  }
}

TEST(StopTest, ListOrdersGivesAllOrNothing) {
  Problem problem = OnRanks({0, 1, 2, 3}, 400, Costs(1, 2, 1, 1));
  const Policy policy = PlainPolicies(problem).front();
  const Words whole = ListOrders(problem, policy);
  ASSERT_TRUE(IsComplete(problem, whole));
  int ended = 0;
  for (int looks = 0; looks < 10; ++looks) {
    const StopAtLook stop(looks);
    problem.stop = stop.get();
    const Words words = ListOrders(problem, policy);
    EXPECT_TRUE(words.empty() || words == whole) << looks;
    ended += words.empty() ? 1 : 0;
  }
  EXPECT_GT(ended, 2);
  EXPECT_LT(ended, 10);
}

TEST(StopTest, ASplitThatIsStoppedIsOne) {
  for (const int looks : kLooks) {
    const StopAtLook stop(looks);
    Partitioning of;
    of.layers = 30;
    of.stages = 4;
    of.pieces.assign(30, 40);
    of.problem_of = [&stop](absl::Span<const int> partition) {
      Problem problem = OnRanks({0, 1, 2, 3}, 10, Costs(1, 2, 1, 1));
      for (size_t s = 0; s < partition.size(); ++s) {
        for (int64_t& time : problem.stages[s].time) time *= partition[s];
      }
      problem.stop = stop.get();
      return problem;
    };
    const Found found = FindPartition(of, {}, {.iterations = kForever});
    EXPECT_TRUE(IsPartition(of, found.partition)) << looks;
    ASSERT_FALSE(found.words.empty()) << looks;
    const Problem problem = of.problem_of(found.partition);
    EXPECT_TRUE(IsComplete(problem, found.words)) << looks;
    EXPECT_EQ(ValueOf(problem, found.words), found.value) << looks;
    EXPECT_LE(found.bound, found.value) << looks;
  }
}

}  // namespace
}  // namespace stringline::search
