// Suite files: their cases, and the messages about wrong files.
#include "tools/bench/suite_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <iostream>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/tools/tool_run.h"

namespace stringline {
namespace {

constexpr const char* kSuite =
    "models:\n"                                                // 1
    "  small: {layers: 4, width: 16, heads: 2, context: 8}\n"  // 2
    "  wide: {kind: llama, layers: 4, width: 32, heads: 2, hidden: 8, context: 8}\n"
    "schedules:\n"  // 4
    "  - {file: 1f1b, P: 2, M: 4}\n"
    "  - {file: own.sched, P: 2, M: 4}\n"
    "  - {file: 1f1b, P: 4, M: 4}\n"
    "data: {text: words.txt, microbatch: 2}\n"  // 8
    "meshes: [{}, {data: 2}]\n"
    "precision: [fp32, bf16]\n"
    "device: cpu\n"  // 11
    "steps: 7\n";

// The suite with `from` replaced by `to`.
absl::StatusOr<Suite> ReadChanged(const std::string& from, const std::string& to) {
  const std::string folder = ScratchFolder();
  const std::string text =
      from.empty() ? absl::StrCat(kSuite, to) : absl::StrReplaceAll(kSuite, {{from, to}});
  EXPECT_NE(text, from.empty() ? "" : kSuite) << from;
  WriteText(folder + "/words.txt", "some words");
  WriteText(folder + "/own.sched", ReadText(SourceFolder() + "/schedules/zb_h1.sched"));
  WriteText(folder + "/suite.yaml", text);
  return ReadSuite(folder + "/suite.yaml");
}

std::vector<std::string> NamesOf(const Suite& suite) {
  std::vector<std::string> names;
  for (const SuiteCase& of : suite.cases) names.push_back(of.name);
  return names;
}

TEST(SuiteFileTest, GivesEveryModelWithEverySchedule) {
  const auto suite = ReadChanged("", "");
  ASSERT_TRUE(suite.ok()) << suite.status();
  const std::vector<std::string> names = NamesOf(*suite);
  ASSERT_EQ(names.size(), 2u * 3 * 2 * 2);
  EXPECT_EQ(names[0], "small 1f1b P=2 M=4 fp32");
  EXPECT_EQ(names[1], "small 1f1b P=2 M=4 bf16");
  EXPECT_EQ(names[2], "small 1f1b P=2 M=4 data=2 fp32");
  EXPECT_EQ(names[4], "small own P=2 M=4 fp32");
  EXPECT_EQ(names[23], "wide 1f1b P=4 M=4 data=2 bf16");
  EXPECT_EQ(suite->steps, 7);
  EXPECT_EQ(suite->warm_up, 2);
  EXPECT_EQ(suite->repetitions, 5);
  EXPECT_FALSE(suite->beside_torch);
  const RunConfig& config = suite->cases[3].config;
  EXPECT_EQ(config.mesh.data, 2);
  EXPECT_EQ(config.shape.dtype, DType::kBF16);
  EXPECT_EQ(config.steps, 9);
  EXPECT_EQ(config.schedule_file, "1f1b");
  EXPECT_EQ(suite->cases[4].config.schedule_file, ScratchFolder() + "/own.sched");
}

// The run file of a case can be run from any folder, with the same contents.
TEST(SuiteFileTest, ACaseIsARunFile) {
  const auto suite = ReadChanged("", "");
  ASSERT_TRUE(suite.ok()) << suite.status();
  for (const SuiteCase& of : suite->cases) {
    const std::string file = ScratchFolder() + "/elsewhere/run.yaml";
    std::filesystem::create_directories(ScratchFolder() + "/elsewhere");
    WriteText(file, of.run_file);
    const auto config = ReadRunConfig(file);
    ASSERT_TRUE(config.ok()) << config.status() << "\n" << of.run_file;
    EXPECT_EQ(config->data.text, ScratchFolder() + "/words.txt");
    EXPECT_EQ(config->mesh.data, of.config.mesh.data);
    EXPECT_EQ(config->shape.dtype, of.config.shape.dtype);
    EXPECT_EQ(config->shape.width(), of.config.shape.width());
    EXPECT_EQ(config->steps, of.config.steps);
    EXPECT_EQ(config->final_rate, kSuiteLearningRate);
  }
}

TEST(SuiteFileTest, FiltersLeaveCasesOut) {
  const auto count = [](const char* filters) {
    const auto suite = ReadChanged("", filters);
    EXPECT_TRUE(suite.ok()) << suite.status();
    return suite.ok() ? suite->cases.size() : 0;
  };
  EXPECT_EQ(count("only: [{model: small}]\n"), 12u);
  EXPECT_EQ(count("only: [{model: small}, {precision: bf16}]\n"), 18u);
  EXPECT_EQ(count("without: [{model: small}, {precision: bf16}]\n"), 6u);
  EXPECT_EQ(count("without: [{schedule: 1f1b, mesh: {data: 2}}]\n"), 16u);
  EXPECT_EQ(count("without: [{schedule: 1f1b P=4 M=4}]\n"), 16u);
  EXPECT_EQ(count("only: [{mesh: {}}]\nwithout: [{schedule: own}]\n"), 8u);
  EXPECT_EQ(NamesOf(*ReadChanged("", "only: [{model: wide, schedule: own, precision: fp32}]\n")),
            (std::vector<std::string>{"wide own P=2 M=4 fp32", "wide own P=2 M=4 data=2 fp32"}));
}

TEST(SuiteFileTest, WhatIsWrongIsSaidWithItsLine) {
  const struct {
    const char* from;
    const char* to;
    const char* says;
  } kWrong[] = {
      // Its own keys
      {"steps: 7", "stepps: 7", "suite.yaml:12: unknown key 'stepps'; did you mean 'steps'?"},
      {"steps: 7", "steps: 0", "suite.yaml:12: steps: expected a number from 1 to 100000"},
      {"steps: 7", "steps: many", "suite.yaml:12: steps: expected a number"},
      {"steps: 7", "device: cpu", "suite.yaml:12: 'device' is given twice"},
      {"steps: 7", "beside: jax", "suite.yaml:12: beside: expected torch"},
      {"steps: 7", "only: [{modl: small}]",
       "suite.yaml:12: unknown key 'only.modl'; did you mean 'mod"},
      {"steps: 7", "only: [{model: big}]",
       "suite.yaml:12: only.model: 'big' is none of the suite's"},
      {"steps: 7", "without: [{schedule: zb}]",
       "suite.yaml:12: without.schedule: 'zb' is none of the suite's"},
      {"steps: 7", "without: [{mesh: {data: 3}}]",
       "suite.yaml:12: without.mesh: 'data=3' is none of the suite's"},
      {"steps: 7", "without: [{}]", "suite.yaml: only and without leave no case"},
      {"steps: 7", "only: small", "suite.yaml:12: only: expected a list"},
      {"data: {text: words.txt, microbatch: 2}\n", "", "suite.yaml: no 'data'"},
      {"file: own.sched, P: 2", "file: 1f1b, P: 2",
       "suite.yaml:6: schedules: 1f1b P=2 M=4 is there twice"},
      {"{}, {data: 2}", "{}, {}", "suite.yaml:9: meshes: {} is there twice"},
      {"file: own.sched, ", "", "suite.yaml:6: schedules: expected 'file'"},
      {"own.sched", "zb_w", "suite.yaml:6: schedules.file: there is no file"},
      {"own.sched", "zb_w", "did you mean 'zb_v'?"},
      // Keys of run files
      {"width: 16", "widht: 16", "suite.yaml:2: unknown key 'model.widht'; did you mean 'width'?"},
      {", width: 16", "", "suite.yaml:2: model.width is missing"},
      {"width: 32", "width: wide",
       "suite.yaml:3: model.width: expected a whole number, got 'wide'"},
      {"P: 4", "P: four", "suite.yaml:7: schedule.P: expected a whole number, got 'four'"},
      {"microbatch: 2", "microbatch: 0", "suite.yaml:8: data.microbatch: 0 is not in"},
      {"{data: 2}", "{date: 2}", "suite.yaml:9: unknown key 'mesh.date'; did you mean 'data'?"},
      {"bf16", "bf8", "suite.yaml:10: precision: expected fp32 or bf16, got 'bf8'"},
      {"device: cpu", "device: gpu",
       "suite.yaml:11: device: expected auto or cpu or cuda, got 'gpu'"},
      // No YAML
      {"models:\n", "models:\n\t- x\n", "suite.yaml:"},
      {"{}, {data: 2}", "{}, {data: 2", "suite.yaml:"},
  };
  for (const auto& wrong : kWrong) {
    const auto suite = ReadChanged(wrong.from, wrong.to);
    ASSERT_FALSE(suite.ok()) << wrong.to;
    EXPECT_NE(suite.status().message().find(wrong.says), absl::string_view::npos)
        << wrong.to << ": " << suite.status().message();
  }
}

// Any text is a suite or gives a message.
TEST(SuiteFileTest, MutatedSuitesNeverCrash) {
  constexpr char kInserted[] = "{}[]:,-#&*!|>'\"%@` \n\t";
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  ASSERT_TRUE(ReadChanged("", "only: [{mesh: {}}]\n").ok());
  const std::string text = ReadText(ScratchFolder() + "/suite.yaml");
  int right = 0;
  for (int i = 0; i < 400; ++i) {
    std::string mutated = text;
    for (int change = static_cast<int>(random() % 3); change >= 0; --change) {
      const size_t at = random() % mutated.size();
      if (random() % 2 == 0) {
        mutated[at] = kInserted[random() % (sizeof(kInserted) - 1)];
      } else {
        mutated.erase(at, 1 + random() % 6);
      }
    }
    WriteText(ScratchFolder() + "/mutated.yaml", mutated);
    const Answer answer = RunToolIn(ScratchFolder(), Words("bench mutated.yaml --list"));
    ASSERT_EQ(answer.status, answer.err.empty() ? 0 : 2) << "seed " << seed << "\n" << mutated;
    right += answer.status == 0 ? 1 : 0;
  }
  std::cout << "seed " << seed << ": " << right << " of 400 still are suites\n";
}

}  // namespace
}  // namespace stringline
