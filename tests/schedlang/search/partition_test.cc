// Found partitions against all partitions, and bounds below all of them.
#include "schedlang/search/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schedlang/search/exact.h"
#include "schedlang/search/lower_bound.h"
#include "tests/schedlang/search/tiny_problems.h"

namespace stringline::search {
namespace {

// Layers with equal times of F, I and W, shared out over stages on these ranks.
Partitioning LayersOn(const std::vector<int>& ranks, const std::vector<int64_t>& layers,
                      int microbatches, int64_t capacity) {
  Partitioning of;
  of.layers = static_cast<int>(layers.size());
  of.stages = static_cast<int>(ranks.size());
  of.problem_of = [=](absl::Span<const int> partition) {
    Problem problem = OnRanks(ranks, microbatches, Costs(1, 2, 1, 1, 1));
    size_t layer = 0;
    for (size_t s = 0; s < partition.size(); ++s) {
      int64_t sum = 0;
      for (int i = 0; i < partition[s]; ++i) sum += layers[layer++];
      problem.stages[s].time = {sum, 2 * sum, sum, sum};
    }
    problem.capacity.assign(static_cast<size_t>(problem.ranks), capacity);
    return problem;
  };
  for (const int64_t layer : layers) of.pieces.push_back(3 * layer * microbatches);
  return of;
}

std::vector<Partition> AllPartitions(int layers, int stages) {
  if (stages == 1) return {{layers}};
  std::vector<Partition> all;
  for (int first = 1; first <= layers - stages + 1; ++first) {
    for (Partition& rest : AllPartitions(layers - first, stages - 1)) {
      rest.insert(rest.begin(), first);
      all.push_back(std::move(rest));
    }
  }
  return all;
}

TEST(PartitionTest, EvenOnesHaveOneMoreAtTheFront) {
  EXPECT_EQ(EvenPartition(11, 4), (Partition{3, 3, 3, 2}));
  EXPECT_EQ(EvenPartition(4, 4), (Partition{1, 1, 1, 1}));
}

TEST(PartitionTest, EveryLayerIsSharedOut) {
  Partitioning of{.layers = 5, .stages = 3};
  EXPECT_TRUE(IsPartition(of, {1, 1, 3}));
  EXPECT_FALSE(IsPartition(of, {1, 1, 2}));
  EXPECT_FALSE(IsPartition(of, {1, 2, 3}));
  EXPECT_FALSE(IsPartition(of, {2, 3}));
  EXPECT_FALSE(IsPartition(of, {0, 2, 3}));
  EXPECT_FALSE(IsPartition(of, {6, -2, 1}));
  of.least_at_ends = 0;
  EXPECT_TRUE(IsPartition(of, {0, 5, 0}));
  EXPECT_FALSE(IsPartition(of, {5, 0, 0}));
  of.fixed = {2, 2, 1};
  EXPECT_TRUE(IsPartition(of, {2, 2, 1}));
  EXPECT_FALSE(IsPartition(of, {1, 1, 3}));
}

TEST(PartitionTest, TheSlowestStageIsTheLeastOfAll) {
  const uint64_t seed = 3;
  std::mt19937_64 random(seed);
  for (int i = 0; i < 300; ++i) {
    std::vector<int64_t> work(1 + random() % 8);
    for (int64_t& of : work) of = 1 + static_cast<int64_t>(random() % 9);
    const int stages = 1 + static_cast<int>(random() % work.size());
    const auto slowest = [&work](const Partition& partition) {
      int64_t most = 0;
      auto from = work.begin();
      for (const int layers : partition) {
        most = std::max(most, std::accumulate(from, from + layers, int64_t{0}));
        from += layers;
      }
      return most;
    };
    int64_t least = kNoLimit;
    for (const Partition& all : AllPartitions(static_cast<int>(work.size()), stages)) {
      least = std::min(least, slowest(all));
    }
    EXPECT_EQ(slowest(LeastSlowestStage(work, stages)), least)
        << "seed " << seed << ", case " << i << ": " << absl::StrJoin(work, " ");
  }
}

// By putting every piece everywhere.
int64_t LeastBusiestOfAll(const std::vector<int64_t>& pieces, size_t next,
                          std::vector<int64_t>* ranks) {
  if (next == pieces.size()) return *std::max_element(ranks->begin(), ranks->end());
  int64_t least = kNoLimit;
  for (int64_t& rank : *ranks) {
    rank += pieces[next];
    least = std::min(least, LeastBusiestOfAll(pieces, next + 1, ranks));
    rank -= pieces[next];
  }
  return least;
}

TEST(PartitionTest, TheBusiestRankIsTheLeastOfAll) {
  const uint64_t seed = 8;
  std::mt19937_64 random(seed);
  for (int i = 0; i < 300; ++i) {
    std::vector<int64_t> pieces(random() % 8);
    const bool few_sizes = random() % 2 == 0;
    for (int64_t& piece : pieces) piece = few_sizes ? (random() % 3 == 0 ? 7 : 3) : random() % 10;
    std::vector<int64_t> ranks(1 + random() % 3);
    EXPECT_EQ(LeastBusiest(pieces, static_cast<int>(ranks.size())),
              LeastBusiestOfAll(pieces, 0, &ranks))
        << "seed " << seed << ", case " << i << ": " << absl::StrJoin(pieces, " ");
  }
  // With so many sizes only the mean is known.
  std::vector<int64_t> many(40);
  std::iota(many.begin(), many.end(), 1);
  EXPECT_EQ(LeastBusiest(many, 3), (820 + 2) / 3);
}

// The found partition is the best of all, each solved exactly, and the bound is below.
TEST(PartitionTest, TheBestOfAllPartitionsIsFound) {
  const uint64_t seed = 21;
  std::mt19937_64 random(seed);
  int best = 0;
  constexpr int kCases = 60;
  for (int i = 0; i < kCases; ++i) {
    const std::vector<std::vector<int>> places = {{0, 1}, {0, 1, 1, 0}, {0, 1, 2}, {0, 1, 0, 1}};
    const std::vector<int>& ranks = places[random() % places.size()];
    std::vector<int64_t> layers(ranks.size() + random() % 3);
    for (int64_t& layer : layers) layer = 1 + static_cast<int64_t>(random() % 4);
    const int64_t capacity = random() % 2 == 0 ? kNoLimit : static_cast<int64_t>(ranks.size());
    const Partitioning of = LayersOn(ranks, layers, 2 + static_cast<int>(random() % 2), capacity);
    int64_t least = kNoLimit;
    for (const Partition& partition : AllPartitions(of.layers, of.stages)) {
      const Proven proven = SolveExactly(of.problem_of(partition), least, 100'000);
      ASSERT_TRUE(proven.finished);
      least = std::min(least, proven.value);
    }
    const Found found = FindPartition(of, {}, {.iterations = 20'000});
    const std::string where =
        absl::StrCat("seed ", seed, ", case ", i, ": layers ", absl::StrJoin(layers, " "),
                     ", stages on ", absl::StrJoin(ranks, " "));
    ASSERT_TRUE(IsPartition(of, found.partition)) << where;
    const Problem problem = of.problem_of(found.partition);
    ASSERT_TRUE(IsComplete(problem, found.words)) << where;
    ASSERT_EQ(ValueOf(problem, found.words), found.value) << where;
    ASSERT_LE(found.bound, least) << where;
    ASSERT_GE(found.value, least) << where;
    best += found.value == least ? 1 : 0;
  }
  EXPECT_EQ(best, kCases) << "seed " << seed;
}

TEST(PartitionTest, AHeavyEndGetsFewerLayers) {
  // Thirteen layers, the last of them four times as long: evenly, 3 + 3 + 3 + 7.
  std::vector<int64_t> layers(13, 10);
  layers.back() = 40;
  const Partitioning of = LayersOn({0, 1, 2, 3}, layers, 16, kNoLimit);
  const Found found = FindPartition(of, {}, {.iterations = 20'000});
  EXPECT_EQ(found.partition, (Partition{4, 4, 4, 1}));
  const Found even = FindOrders(of.problem_of(EvenPartition(13, 4)), {}, {.iterations = 20'000});
  EXPECT_GT(even.value, found.value + found.value / 3);
  EXPECT_GE(found.bound, 16 * 3 * 40);
}

TEST(PartitionTest, TheBestPlaceIsTaken) {
  // With stages half as long, the first microbatch reaches the last rank sooner.
  const std::vector<int64_t> layers(8, 10);
  std::vector<Partitioning> places = {LayersOn({0, 1, 2, 3}, layers, 8, kNoLimit),
                                      LayersOn({0, 1, 2, 3, 3, 2, 1, 0}, layers, 8, kNoLimit)};
  const Found found = FindPlace(places, {.iterations = 40'000});
  EXPECT_EQ(found.place, 1);
  EXPECT_EQ(found.partition, Partition(8, 1));
  EXPECT_LE(found.bound, found.value);
  places[1].problem_of = [&of = places[0]](absl::Span<const int> partition) {
    return of.problem_of(Partition{partition[0] + partition[1], partition[2] + partition[3],
                                   partition[4] + partition[5], partition[6] + partition[7]});
  };
  EXPECT_EQ(FindPlace(places, {.iterations = 4'000}).place, 0);  // the first among equals
}

}  // namespace
}  // namespace stringline::search
