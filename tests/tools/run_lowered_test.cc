// `run` of a lowered `.plan`: the proven plan is the plan that runs. Collectives that the file
// lacks are added before the check, so `check --model`, --strict and the training have them alike.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "executor/run/run_config.h"
#include "schedlang/ask/session.h"
#include "tests/tools/prepared_run.h"
#include "tests/tools/tool_run.h"
#include "tools/io/json.h"

namespace stringline {
namespace {

struct LoweredCase {
  const char* schedule;
  const char* rest;  // sections of the run file
};

// Copies that sum, copies that also gather, and replicas in the pipes of one copy.
const LoweredCase kCases[] = {
    {"zb_h1", "mesh: {data: 2}"},
    {"zb_h1", "mesh: {data: 2}\nsharding: parameters"},
    {"dualpipe", ""},
    {"dualpipe", "mesh: {data: 2}"},
    {"dualpipe", "mesh: {data: 2}\nsharding: parameters"},
};

// The text without REDUCE_GRADs.
std::string WithoutSums(const std::string& plan) {
  std::vector<std::string> lines = absl::StrSplit(plan, '\n');
  for (std::string& line : lines) {
    std::vector<std::string> words = absl::StrSplit(line, ' ');
    const auto sums = [](const std::string& word) { return absl::EndsWith(word, "REDUCE_GRAD"); };
    words.erase(std::remove_if(words.begin(), words.end(), sums), words.end());
    line = absl::StrJoin(words, " ");
  }
  return absl::StrJoin(lines, "\n");
}

// The actions in the lines of ranks, sorted, without times.
std::vector<std::string> ActionsIn(const std::string& text) {
  std::vector<std::string> actions;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::StartsWith(line, "rank ")) continue;
    for (const absl::string_view word :
         absl::StrSplit(line.substr(line.find(':') + 1), absl::ByAnyChar(" &"))) {
      if (word.size() > 1) actions.emplace_back(word.substr(0, word.find('@')));
    }
  }
  std::sort(actions.begin(), actions.end());
  return actions;
}

TEST(RunLowered, TheProvenPlanRuns) {
  for (const LoweredCase& test : kCases) {
    SCOPED_TRACE(absl::StrCat(test.schedule, " ", test.rest));
    const std::string folder = PrepareRun("train:", absl::StrCat(test.rest, "\ntrain:"));
    const std::string schedule =
        ReadText(absl::StrCat(SourceFolder(), "/schedules/", test.schedule, ".sched"));
    WriteText(folder + "/s.sched", schedule);
    const auto losses = [&](const std::string& words) {
      const Answer answer = RunToolIn(folder, Words("run run.yaml --json --out made " + words));
      EXPECT_EQ(answer.status, 0) << answer.out << answer.err;
      return Json::parse(answer.out, nullptr, false)["losses"];
    };
    const Json expected = losses("");
    const Answer lowered = RunToolIn(folder, Words("plan s.sched P=2 M=4 --lowered"));
    ASSERT_EQ(lowered.status, 0) << lowered.err;
    WriteText(folder + "/s.plan", WithoutSums(lowered.out));
    const std::string run = ReadText(folder + "/run.yaml");
    WriteText(folder + "/run.yaml",
              absl::StrCat("schedule: {file: s.plan}\n", run.substr(run.find('\n') + 1)));
    EXPECT_EQ(losses(""), expected);
    EXPECT_EQ(losses("--strict"), expected);

    const auto config = ReadRunConfig(folder + "/run.yaml");
    ASSERT_TRUE(config.ok()) << config.status();
    const auto proven =
        OpenCheckedPlan({.file = folder + "/s.plan"},
                        {.layout = config->layout, .collectives = CollectivesOf(*config)});
    ASSERT_TRUE(proven.ok() && proven->plan) << proven.status();
    const std::string measured = ReadText(folder + "/made/measured.timeline");
    EXPECT_TRUE(absl::StrContains(measured, "REDUCE_GRAD@"));
    EXPECT_EQ(ActionsIn(measured), ActionsIn(Print(*proven->plan)));
    EXPECT_EQ(RunToolIn(folder, Words("check s.plan --model run.yaml")).status, 0);
  }
}

// A file that gathers some stages says so for all.
TEST(RunLowered, AGatherThatIsMissingIsFoundByTheCheck) {
  const std::string folder = PrepareRun("train:", "mesh: {data: 2}\nsharding: parameters\ntrain:");
  WriteText(folder + "/s.plan",
            "plan half P=2 M=1 lowered\nstages 0 1\n"
            "rank 0: 0UNSHARD 0F0 0SEND_F0 0RECV_B0 0B0 0RESHARD\n"
            "rank 1: 1RECV_F0 1F0 1B0 1SEND_B0\n");
  const std::string run = ReadText(folder + "/run.yaml");
  WriteText(folder + "/run.yaml",
            absl::StrCat("schedule: {file: s.plan}\n", run.substr(run.find('\n') + 1)));
  for (const char* const words : {"run run.yaml --out made", "run run.yaml --out made --strict",
                                  "check s.plan --model run.yaml"}) {
    const Answer answer = RunToolIn(folder, Words(words));
    EXPECT_EQ(answer.status, 1) << words << answer.out;
    EXPECT_TRUE(
        absl::StrContains(answer.out + answer.err, "1F0 finds the parameters of its stage sharded"))
        << words << ": " << answer.out << answer.err;
  }
}

}  // namespace
}  // namespace stringline
