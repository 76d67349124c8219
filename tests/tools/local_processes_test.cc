// The launcher of a run's processes, with this program itself in the place of `stringline run`: a
// process does what the arguments say for its number.
#include "tools/training/local_processes.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "tools/io/output.h"

namespace stringline {
namespace {

// The end of a process: "0" to "255" exits so, "hangs" waits for ever, "killed" ends by a signal,
// "killed-once" only where it is not started again.
[[noreturn]] void Become(const std::string& what, bool comes_back) {
  int status = 0;
  if (what == "killed" || (what == "killed-once" && !comes_back)) (void)raise(SIGKILL);
  while (what == "hangs") (void)pause();
  (void)absl::SimpleAtoi(what, &status);
  _exit(status);
}

LocalRun RunAll(const std::vector<std::string>& ends, const LocalRunSettings& settings) {
  const absl::StatusOr<LocalRun> run =
      RunLocalProcesses(static_cast<int>(ends.size()), ends, "secret", settings);
  EXPECT_TRUE(run.ok()) << run.status();
  return run.ok() ? *run : LocalRun();
}

// The others have gone on without the one that hangs, and reached the end.
TEST(LocalProcesses, OneThatHangsBehindTheEndOfTheOthersIsKilled) {
  const LocalRun run = RunAll({"0", "hangs", "0"}, {.heals = true, .end_ns = 1'000'000});
  EXPECT_EQ(run.status, 0);
  EXPECT_TRUE(run.healed);
  ASSERT_EQ(run.lost.size(), 1u);
  EXPECT_EQ(run.lost[0].process, 1);
  EXPECT_EQ(run.lost[0].signal, SIGKILL);
  EXPECT_EQ(run.killed_late, 1);
}

TEST(LocalProcesses, OneThatLeavesEndsNobody) {
  const LocalRun run = RunAll({std::to_string(kLeft), "0"}, {.heals = true});
  EXPECT_EQ(run.status, 0);
  EXPECT_TRUE(run.lost.empty());
}

// A lost process is started once more, with --return; one that is lost each time is given up.
TEST(LocalProcesses, LostOnesAreStartedAgain) {
  const LocalRunSettings returns = {.heals = true, .returns = true, .end_ns = 1'000'000};
  const LocalRun once = RunAll({"hangs", "killed-once"}, returns);
  EXPECT_EQ(once.lost.size(), 2u);  // the first, and the one that hangs behind the end
  EXPECT_EQ(once.status, 0);
  const LocalRun always = RunAll({"killed-once", "killed", "killed-once"}, returns);
  EXPECT_GE(always.lost.size(), 3u);
  EXPECT_LE(always.lost.size(), 3u + 10u);
}

}  // namespace
}  // namespace stringline

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    size_t process = 0;
    if (words[i] != "--rank" || !absl::SimpleAtoi(words[i + 1], &process)) continue;
    stringline::Become(words[process], words.back() == "--return");
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
