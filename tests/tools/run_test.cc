// `stringline run`: a small training run from its files to its files, and bad ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/tools/tool_run.h"

namespace stringline {
namespace {

constexpr const char* kRunFile =
    "schedule: {file: s.sched, P: 2, M: 4}\n"
    "model: {layers: 2, width: 16, heads: 2, context: 8}\n"
    "data: {text: words.txt, microbatch: 2}\n"
    "train: {steps: 6, learning_rate: 1e-2}\n";

// A folder with a schedule, a text and a run file in which `from` is replaced by `to`.
std::string Prepare(const std::string& from = "", const std::string& to = "") {
  const std::string folder = ScratchFolder();
  WriteText(folder + "/s.sched", ReadText(SourceFolder() + "/schedules/zb_h1.sched"));
  std::string words;
  for (int i = 0; i < 200; ++i) absl::StrAppend(&words, "the ", i % 7, "th of ", i % 5, " words\n");
  WriteText(folder + "/words.txt", words);
  const std::string text = from.empty() ? kRunFile : absl::StrReplaceAll(kRunFile, {{from, to}});
  EXPECT_TRUE(from.empty() || text != kRunFile) << from;
  WriteText(folder + "/run.yaml", text);
  return folder;
}

TEST(RunTest, TrainsAndLeavesFilesThatAreRead) {
  const std::string folder = Prepare();
  const Answer answer = RunToolIn(folder, Words("run run.yaml --out made/here --json"));
  ASSERT_EQ(answer.status, 0) << answer.out << answer.err;
  EXPECT_EQ(answer.err, "");
  const auto json = nlohmann::json::parse(answer.out, nullptr, false);
  ASSERT_TRUE(json.is_object()) << answer.out;
  EXPECT_EQ(json["schedule"], "zb_h1");
  EXPECT_EQ(json["steps"], 6);
  EXPECT_EQ(json["tokens_per_step"], 4 * 2 * 8);
  EXPECT_LT(json["final_loss_nats"], json["first_loss_nats"]);
  EXPECT_GT(json["measured_us"], 0);
  EXPECT_GT(json["simulated_us"], 0);
  ASSERT_EQ(json["files"].size(), 4u);
  for (const auto& file : json["files"]) {
    EXPECT_TRUE(std::filesystem::exists(folder + "/" + file.get<std::string>())) << file;
  }
  EXPECT_EQ(RunToolIn(folder, Words("show made/here/measured.timeline")).status, 0);
  const Answer sim =
      RunToolIn(folder, Words("sim s.sched P=2 M=4 --costs made/here/costs.yaml --json"));
  ASSERT_EQ(sim.status, 0) << sim.out;
  EXPECT_EQ(nlohmann::json::parse(sim.out)["makespan_us"], json["simulated_us"]);
  const std::string losses = ReadText(folder + "/made/here/losses.csv");
  EXPECT_EQ(std::count(losses.begin(), losses.end(), '\n'), 7);
}

TEST(RunTest, SaysWhatHappens) {
  const std::string folder = Prepare();
  const Answer answer = RunToolIn(folder, Words("run run.yaml --out made --steps 2"));
  ASSERT_EQ(answer.status, 0) << answer.out << answer.err;
  for (const char* const words :
       {"one byte back", "step 1/2 ", "step 2/2 ", "tokens/s", "predicted ", "made/costs.yaml"}) {
    EXPECT_NE(answer.out.find(words), std::string::npos) << words << "\n" << answer.out;
  }
}

TEST(RunTest, LossesAreTheSameEveryTime) {
  std::string losses[2];
  for (std::string& text : losses) {
    const std::string folder = Prepare();
    ASSERT_EQ(RunToolIn(folder, Words("run run.yaml --out made")).status, 0);
    text = ReadText(folder + "/made/losses.csv");
  }
  EXPECT_EQ(losses[0], losses[1]);
}

struct BadRun {
  const char* from;  // in the run file
  const char* to;
  int status;
  const char* says;
};

const BadRun kBadRuns[] = {
    {"steps: 6", "steps: six", 2, "run.yaml:4: "},
    {"steps: 6", "steps: [6]", 2, "train.steps"},
    {"steps: 6", "steps: -1", 2, "train.steps"},
    {"steps: 6", "stebs: 6", 2, "did you mean 'steps'"},
    {"steps: 6, ", "", 2, "steps"},
    {"train:", "trains:", 2, "did you mean 'train'"},
    {"width: 16", "width: 17", 2, "heads"},
    {"layers: 2", "layers: 1", 2, "layers"},
    {"context: 8", "context: 99999999999999999999", 2, "context"},
    {"context: 8", "context: 1000000", 2, "words.txt"},
    {"words.txt", "missing.txt", 2, "missing.txt"},
    {"words.txt", ".", 2, "directory"},
    {"s.sched", "missing.sched", 2, "missing.sched"},
    {"P: 2", "P: two", 2, "schedule.P"},
    {"P: 2, ", "", 1, "s.sched"},
    {"M: 4", "M: 4, V: 2", 1, "V"},
    {"}\n", "\n", 2, "run.yaml"},
};

TEST(RunTest, BadRunFilesGiveOneMessage) {
  for (const BadRun& bad : kBadRuns) {
    const std::string folder = Prepare(bad.from, bad.to);
    for (const char* const json : {"", " --json"}) {
      const Answer answer =
          RunToolIn(folder, Words(absl::StrCat("run run.yaml --out never", json)));
      EXPECT_EQ(answer.status, bad.status) << bad.to << "\n" << answer.out << answer.err;
      const std::string text = answer.out + answer.err;
      EXPECT_NE(text.find(bad.says), std::string::npos) << bad.to << "\n" << text;
      if (*json != '\0') {
        EXPECT_EQ(nlohmann::json::parse(answer.out, nullptr, false)["ok"], false) << bad.to;
      }
    }
    EXPECT_FALSE(std::filesystem::exists(folder + "/never/measured.timeline")) << bad.to;
  }
}

TEST(RunTest, AFolderThatCannotBeIsSaidBeforeTraining) {
  const std::string folder = Prepare();
  const Answer answer = RunToolIn(folder, Words("run run.yaml --out words.txt/inside"));
  EXPECT_EQ(answer.status, 2);
  EXPECT_NE(answer.err.find("words.txt/inside"), std::string::npos) << answer.err;
  EXPECT_EQ(answer.out, "");
}

}  // namespace
}  // namespace stringline
