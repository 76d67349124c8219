// Packings of values with known lifetimes, beside a search through all orders, and on several
// clocks.
#include "schedlang/memory/packing.h"

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace stringline {
namespace {

// A value of a rank alone, alive in the moments from..to, both included.
struct Interval {
  int from = 0, to = 0;
  int64_t bytes = 0;
};

bool AliveAtOnce(const Interval& a, const Interval& b) { return a.from <= b.to && b.from <= a.to; }

// Born in group `from`, when the groups before it have ended.
Packing Pack(const std::vector<Interval>& intervals) {
  std::vector<ValueLife> values;
  std::vector<Clock> clocks;
  Packing known;  // no two values share bytes
  for (const Interval& one : intervals) {
    clocks.push_back({one.from - 1});
    values.push_back({one.bytes, static_cast<int>(clocks.size()) - 1, {0, one.to}});
    known.offsets.push_back(known.bytes);
    known.bytes += one.bytes;
  }
  return PackValues(values, clocks, known);
}

// The least of all orders in which each value takes the lowest gap: one of them is optimal.
int64_t LeastOf(const std::vector<Interval>& intervals) {
  std::vector<int> order(intervals.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  int64_t least = INT64_MAX;
  do {
    std::vector<std::pair<int, int64_t>> placed;
    int64_t block = 0;
    for (const int i : order) {
      int64_t at = 0;
      for (bool moved = true; moved;) {
        moved = false;
        for (const auto& [other, offset] : placed) {
          const bool touches = AliveAtOnce(intervals[i], intervals[other]) &&
                               at < offset + intervals[other].bytes &&
                               offset < at + intervals[i].bytes;
          if (!touches) continue;
          at = offset + intervals[other].bytes;
          moved = true;
        }
      }
      placed.emplace_back(i, at);
      block = std::max(block, at + intervals[i].bytes);
    }
    least = std::min(least, block);
  } while (std::next_permutation(order.begin(), order.end()));
  return least;
}

TEST(Packing, OfAFewValuesIsTheBestOfAll) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  int with_gaps = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<Interval> intervals(1 + random() % 7);
    for (Interval& one : intervals) {
      one.from = 1 + static_cast<int>(random() % 6);
      one.to = one.from + static_cast<int>(random() % 4);
      one.bytes = 1 + static_cast<int64_t>(random() % 9);
    }
    std::sort(intervals.begin(), intervals.end(),
              [](const Interval& a, const Interval& b) { return a.from < b.from; });
    const Packing packed = Pack(intervals);
    ASSERT_EQ(packed.bytes, LeastOf(intervals)) << round;
    int64_t alive = 0;
    for (int moment = 1; moment < 12; ++moment) {
      int64_t now = 0;
      for (const Interval& one : intervals) {
        if (one.from <= moment && moment <= one.to) now += one.bytes;
      }
      alive = std::max(alive, now);
    }
    EXPECT_EQ(packed.alive, alive) << round;
    with_gaps += packed.bytes > alive ? 1 : 0;
  }
  EXPECT_LT(with_gaps, 300);
}

// On several clocks, values share bytes only if one is known to be dead when the other is born.
TEST(Packing, NoTwoValuesOfUnknownOrderShareBytes) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    std::vector<ValueLife> values(2 + random() % 80);
    std::vector<Clock> clocks;
    Packing known;
    for (size_t i = 0; i < values.size(); ++i) {
      const auto moment = [&] { return static_cast<int>(i / 3 + random() % 4); };
      clocks.push_back({moment(), moment(), moment()});
      const int rank = static_cast<int>(random() % 3);
      values[i] = {
          1 + static_cast<int64_t>(random() % 50),
          static_cast<int>(i),
          {rank, clocks[i][static_cast<size_t>(rank)] + 1 + static_cast<int>(random() % 6)}};
      known.offsets.push_back(known.bytes);
      known.bytes += values[i].bytes;
    }
    const Packing packed = PackValues(values, clocks, known);
    int64_t block = 0;
    for (size_t a = 0; a < values.size(); ++a) {
      block = std::max(block, packed.offsets[a] + values[a].bytes);
      ASSERT_GE(packed.offsets[a], 0);
      for (size_t b = a + 1; b < values.size(); ++b) {
        const bool apart = packed.offsets[a] + values[a].bytes <= packed.offsets[b] ||
                           packed.offsets[b] + values[b].bytes <= packed.offsets[a];
        const bool a_first =
            clocks[b][static_cast<size_t>(values[a].death.rank)] >= values[a].death.group;
        const bool b_first =
            clocks[a][static_cast<size_t>(values[b].death.rank)] >= values[b].death.group;
        ASSERT_TRUE(apart || a_first || b_first) << round << ": " << a << " and " << b;
      }
    }
    EXPECT_EQ(packed.bytes, block);
    EXPECT_LE(packed.alive, packed.bytes);
  }
}

TEST(Packing, IsTheSameEveryTime) {
  std::mt19937 random(3);
  std::vector<Interval> intervals(200);
  for (Interval& one : intervals) {
    one.from = 1 + static_cast<int>(random() % 100);
    one.to = one.from + static_cast<int>(random() % 9);
    one.bytes = 1 + static_cast<int64_t>(random() % 1000);
  }
  const Packing first = Pack(intervals), second = Pack(intervals);
  EXPECT_EQ(first.offsets, second.offsets);
}

}  // namespace
}  // namespace stringline
