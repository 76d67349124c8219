// The way from a file to a timeline: all kinds of files, and equal results of a sweep and a single
// simulation.
#include "schedlang/ask/session.h"

#include <gtest/gtest.h>

#include <random>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "schedlang/ask/cost_trials.h"
#include "schedlang/ask/schedule_library.h"
#include "schedlang/ask/sim_sweep.h"
#include "tests/tools/tool_run.h"
#include "tools/answers/summary.h"

namespace stringline {
namespace {

TEST(SessionTest, AFilesKindIsInItsName) {
  EXPECT_EQ(KindOfFile("a/b.sched"), FileKind::kSchedule);
  EXPECT_EQ(KindOfFile("b.plan.txt"), FileKind::kSchedule);
  EXPECT_EQ(KindOfFile("b.plan"), FileKind::kPlan);
  EXPECT_EQ(KindOfFile("b.csv"), FileKind::kTorch);
  EXPECT_EQ(KindOfFile("b.timeline"), FileKind::kTimeline);
}

TEST(SessionTest, ATextsKindIsInItsNameOrItsBeginning) {
  const struct {
    const char* name;
    const char* text;
    FileKind kind;
  } cases[] = {
      {"x.plan", "", FileKind::kPlan},
      {"x.sched", "plan", FileKind::kSchedule},
      {"text", "# one\n\n  plan x P=1 M=1\n", FileKind::kPlan},
      {"text", "timeline simulated x", FileKind::kTimeline},
      {"text", "0F0,1F0\n", FileKind::kTorch},
      {"text", ",0F0\n", FileKind::kTorch},
      {"text", "(0F0;1B0)OVERLAP_F_B\n", FileKind::kTorch},
      {"text", "# plan\nschedule x(P, M) {}", FileKind::kSchedule},
      {"text", "", FileKind::kSchedule},
  };
  for (const auto& test : cases)
    EXPECT_EQ(KindOfText(test.name, test.text), test.kind) << test.text;
}

// A text can take the place of a file.
TEST(SessionTest, TextsComeInThePlaceOfFiles) {
  const std::string path = SourceFolder() + "/schedules/zb_h1.sched";
  const std::vector<Parameter> parameters = {{"P", 4}, {"M", 8}};
  const CostRequest costs = {.file = "<costs>", .file_text = "F: 18522\nI: 18086\nW: 9ms\n"};
  const auto of_text =
      OpenSimulated({.file = "text", .parameters = parameters, .text = ReadText(path)}, costs, {});
  const auto of_file = OpenSimulated({path, "", parameters}, {.text = "F=18522,I=18086,W=9ms"}, {});
  ASSERT_TRUE(of_text.ok() && of_file.ok()) << of_text.status() << of_file.status();
  EXPECT_EQ(Print(*of_text->timeline), Print(*of_file->timeline));
  EXPECT_EQ(FindCosts({.file = "<costs>", .file_text = "F: 1\nq: 2\n"}).status().message(),
            "<costs>:2: unknown cost 'q' ('stringline sim --help' lists them)");
}

TEST(SessionTest, ATimelineTakesNoParametersAndNoCosts) {
  const std::string file = SourceFolder() + "/tests/golden/report/moe.timeline";
  const absl::StatusOr<Session> step = OpenStep({file}, {}, {});
  ASSERT_TRUE(step.ok());
  EXPECT_TRUE(step->timeline && step->plan && !step->costs);
  EXPECT_FALSE(OpenStep({file, "", {{"P", 2}}}, {}, {}).ok());
  EXPECT_FALSE(OpenStep({file, "x"}, {}, {}).ok());
  EXPECT_FALSE(OpenStep({file}, {.text = "F=1,B=1"}, {}).ok());
  EXPECT_FALSE(OpenStep({file}, {.slow = {{0, 100'000}}}, {}).ok());
}

// The plan gives the line of each action; a message has the line of the action that produces or
// consumes its value.
TEST(SessionTest, APlanKnowsTheLinesOfItsActions) {
  const struct {
    const char* file;
    std::vector<Parameter> parameters;
    const char* first;  // of rank 1
  } cases[] = {
      {"schedules/1f1b.sched", {{"P", 2}, {"M", 3}}, "1RECV_F0 (schedules/1f1b.sched:13)"},
      {"examples/03_find_a_deadlock/both_send_first.plan",
       {},
       "up[0]F0 (examples/03_find_a_deadlock/both_send_first.plan:6)"},
      {"tests/golden/torch/zbvzerobubble_p2_v2_m4_compute.csv",
       {},
       "1RECV_F0 (tests/golden/torch/zbvzerobubble_p2_v2_m4_compute.csv:2)"},
  };
  for (const auto& test : cases) {
    const absl::StatusOr<Session> session =
        OpenCheckedPlan({absl::StrCat(SourceFolder(), "/", test.file), "", test.parameters}, {});
    ASSERT_TRUE(session.ok() && session->plan) << test.file;
    const Plan& plan = *session->plan;
    std::string text = PrintWithLine(plan, plan.of(RankId(1))[0]);
    text.erase(text.find(SourceFolder()), SourceFolder().size() + 1);
    EXPECT_EQ(text, test.first);
  }
}

const CostRequest kSessionCosts[] = {
    {},
    {.text = "F=10,I=10,W=10,p2p=1,unshard=15,reduce=20"},
    {.text = "F=10,I=9,W=8,p2p=1", .slow = {{1, 500'000}}},
    {.text = "F.attn=3,F.experts=4,F.dispatch=2,B.attn=5,B.experts=1,W.attn=2,F.post=7,layers=2"},
};

TEST(SessionTest, ASweepSimulatesWhatASimulationDoes) {
  for (const char* const name : {"interleaved", "dualpipe_v", "zb_h1", "megatron_combined"}) {
    const std::string path = SourceFolder() + "/schedules/" + name + ".sched";
    std::optional<BrokenFile> broken;
    const auto sweep = ListSweep(
        {.schedules = {{.file = path}}, .ranges = {*ParseSweepRange("M=4,6")}, .fixed = {{"P", 2}}},
        &broken);
    ASSERT_TRUE(sweep.ok() && *sweep) << sweep.status();
    for (const CostRequest& request : kSessionCosts) {
      for (const CommLayout layout : {CommLayout::kEdge, CommLayout::kShared}) {
        const auto steps = SimulateAll(**sweep, *FindCosts(request), layout, /*threads=*/2);
        ASSERT_TRUE(steps.ok()) << steps.status();
        for (size_t p = 0; p < 2; ++p) {
          const auto step = OpenSimulated({path, "", (*sweep)->ParametersAt(p)}, request, {layout});
          ASSERT_TRUE(step.ok() && step->timeline) << step.status();
          EXPECT_EQ((*steps)[p].makespan_ns, MeasureBubbles(*step->timeline).makespan_ns)
              << name << " " << request.text;
        }
      }
    }
  }
}

// Costs of all sorts, of which some change collectives, buffers or links.
std::string DrawCosts(std::mt19937_64& random) {
  const auto below = [&random](int n) { return static_cast<int>(random() % n); };
  std::string text = absl::StrCat("F=", 1 + below(20), ",I=", 1 + below(20), ",W=", 1 + below(20));
  if (below(2) == 0) absl::StrAppend(&text, ",B=", 1 + below(40));
  if (below(2) == 0) absl::StrAppend(&text, ",p2p=", below(9));
  if (below(3) == 0) absl::StrAppend(&text, ",bytes=1MB,bandwidth=", 1 + below(9), "GB/s");
  if (below(3) == 0) absl::StrAppend(&text, ",reduce=", 1 + below(50));
  if (below(4) == 0) absl::StrAppend(&text, ",unshard=", 1 + below(9), ",buckets=", 1 + below(3));
  if (below(4) == 0) absl::StrAppend(&text, ",receive_buffers=", 1 + below(40));
  return text;
}

// Trials give what each simulation from the text on gives: the same step, findings and errors.
TEST(SessionTest, TrialsOfCostsAreAsFreshSimulations) {
  constexpr uint64_t kTrialSeed = 31;
  std::mt19937_64 random(kTrialSeed);
  int simulated = 0, refused = 0, prepared = 0;
  for (const LibrarySchedule& schedule : ScheduleLibrary()) {
    for (const CommLayout layout : {CommLayout::kEdge, CommLayout::kPair}) {
      PlanRequest request{.file = std::string(schedule.name) + ".sched",
                          .parameters = {{"P", 4}, {"M", 8}},
                          .text = std::string(schedule.text)};
      if (layout == CommLayout::kEdge && schedule.name == std::string("1f1b")) {
        request.parameters.push_back({"window", 3});
      }
      const auto opened = OpenPlan(request);
      if (!opened.ok() || !opened->plan) continue;
      const MessageRequest messages{.layout = layout};
      CostTrials trials(*opened, messages);
      for (int n = 0; n < 12; ++n) {
        const CostRequest costs{.text = DrawCosts(random)};
        SCOPED_TRACE(absl::StrCat(schedule.name, " ", costs.text, ", seed ", kTrialSeed));
        const auto fresh = OpenSimulated(request, costs, messages);
        const auto trial = trials.Simulate(costs);
        ASSERT_EQ(trial.status(), fresh.status());
        ++(fresh.ok() ? simulated : refused);
        if (!fresh.ok()) continue;
        const Session& again = **trial;
        ASSERT_EQ(again.timeline.has_value(), fresh->timeline.has_value());
        ASSERT_EQ(Render(again.diagnostics, again.source),
                  Render(fresh->diagnostics, fresh->source));
        if (!fresh->timeline) continue;
        ASSERT_EQ(Print(*again.timeline), Print(*fresh->timeline));
        ASSERT_EQ(Print(*again.plan), Print(*fresh->plan));
        ASSERT_EQ(again.written.has_value(), fresh->written.has_value());
        std::ostringstream summary, fresh_summary;
        PrintSummary(again, summary);
        PrintSummary(*fresh, fresh_summary);
        ASSERT_EQ(summary.str(), fresh_summary.str());
      }
      prepared += trials.prepared();
    }
  }
  EXPECT_GT(simulated, 300);
  EXPECT_GT(refused, 10);
  EXPECT_LT(prepared, simulated);
}

TEST(SessionTest, TrialsOfCostsPrepareAPlanOnce) {
  const std::string path = SourceFolder() + "/schedules/zb_v.sched";
  CostTrials trials(*OpenPlan({path, "", {{"P", 4}, {"M", 8}}}), {});
  for (int n = 1; n < 10; ++n) {
    const auto step = trials.Simulate({.text = absl::StrCat("F=", n, ",I=1,W=1,p2p=", n % 3)});
    ASSERT_TRUE(step.ok() && (*step)->timeline);
  }
  EXPECT_EQ(trials.prepared(), 1);
}

}  // namespace
}  // namespace stringline
