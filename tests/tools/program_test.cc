// `stringline program`: every stage's programs of a run file, and the printed text read back.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "executor/run/build_stages.h"
#include "schedlang/ask/session.h"
#include "stages/program_text.h"
#include "tests/tools/prepared_run.h"
#include "tests/tools/tool_run.h"
#include "tools/io/json.h"

namespace stringline {
namespace {

// The text holds the programs that a run of the same file performs.
TEST(ProgramCommand, PrintsTheProgramsOfARun) {
  const std::string folder = PrepareRun();
  const Answer printed = RunToolIn(folder, Words("program run.yaml"));
  ASSERT_EQ(printed.status, 0) << printed.err;
  const auto read = ReadStagePrograms(printed.out);
  ASSERT_TRUE(read.ok()) << read.status();
  const auto config = ReadRunConfig(folder + "/run.yaml");
  ASSERT_TRUE(config.ok()) << config.status();
  const auto session = OpenPlan({.file = config->schedule_file, .parameters = config->parameters});
  ASSERT_TRUE(session.ok() && session->plan) << session.status();
  const auto programs = BuildStages(*config, *session->plan);
  ASSERT_TRUE(programs.ok()) << programs.status();
  EXPECT_EQ(*read, *programs);
  EXPECT_TRUE(absl::StrContains(printed.out, "# stage 1 on rank 1; nodes: forward "));
}

TEST(ProgramCommand, ReadsItsTextBack) {
  const std::string folder = PrepareRun();
  ASSERT_EQ(RunToolIn(folder, Words("program run.yaml --out all.txt")).status, 0);
  const Answer again = RunToolIn(folder, Words("program all.txt"));
  ASSERT_EQ(again.status, 0) << again.err;
  const auto first = ReadStagePrograms(ReadText(folder + "/all.txt"));
  const auto second = ReadStagePrograms(again.out);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(*first, *second);
  EXPECT_EQ(first->size(), 2u);
  // A text that says something else is refused at its line.
  std::string text = ReadText(folder + "/all.txt");
  const size_t second_input = text.rfind("  input : ");
  text.insert(second_input, "  nonsense\n");
  const auto line =
      std::count(text.begin(), text.begin() + static_cast<int64_t>(second_input), '\n');
  WriteText(folder + "/all.txt", text);
  const Answer wrong = RunToolIn(folder, Words("program all.txt"));
  EXPECT_EQ(wrong.status, 2);
  EXPECT_TRUE(
      absl::StartsWith(wrong.err, absl::StrCat("stringline: all.txt: line ", line + 1, ":")))
      << wrong.err;
}

TEST(ProgramCommand, AStageIsNamedAsInThePlan) {
  const std::string folder = PrepareRun();
  WriteText(folder + "/s.sched", ReadText(SourceFolder() + "/schedules/dualpipe.sched"));
  const Answer one = RunToolIn(folder, Words("program run.yaml --stage up[1]"));
  EXPECT_EQ(one.status, 0) << one.err;
  EXPECT_TRUE(absl::StartsWith(one.out, "# stage up[1] on rank 0; ")) << one.out;
  const auto read = ReadStagePrograms(one.out);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->size(), 1u);
  EXPECT_TRUE(read->front().last);
  const Answer none = RunToolIn(folder, Words("program run.yaml --stage 7"));
  EXPECT_EQ(none.status, 2);
  EXPECT_EQ(none.err,
            "stringline: --stage: there is no stage '7'; there are down[0], down[1], up[0], "
            "up[1]\n");
}

TEST(ProgramCommand, AnswersWithTheSameAsJson) {
  const std::string folder = PrepareRun();
  const Answer answer = RunToolIn(folder, Words("program run.yaml --json"));
  ASSERT_EQ(answer.status, 0);
  const Json json = Json::parse(answer.out, nullptr, false);
  ASSERT_EQ(json["programs"].size(), 2u);
  for (const Json& program : json["programs"]) {
    const auto read = ReadStageProgram(program["text"].get<std::string>());
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(program["first"], read->first);
    EXPECT_EQ(program["params"].size(), read->params.size());
    EXPECT_EQ(program["saved"].size(), read->saved.size());
    EXPECT_EQ(program["forward"]["nodes"].size(), read->forward.nodes.size());
    EXPECT_EQ(program["backward"]["inputs"].size(), read->backward.inputs.size());
    EXPECT_EQ(program["input_gradient"]["outputs"].size(), read->input_gradient.outputs.size());
    EXPECT_EQ(program["weight_gradient"]["nodes"].size(), read->weight_gradient.nodes.size());
  }
}

// A file that is asked for is written beside the JSON.
TEST(ProgramCommand, WritesItsFileWithJson) {
  const std::string folder = PrepareRun();
  const Answer answer = RunToolIn(folder, Words("program run.yaml --out all.txt --json"));
  ASSERT_EQ(answer.status, 0) << answer.out;
  EXPECT_EQ(Json::parse(answer.out, nullptr, false)["programs"].size(), 2u);
  EXPECT_EQ(ReadText(folder + "/all.txt"), RunToolIn(folder, Words("program run.yaml")).out);
  const Answer refused = RunToolIn(folder, Words("program run.yaml --out run.yaml/all.txt --json"));
  EXPECT_EQ(refused.status, 2);
  EXPECT_EQ(Json::parse(refused.out, nullptr, false)["ok"], false);
}

TEST(ProgramCommand, AWrongScheduleIsAFinding) {
  const std::string folder = PrepareRun();
  WriteText(folder + "/s.sched", "schedule s(P, M) { stages P on line; rank r { G r; } }\n");
  const Answer answer = RunToolIn(folder, Words("program run.yaml"));
  EXPECT_EQ(answer.status, 1);
  EXPECT_TRUE(absl::StrContains(answer.err, "s.sched:1:")) << answer.err;
  EXPECT_EQ(answer.out, "");
}

}  // namespace
}  // namespace stringline
