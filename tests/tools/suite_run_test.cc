// `stringline bench` with runs of its own: so as a process, which can start itself.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "tests/tools/tool_process.h"
#include "tests/tools/tool_run.h"
#include "tools/bench/child_program.h"

namespace stringline {
namespace {

namespace fs = std::filesystem;

// A suite of two cases, and a third that cannot be run, in its own folder.
std::string PrepareSuite(const std::string& more = "repetitions: 2\nsteps: 2\nwarm_up: 1\n") {
  const std::string folder = ScratchFolder();
  std::string words;
  for (int i = 0; i < 200; ++i) absl::StrAppend(&words, "the ", i % 7, "th of ", i % 5, " words\n");
  WriteText(folder + "/words.txt", words);
  WriteText(folder + "/suite.yaml",
            "models: {tiny: {layers: 2, width: 16, heads: 2, context: 8}}\n"
            "schedules: [{file: 1f1b, P: 2, M: 4}, {file: zb_h1, P: 2, M: 4},\n"
            "            {file: 1f1b, P: 3, M: 4}]\n"
            "data: {text: words.txt, microbatch: 2}\ndevice: cpu\n" +
                more);
  return folder;
}

Answer RunBenchIn(const std::string& folder, const std::string& line) {
  return ToolProcess(folder, Words("bench " + line)).Wait();
}

TEST(SuiteRunTest, MeasuresEveryCaseOnce) {
  const std::string folder = PrepareSuite();
  const Answer first = RunBenchIn(folder, "suite.yaml --json");
  ASSERT_EQ(first.status, 0) << first.out << first.err;
  const auto json = nlohmann::json::parse(first.out);
  EXPECT_EQ(json["measured"], 4);
  EXPECT_EQ(json["kept"], 0);
  EXPECT_EQ(json["file"], "out/bench/suite.json");
  ASSERT_EQ(json["cases"].size(), 3u);
  for (const int i : {0, 1}) {
    const auto& of = json["cases"][i];
    EXPECT_TRUE(of["reason"].is_null());
    EXPECT_EQ(of["side"], "stringline");
    EXPECT_EQ(of["tokens_per_step"], 4 * 2 * 8);
    ASSERT_EQ(of["repetitions"].size(), 2u);
    EXPECT_EQ(of["repetitions"][1]["step_us"].size(), 2u);
    EXPECT_GT(of["summary"]["step_us"], 0);
    EXPECT_GT(of["summary"]["processor_us"], 0);
    EXPECT_GT(of["summary"]["resident_bytes"], 1 << 20);
    EXPECT_GT(of["summary"]["allocated_bytes"], 1 << 10);
    EXPECT_GT(of["summary"]["measured_bubble"], 0);
    // The same training with either schedule.
    EXPECT_EQ(of["summary"]["loss"], json["cases"][0]["summary"]["loss"]);
    EXPECT_GT(of["repetitions"][0]["control"]["speed"], 0);
  }
  EXPECT_EQ(json["cases"][2]["reason"], "cannot split 2 layers into 3 stages");
  EXPECT_TRUE(json["cases"][2]["repetitions"].empty());

  const std::string file = ReadText(folder + "/out/bench/suite.json");
  const auto second = nlohmann::json::parse(RunBenchIn(folder, "suite.yaml --json").out);
  EXPECT_EQ(second["measured"], 0);
  EXPECT_EQ(second["kept"], 4);
  EXPECT_EQ(ReadText(folder + "/out/bench/suite.json"), file);

  // More repetitions are added to those; other steps are other cases.
  PrepareSuite("repetitions: 3\nsteps: 2\nwarm_up: 1\n");
  const auto third = nlohmann::json::parse(RunBenchIn(folder, "suite.yaml --json").out);
  EXPECT_EQ(third["measured"], 2);
  EXPECT_EQ(third["kept"], 4);
  PrepareSuite("repetitions: 1\nsteps: 3\nwarm_up: 1\n");
  const auto fourth = nlohmann::json::parse(RunBenchIn(folder, "suite.yaml --json").out);
  EXPECT_EQ(fourth["measured"], 2);
  EXPECT_EQ(fourth["kept"], 0);
}

// Existing results are never lost unless the user asks for it.
TEST(SuiteRunTest, ResultsOfOthersAreKept) {
  const std::string folder = PrepareSuite("repetitions: 1\nsteps: 1\nwarm_up: 1\n");
  ASSERT_EQ(RunBenchIn(folder, "suite.yaml --out r.json").status, 0);
  const std::string text = ReadText(folder + "/r.json");
  auto other = nlohmann::ordered_json::parse(text);
  other["versions"]["build"] = "another";
  WriteText(folder + "/r.json", other.dump());
  Answer answer = RunBenchIn(folder, "suite.yaml --out r.json");
  EXPECT_EQ(answer.status, 2);
  EXPECT_NE(answer.err.find("holds results of another build of stringline"), std::string::npos)
      << answer.err;
  WriteText(folder + "/r.json", text.substr(0, text.size() / 2));
  answer = RunBenchIn(folder, "suite.yaml --out r.json");
  EXPECT_EQ(answer.status, 2);
  EXPECT_NE(answer.err.find("it is cut short"), std::string::npos) << answer.err;
  EXPECT_EQ(ReadText(folder + "/r.json").size(), text.size() / 2);
  EXPECT_EQ(RunBenchIn(folder, "suite.yaml --out r.json --again").status, 0);
}

TEST(SuiteRunTest, CtrlCLeavesWhatIsDone) {
  const std::string folder = PrepareSuite("repetitions: 1000\nsteps: 1\nwarm_up: 1\n");
  const std::string file = folder + "/stopped.json";
  fs::remove(file);
  ToolProcess bench(folder, Words("bench suite.yaml --out stopped.json"));
  ASSERT_TRUE(bench.WaitUntil([&] { return fs::exists(file); }));
  bench.Signal(SIGINT);
  const Answer answer = bench.Wait();
  EXPECT_EQ(answer.status, 130) << answer.out << answer.err;
  EXPECT_NE(answer.out.find("stopped by SIGINT"), std::string::npos) << answer.out;
  const auto json = nlohmann::json::parse(ReadText(file));
  EXPECT_GE(json["cases"][0]["repetitions"].size(), 1u);
}

TEST(SuiteRunTest, ListsItsCases) {
  const std::string folder = PrepareSuite();
  const Answer answer = RunToolIn(folder, Words("bench suite.yaml --list"));
  EXPECT_EQ(answer.status, 0);
  EXPECT_EQ(answer.out,
            "tiny 1f1b P=2 M=4 fp32\n"
            "tiny zb_h1 P=2 M=4 fp32\n"
            "tiny 1f1b P=3 M=4 fp32: cannot be run: cannot split 2 layers into 3 stages\n");
  EXPECT_FALSE(fs::exists(folder + "/out/bench/suite.json.tmp"));
}

// A failure of a run is a reason in the results, too: other cases go on.
TEST(SuiteRunTest, ARunThatFailsIsARow) {
  const std::string folder = PrepareSuite("repetitions: 1\nsteps: 1\nwarm_up: 1\n");
  WriteText(folder + "/words.txt", "short");
  const Answer answer = RunBenchIn(folder, "suite.yaml --out failed.json");
  EXPECT_EQ(answer.status, 0) << answer.err;
  const auto json = nlohmann::json::parse(ReadText(folder + "/failed.json"));
  EXPECT_NE(json["cases"][0]["reason"].get<std::string>().find("words.txt"), std::string::npos);
  fs::remove(folder + "/words.txt");
  const Answer missing = RunBenchIn(folder, "suite.yaml --out failed.json");
  EXPECT_EQ(missing.status, 2);
  EXPECT_NE(missing.err.find("words.txt cannot be read"), std::string::npos) << missing.err;
}

// The measuring programs: each ends in its own way, and leaves nothing behind.
TEST(ChildProgramTest, EndsWhateverItDoes) {
  const auto never = [] { return false; };
  const auto ended =
      RunProgram({"sh", "-c", "echo out; echo err >&2; sleep 1000 & exit 3"}, 60, never);
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_EQ(ended->status, 3);
  EXPECT_EQ(ended->out, "out\n");
  EXPECT_EQ(ended->err, "err\n");
  const auto killed = RunProgram({"sh", "-c", "kill -9 $$"}, 60, never);
  EXPECT_EQ(killed->status, 128 + SIGKILL);
  EXPECT_EQ(RunProgram({"/no/such/program"}, 60, never)->status, 127);
  EXPECT_TRUE(absl::IsDeadlineExceeded(RunProgram({"sleep", "1000"}, 1, never).status()));
  EXPECT_TRUE(absl::IsCancelled(RunProgram({"sleep", "1000"}, 60, [] { return true; }).status()));
}

}  // namespace
}  // namespace stringline
