// Copies of a pipeline on a command line, in a cost file and in a run file.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "schedlang/ask/schedule_library.h"
#include "schedlang/ask/session.h"
#include "schedlang/plan/sharding.h"
#include "tests/tools/tool_run.h"
#include "tools/io/json.h"
#include "tools/training/model_sizes.h"

namespace stringline {
namespace {

constexpr char kStep[] =
    "schedules/interleaved.sched P=4 M=8 V=4 --costs examples/06_where_the_time_goes/llama.yaml "
    "--mesh data=16,shard=8";

Json Asked(const std::string& line) {
  const Answer answer = RunToolIn(SourceFolder(), Words(line + " --json"));
  EXPECT_EQ(answer.status, 0) << answer.out << answer.err;
  return Json::parse(answer.out, nullptr, false);
}

// A report's estimate for another sharding equals the report with this sharding.
TEST(CopiesTest, WhatIfSaysWhatTheOtherReportSays) {
  std::map<std::string, Json> reports;
  for (const char* const word : kShardings) {
    reports[word] = Asked(absl::StrCat("report ", kStep, " --sharding ", word));
  }
  int compared = 0;
  for (const auto& [word, report] : reports) {
    for (const Json& row : report["what_if"]) {
      const std::string name = row["name"];
      if (name.rfind("sharding ", 0) != 0) continue;
      SCOPED_TRACE(word + ", what if " + name);
      const Json& other = reports[name.substr(9)];
      EXPECT_EQ(row["makespan_us"], other["makespan_us"]);
      EXPECT_EQ(row.value("after_step_us", Json(0)),
                other["collectives"].value("after_step_us", Json(0)));
      int64_t peak = 0;
      for (const Json& rank : other["memory"]["ranks"]) {
        peak = std::max(peak, rank["peak"].get<int64_t>());
      }
      EXPECT_EQ(row["peak_bytes"], peak);
      ++compared;
    }
  }
  EXPECT_EQ(compared, 12);
}

// The step without collectives is the step of a single copy; each sharding holds less than the one
// before.
TEST(CopiesTest, ExposedIsWhatCopiesAddToTheStep) {
  const Json alone = Asked(
      "sim schedules/interleaved.sched P=4 M=8 V=4 --costs "
      "examples/06_where_the_time_goes/llama.yaml");
  for (const char* const word : kShardings) {
    SCOPED_TRACE(word);
    const Json report = Asked(absl::StrCat("report ", kStep, " --sharding ", word));
    const Json& all = report["collectives"];
    EXPECT_NEAR(all["exposed_us"].get<double>(),
                report["makespan_us"].get<double>() - alone["makespan_us"].get<double>(), 1e-3);
    double gathers = 0, reductions = 0;
    for (const Json& rank : report["ranks"]) {
      const Json& of = rank["collectives"];
      gathers += of["gather_us"].get<double>();
      reductions += of["reduce_us"].get<double>();
      EXPECT_LE(of["gather_wait_us"].get<double>(), of["gather_us"].get<double>());
      EXPECT_GT(of["reduce_wait_us"].get<double>(), 0);
    }
    EXPECT_NEAR(gathers, all["gather_us"].get<double>(), 1e-2);
    EXPECT_NEAR(reductions, all["reduce_us"].get<double>(), 1e-2);
    EXPECT_EQ(gathers > 0, word == std::string("parameters"));
  }
}

std::map<ActionKind, int> KindsOf(const Plan& plan) {
  std::map<ActionKind, int> kinds;
  for (const Action& action : plan.actions) ++kinds[action.kind];
  return kinds;
}

// Each asks for copies: a plan of four stages then reduces four times, and gathers each at least
// once if they share out parameters.
TEST(CopiesTest, EveryWayToSayItLowersAlike) {
  const std::string folder = ScratchFolder();
  const std::string run =
      "schedule: {file: s.sched, P: 2, M: 4}\ndata: {text: a.txt, microbatch: 1}\n"
      "model: {layers: 4, width: 8, heads: 2, context: 4}\n"
      "train: {steps: 1, learning_rate: 1e-3}\n";
  const std::string costs =
      "model: {layers: 4, width: 8, heads: 2, context: 4}\nhardware: machine.yaml\n";
  WriteText(folder + "/machine.yaml", "flops: 1e12\nbandwidth: 1GB/s\n");
  const PlanRequest request = {
      SourceFolder() + "/schedules/interleaved.sched", "", {{"P", 2}, {"M", 4}, {"V", 2}}};
  for (const char* const word : kShardings) {
    SCOPED_TRACE(word);
    const std::string said = absl::StrCat("mesh: {data: 2}\nsharding: ", word, "\n");
    WriteText(folder + "/run.yaml", run + said);
    WriteText(folder + "/costs.yaml", costs + said);
    WriteText(folder + "/one.yaml", costs);
    const CostRequest ways[] = {
        {.file = folder + "/costs.yaml"},
        {.file = folder + "/one.yaml", .copies = {"data=2", word, ""}},
        {.text = "F=1,B=2", .copies = {"", word, ""}},
    };
    const auto expect = [&](const absl::StatusOr<Session>& session) {
      ASSERT_TRUE(session.ok()) << session.status();
      ASSERT_TRUE(session->plan);
      const std::map<ActionKind, int> kinds = KindsOf(*session->plan);
      EXPECT_EQ(kinds.at(ActionKind::kReduceGrad), 4);
      EXPECT_EQ(kinds.count(ActionKind::kUnshard), word == std::string("parameters") ? 1U : 0U);
    };
    for (const CostRequest& way : ways) {
      expect(OpenCheckedPlan(request, {.costs = way}));
      expect(OpenSimulated(request, way, {}));
    }
    const FindModelSizes model = [&](const Plan& plan) {
      return SizesOfModel(folder + "/run.yaml", plan);
    };
    expect(OpenCheckedPlan(request, {.model = model}));
  }
}

// Copies can perform every schedule of the library, whatever they share out; but a gather of
// parameters gives one version of them.
TEST(CopiesTest, TheLibraryIsRightForEverySharding) {
  for (const char* const word : kShardings) {
    for (const LibrarySchedule& schedule : ScheduleLibrary()) {
      const std::string line = absl::StrCat("check ", schedule.name, " P=4 M=8 --sharding ", word);
      const bool versions = absl::StrContains(schedule.text, "\n  versions ");
      const bool gathers = std::string(word) == "parameters";
      const Answer answer = RunToolIn(SourceFolder(), Words(line));
      EXPECT_EQ(answer.status, versions && gathers ? 1 : 0) << line << "\n"
                                                            << answer.out << answer.err;
    }
  }
}

}  // namespace
}  // namespace stringline
