// SIGUSR2: every process of a run writes its flight records at once, and the run goes on as if
// nothing had come.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/tools/prepared_run.h"
#include "tests/tools/tool_process.h"
#include "tests/tools/tool_run.h"

namespace stringline {
namespace {

// A process that the parent has started; 0: none.
pid_t ChildOf(pid_t parent, int number) {
  const std::vector<pid_t> children = ChildrenOf(parent);
  return number < static_cast<int>(children.size()) ? children[number] : 0;
}

constexpr const char* kOther = "P: 3, M: 4}\ndevice: cpu\ntimeout: 0s";

// A run of three stages and so many steps, and the losses of its ranks as threads of one process.
class RunRecords : public testing::Test {
 protected:
  void Prepare(int steps) {
    folder_ = PrepareRun("P: 2, M: 4}", kOther);
    WriteText(folder_ + "/run.yaml",
              absl::StrReplaceAll(
                  ReadText(folder_ + "/run.yaml"),
                  {{"steps: 6", absl::StrCat("steps: ", steps)}, {"layers: 2", "layers: 3"}}));
  }
  std::string LossesOfOneProcess() const {
    ToolProcess one(folder_, Words("run run.yaml --out one"));
    EXPECT_EQ(one.Wait().status, 0);
    return ReadText(folder_ + "/one/losses.csv");
  }
  bool Trains() const {
    const std::string losses = folder_ + "/made/losses.csv.part";
    return std::filesystem::exists(losses) && ReadText(losses).size() > 200;
  }
  // The records of a wish: "flight-0-asked-1-step-", and any step.
  std::vector<std::string> Records(int number) const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ + "/made")) {
      const std::string name = entry.path().filename().string();
      if (absl::StrContains(name, absl::StrCat("-asked-", number, "-step-")) &&
          absl::EndsWith(name, ".timeline")) {
        names.push_back(name);
      }
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  // True if the records are of these processes, one of each.
  bool AreOf(const std::vector<int>& processes, int number) const {
    const std::vector<std::string> names = Records(number);
    bool equal = names.size() == processes.size();
    for (size_t i = 0; equal && i < names.size(); ++i) {
      equal = absl::StartsWith(names[i],
                               absl::StrCat("flight-", processes[i], "-asked-", number, "-step-"));
    }
    return equal;
  }
  void ExpectReadable(int number) const {
    for (const std::string& name : Records(number)) {
      const Answer shown =
          RunToolIn(folder_, Words(absl::StrCat("show made/", name, " --color never")));
      EXPECT_EQ(shown.status, 0) << shown.err;
      EXPECT_TRUE(absl::StrContains(shown.out, "zb_h1 P=3 M=4  flight: ")) << shown.out;
      EXPECT_TRUE(absl::StrContains(ReadText(folder_ + "/made/" + name),
                                    "\n# asked for by SIGUSR2 in step "));
    }
  }

  std::string folder_;
};

std::string Line(int number) {
  return absl::StrCat("stringline: SIGUSR2: what the ranks did last is in made/flight-*-asked-",
                      number, "-step-*.timeline\n");
}

TEST_F(RunRecords, AreWrittenByAllWhoeverIsAsked) {
  Prepare(3000);
  const std::string losses = LossesOfOneProcess();
  ToolProcess run(folder_, Words("run run.yaml --out made --processes 3"));
  ASSERT_TRUE(run.WaitUntil([&] { return Trains(); }));
  ASSERT_EQ(kill(ChildOf(run.id(), 2), SIGUSR2), 0);
  ASSERT_TRUE(run.WaitUntil([&] { return AreOf({0, 1, 2}, 1); }));
  run.Signal(SIGUSR2);
  ASSERT_TRUE(run.WaitUntil([&] { return AreOf({0, 1, 2}, 2); }));
  const Answer answer = run.Wait();
  EXPECT_EQ(answer.status, 0) << answer.err;
  EXPECT_EQ(answer.err, Line(1) + Line(2));
  EXPECT_TRUE(AreOf({0, 1, 2}, 1));
  for (const int number : {1, 2}) ExpectReadable(number);
  EXPECT_EQ(ReadText(folder_ + "/made/losses.csv"), losses);
}

// A process that is stopped holds up all others, which write; it writes when it goes on.
TEST_F(RunRecords, AreWrittenByARunThatHangs) {
  Prepare(2000);
  const std::string losses = LossesOfOneProcess();
  ToolProcess run(folder_, Words("run run.yaml --out made --processes 3"));
  ASSERT_TRUE(run.WaitUntil([&] { return Trains(); }));
  const pid_t stopped = ChildOf(run.id(), 1);
  ASSERT_EQ(kill(stopped, SIGSTOP), 0);
  ASSERT_EQ(kill(ChildOf(run.id(), 2), SIGUSR2), 0);
  ASSERT_TRUE(run.WaitUntil([&] { return AreOf({0, 2}, 1); }));
  ASSERT_EQ(kill(stopped, SIGCONT), 0);
  ASSERT_TRUE(run.WaitUntil([&] { return AreOf({0, 1, 2}, 1); }));
  run.Signal(SIGUSR2);
  ASSERT_TRUE(run.WaitUntil([&] { return AreOf({0, 1, 2}, 2); }));
  const Answer answer = run.Wait();
  EXPECT_EQ(answer.status, 0) << answer.err;
  EXPECT_EQ(answer.err, Line(1) + Line(2));
  for (const int number : {1, 2}) ExpectReadable(number);
  EXPECT_EQ(ReadText(folder_ + "/made/losses.csv"), losses);
}

// A run of one process; and one that was asked to stop and cannot, since another is stopped.
TEST_F(RunRecords, AreWrittenAfterARunWasAskedToStop) {
  Prepare(100000000);
  {
    ToolProcess run(folder_, Words("run run.yaml --out made"));
    ASSERT_TRUE(run.WaitUntil([&] { return Trains(); }));
    run.Signal(SIGUSR2);
    ASSERT_TRUE(run.WaitUntil([&] { return AreOf({0}, 1); }));
    run.Signal(SIGTERM);
    const Answer answer = run.Wait();
    EXPECT_EQ(answer.status, 128 + SIGTERM);
    EXPECT_EQ(answer.err, Line(1));
  }
  std::filesystem::remove_all(folder_ + "/made");
  ToolProcess run(folder_, Words("run run.yaml --out made --processes 2"));
  ASSERT_TRUE(run.WaitUntil([&] { return Trains(); }));
  const pid_t stopped = ChildOf(run.id(), 1);
  ASSERT_EQ(kill(stopped, SIGSTOP), 0);
  run.Signal(SIGTERM);
  run.Signal(SIGUSR2);
  ASSERT_TRUE(run.WaitUntil([&] { return AreOf({0}, 1); }));
  ASSERT_EQ(kill(stopped, SIGCONT), 0);
  EXPECT_EQ(run.Wait().status, 128 + SIGTERM);
}

}  // namespace
}  // namespace stringline
