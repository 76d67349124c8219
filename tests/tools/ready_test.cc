// Ready order through the commands: the gain where times vary, beside other fixed orders, and what
// refuses it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "schedlang/ask/jitter.h"
#include "schedlang/ask/session.h"
#include "tests/tools/tool_run.h"

namespace stringline {
namespace {

using testing::HasSubstr;

Answer ReadyRun(const std::string& line) { return RunToolIn(SourceFolder(), Words(line)); }

// The mean of 20 draws, in microseconds: listed, and in ready order.
struct MeanSteps {
  double listed = 0;
  double ready = 0;
};

MeanSteps MeanStepsOf(const std::string& what, const std::string& costs) {
  const Answer answer =
      ReadyRun(absl::StrCat("sim ", what, " --cost F=10,B=20,", costs, " --seeds 20 --json"));
  EXPECT_EQ(answer.status, 0) << answer.err;
  const auto json = nlohmann::json::parse(answer.out);
  const auto& jitter = json["jitter"];
  EXPECT_EQ(jitter["draws"], 20);
  const MeanSteps steps = {jitter["listed_us"]["mean"], jitter["ready_us"]["mean"]};
  EXPECT_NEAR(jitter["gain"]["mean"], steps.listed / steps.ready, 1e-9);
  return steps;
}

// RRFP's figure is 1.3 to 1.8 times where times vary by 30 %. It is reached where microbatches
// vary, as those of images and texts do, and messages take 0.3 of a forward; with the same
// activations as the listed order, a 1F1B that warms up with 8 microbatches more.
TEST(ReadyOrderGain, IsThatOfRrfpWhereMicrobatchesVary) {
  const std::string file = ScratchFolder() + "/deep.sched";
  WriteText(file,
            "schedule deep(P, M, K = 8) {\n"
            "  stages P on line;\n"
            "  rank r {\n"
            "    let warmup = min(P - 1 - r + K, M);\n"
            "    repeat warmup      { F r }\n"
            "    repeat M - warmup  { F r; B r }\n"
            "    repeat warmup      { B r }\n"
            "  }\n"
            "}\n");
  const std::string what = file + " P=8 M=64 window=64";
  const MeanSteps of_microbatches = MeanStepsOf(what, "p2p=3,jitter.microbatch=30%");
  EXPECT_GT(of_microbatches.listed / of_microbatches.ready, 1.3);
  EXPECT_LT(of_microbatches.listed / of_microbatches.ready, 1.4);
  // Times that vary each by itself leave less to gain: no order gains more than a fifth, as work
  // alone takes 64 * 30 us and the ends of the pipeline 7 * 30.
  const MeanSteps by_itself = MeanStepsOf(what, "jitter=30%");
  EXPECT_GT(by_itself.listed / by_itself.ready, 1.1);
  EXPECT_GT(by_itself.ready, 71 * 30);
  EXPECT_LT(by_itself.listed / (71 * 30), 1.25);
  // 1F1B itself, with more memory; and with none it loses a little.
  const std::string plain = "schedules/1f1b.sched P=8 M=64 window=64";
  const MeanSteps more = MeanStepsOf(plain + " slack=16", "p2p=3,jitter.microbatch=30%");
  EXPECT_GT(more.listed / more.ready, 1.38);
  const MeanSteps no_more = MeanStepsOf(plain, "jitter=30%");
  EXPECT_LT(no_more.listed / no_more.ready, 1);
  EXPECT_GT(no_more.listed / no_more.ready, 0.93);
}

TEST(ReadyOrderGain, DoesNotDependOnThreads) {
  const auto step =
      OpenSimulated({.file = SourceFolder() + "/schedules/zb_h1.sched",
                     .parameters = {{"P", 4}, {"M", 12}, {"window", 8}, {"slack", 1}}},
                    {.text = "F=10,I=10,W=10,p2p=3,jitter=20%,jitter.microbatch=10%"}, {});
  ASSERT_TRUE(step.ok()) << step.status();
  const auto one = StepsUnderJitter(*step, {.runs = 30}, 1);
  const auto three = StepsUnderJitter(*step, {.runs = 30}, 3);
  ASSERT_TRUE(one.ok() && three.ok());
  EXPECT_EQ(one->listed_ns, three->listed_ns);
  EXPECT_EQ(one->ready_ns, three->ready_ns);
  const auto later = StepsUnderJitter(*step, {.runs = 30, .seed = 2}, 3);
  EXPECT_NE(one->ready_ns, later->ready_ns);
}

TEST(ReadyOrderGain, WhatDoesNotKnowReadyOrderSaysSo) {
  const std::string schedule = "schedules/1f1b.sched P=4 M=8";
  const auto error = [](const std::string& line) {
    const Answer answer = ReadyRun(line);
    EXPECT_NE(answer.status, 0) << line;
    return answer.out + answer.err;
  };
  EXPECT_THAT(error("sim " + schedule + " --seeds 3"), HasSubstr("nothing is drawn at random"));
  EXPECT_THAT(error("sim " + schedule + " --jitter much"),
              HasSubstr("jitter: 'much' is not a share"));
  EXPECT_THAT(error("sim schedules/1f1b.sched P=2 --for M=1..2 --jitter 30%"),
              HasSubstr("--jitter and --seeds are of one step"));
  EXPECT_THAT(error("sim " + schedule + " slack=2"), HasSubstr("'slack' is that of a window"));
  EXPECT_THAT(error("sim " + schedule + " window=0"), HasSubstr("not in 1 .. 4096"));
  EXPECT_THAT(error("sim " + schedule + " window=4 --layout shared"),
              HasSubstr("knows no other communicator layout"));
  EXPECT_THAT(error("sim " + schedule + " window=4 --cost F=1,B=2,receive_buffers=9"),
              HasSubstr("'receive_buffers'"));
  EXPECT_THAT(error("sim " + schedule + " window=4 --cost F=1,B=2,reduce=3"),
              HasSubstr("gathers and reductions"));
  EXPECT_THAT(error("check " + schedule + " window=4 steps=2"), HasSubstr("several steps"));
  EXPECT_THAT(error("check schedules/chimera.sched P=4 M=8 window=4"), HasSubstr("knows no pipes"));
  EXPECT_THAT(error("export " + schedule + " window=4 --to torch-compute"),
              HasSubstr("leave 'window' out"));
  EXPECT_THAT(
      error("search --from schedules/1f1b.sched P=4 M=8 window=4 --cost F=1,B=2 --iterations 1"),
      HasSubstr("'window'"));
}

}  // namespace
}  // namespace stringline
