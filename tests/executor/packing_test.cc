// Packings of values with known lifetimes, beside a search through all orders, and on several
// clocks.
#include "schedlang/memory/packing.h"

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "schedlang/memory/beams.h"

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
  for (int round = 0; round < 40; ++round) {
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

// Both beam searches, into as many bytes as the best of all orders takes, and into one less.
TEST(Packing, BeamsFindNothingThatIsNotThere) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  int found = 0;
  constexpr int kRounds = 300;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<Interval> intervals(1 + random() % 7);
    std::vector<PackedValue> values;
    std::vector<int> order;
    for (Interval& one : intervals) {
      one.from = static_cast<int>(random() % 6);
      one.to = one.from + static_cast<int>(random() % 4);
      one.bytes = 1 + static_cast<int64_t>(random() % 9);
      order.push_back(static_cast<int>(order.size()));
      values.push_back({one.bytes, one.from, one.to});
    }
    std::vector<std::vector<int>> conflicts(intervals.size());
    for (const int a : order) {
      for (const int b : order) {
        if (a != b && AliveAtOnce(intervals[a], intervals[b])) conflicts[a].push_back(b);
      }
    }
    const int64_t least = LeastOf(intervals);
    for (const int way : {0, 1, 2}) {
      for (const int64_t target : {least, least - 1}) {
        std::vector<int64_t> offsets;
        int64_t looks = 1'000'000;
        const bool is_found =
            way < 2 ? StackInto(values, target, 16, way == 0, &offsets, &looks)
                    : SweepInto(values, conflicts, order, target, 16, &offsets, &looks);
        ASSERT_TRUE(target == least || !is_found) << round;
        if (!is_found) continue;
        ++found;
        for (const int a : order) {
          ASSERT_GE(offsets[a], 0);
          ASSERT_LE(offsets[a] + values[a].bytes, target);
          for (const int b : conflicts[a]) {
            ASSERT_TRUE(offsets[a] + values[a].bytes <= offsets[b] ||
                        offsets[b] + values[b].bytes <= offsets[a])
                << round << ": " << a << " and " << b;
          }
        }
        looks = 0;
        EXPECT_FALSE(way < 2 ? StackInto(values, target, 16, way == 0, &offsets, &looks)
                             : SweepInto(values, conflicts, order, target, 16, &offsets, &looks));
      }
    }
  }
  EXPECT_GT(found, 3 * kRounds * 8 / 10);
}

// Values as a pipeline has them: of two stages, each with sizes of its own, in turns. As many are
// alive in every round, so a place is free for each if values of a kind take turns in its places.
TEST(Packing, ValuesThatTakeTurnsLeaveNoGaps) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  int64_t blocks = 0, alive = 0;
  for (int round = 0; round < 10; ++round) {
    const int held = 2 + static_cast<int>(random() % 6), microbatches = 30;
    std::vector<Interval> intervals;
    for (int m = 0; m < microbatches; ++m) {
      for (int kind = 0; kind < 4; ++kind) {
        const int from = 1 + 8 * m + kind;
        intervals.push_back({from, from + 8 * held - 1 - kind % 3, 0});
      }
    }
    int64_t bytes[4];
    for (int64_t& one : bytes) one = 1 + static_cast<int64_t>(random() % 9);
    for (size_t i = 0; i < intervals.size(); ++i) intervals[i].bytes = bytes[i % 4];
    const Packing packed = Pack(intervals);
    // A place for each of the microbatches alive, by kind.
    EXPECT_LE(packed.bytes, held * (bytes[0] + bytes[1] + bytes[2] + bytes[3]));
    blocks += packed.bytes;
    alive += packed.alive;
  }
  EXPECT_LE(blocks, alive * 102 / 100);
}

// A block is cut into values at random, so a packing without gaps exists.
TEST(Packing, OfACutBlockHasFewGaps) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  double gaps = 0;
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<Interval> pieces = {{1, 100, 64}};
    while (pieces.size() < 150) {
      Interval& piece = pieces[random() % pieces.size()];
      Interval other = piece;
      if (random() % 2 == 0 && piece.bytes > 1) {
        other.bytes = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(piece.bytes - 1));
        piece.bytes -= other.bytes;
      } else if (piece.to > piece.from) {
        other.from = piece.from + 1 +
                     static_cast<int>(random() % static_cast<unsigned>(piece.to - piece.from));
        piece.to = other.from - 1;
      } else {
        continue;
      }
      pieces.push_back(other);
    }
    std::sort(pieces.begin(), pieces.end(),
              [](const Interval& a, const Interval& b) { return a.from < b.from; });
    const Packing packed = Pack(pieces);
    EXPECT_EQ(packed.alive, 64);
    gaps += static_cast<double>(packed.bytes - 64) / 64 / kRounds;
  }
  EXPECT_LT(gaps, 0.12);
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
