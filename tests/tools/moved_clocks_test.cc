// The lines of `import` about clocks: which were moved, by how much, and how sure that is.
#include <gtest/gtest.h>

#include "tools/answers/trace_import.h"

namespace stringline {
namespace {

constexpr int64_t kMs = 1'000'000, kUs = 1'000;

ImportedStep StepOf(const std::vector<RankClock>& clocks) {
  ImportedStep imported;
  for (size_t r = 0; r < clocks.size(); ++r) {
    imported.ranks.push_back({.rank = static_cast<int>(r), .clock = clocks[r]});
  }
  return imported;
}

TEST(MovedClocksTest, NothingIsSaidWhereNothingWasMoved) {
  EXPECT_EQ(PrintClocks(StepOf({{}})), "");
  EXPECT_EQ(PrintClocks(StepOf({{}, {}, {}})), "");
}

TEST(MovedClocksTest, NamesTheMovedClocks) {
  // On one host, too, if a message contradicts its clock.
  ImportedStep imported = StepOf({{}, {}, {3'200'000, 40 * kUs}, {-7 * kMs, 0}});
  imported.hosts = 1;
  EXPECT_EQ(PrintClocks(imported),
            "clocks moved to that of rank 0: rank 2 by +3.2 ms ± 40 us, rank 3 by -7 ms\n"
            "  ±: the most by which that is wrong; messages arrive after they have left, both "
            "ways\n");
}

TEST(MovedClocksTest, RanksOfOneClockAreNamedAtOnce) {
  EXPECT_EQ(PrintClocks(StepOf({{}, {}, {kMs, 0}, {kMs, 0}, {kMs, 0}, {2 * kMs, 0}})),
            "clocks moved to that of rank 0: ranks 2 to 4 by +1 ms, rank 5 by +2 ms\n");
  std::vector<RankClock> many = {{}};
  for (int r = 1; r < 100; ++r) many.push_back({r * kMs, 0});
  EXPECT_EQ(PrintClocks(StepOf(many)),
            "clocks moved to that of rank 0: rank 1 by +1 ms, rank 2 by +2 ms, rank 3 by +3 ms, "
            "rank 4 by +4 ms, rank 5 by +5 ms, rank 6 by +6 ms, rank 7 by +7 ms, 92 more, below\n");
}

TEST(MovedClocksTest, SaysWhereMessagesDoNotTell) {
  const std::string unknown =
      " may be off by any more: messages between hosts go one way only, and nothing says how long "
      "they took\n";
  EXPECT_EQ(PrintClocks(StepOf({{}, {kMs, std::nullopt}})),
            "clocks moved to that of rank 0: rank 1 by +1 ms or more\n  one clock" + unknown);
  EXPECT_EQ(PrintClocks(StepOf({{}, {0, std::nullopt}, {0, std::nullopt}})),
            "  2 clocks" + unknown);
  ImportedStep drifting = StepOf({{}, {}});
  drifting.clocks_off_ns = 5 * kUs;
  EXPECT_EQ(
      PrintClocks(drifting),
      "  whatever is moved, some messages arrive up to 5 us before they left: clocks drift\n");
}

}  // namespace
}  // namespace stringline
