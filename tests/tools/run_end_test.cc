// Ends of training runs: whole, by a signal, at a full disk; the saved parameters, and the files
// left then.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "executor/checkpoint/tensor_file.h"
#include "tests/tools/prepared_run.h"
#include "tests/tools/tool_process.h"
#include "tests/tools/tool_run.h"

namespace stringline {
namespace {

namespace fs = std::filesystem;

class RunEnd : public testing::Test {
 protected:
  RunEnd() {
    fs::remove_all(folder_ + "/made");
    fs::remove_all(folder_ + "/kept");
  }

  bool Exists(const std::string& name) const { return fs::exists(folder_ + "/" + name); }
  size_t CountLines(const std::string& name) const {
    if (!Exists(name)) return 0;
    const std::string text = ReadText(folder_ + "/" + name);
    return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
  }
  std::vector<std::string> FilesIn(const std::string& name) const {
    std::vector<std::string> names;
    if (!Exists(name)) return names;
    for (const auto& entry : fs::directory_iterator(folder_ + "/" + name)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  // The tool under a limit on the size of files, in blocks of 512 bytes.
  Answer RunWithFileLimit(int blocks, const std::string& args) const {
    const std::string line = absl::StrCat("cd '", folder_, "' && ulimit -f ", blocks, " && '",
                                          STRINGLINE_TOOL, "' ", args, " 2>&1 > /dev/null");
    FILE* const said = popen(line.c_str(), "r");
    Answer answer;
    char piece[256];
    while (fgets(piece, sizeof(piece), said) != nullptr) answer.err += piece;
    const int status = pclose(said);
    answer.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return answer;
  }

  const std::string folder_ = PrepareRun();
};

using Names = std::vector<std::string>;
const Names kResultNames = {"costs.yaml", "losses.csv", "measured.timeline", "simulated.timeline"};
const std::string kModel = "kept/model.safetensors";

TEST_F(RunEnd, SavesWhatAnotherScheduleLoads) {
  const Answer saved = RunToolIn(folder_, Words("run run.yaml --out made --save kept --json"));
  ASSERT_EQ(saved.status, 0) << saved.out << saved.err;
  EXPECT_EQ(nlohmann::json::parse(saved.out)["saved"], nlohmann::json({kModel}));
  EXPECT_EQ(FilesIn("kept"), Names({"config.json", "model.safetensors"}));
  PrepareRun("{file: s.sched, P: 2, M: 4}", "{file: s.sched, P: 1, M: 4}");
  const Answer loaded = RunToolIn(folder_, Words("run run.yaml --out made --load kept --json"));
  ASSERT_EQ(loaded.status, 0) << loaded.out << loaded.err;
  EXPECT_LT(nlohmann::json::parse(loaded.out)["first_loss_nats"],
            nlohmann::json::parse(saved.out)["first_loss_nats"]);
  PrepareRun("layers: 2", "layers: 4");
  const Answer other = RunToolIn(folder_, Words("run run.yaml --out made --load kept"));
  EXPECT_EQ(other.status, 2);
  EXPECT_EQ(
      other.err,
      "stringline: kept/config.json: the parameters of a model with layers '2'; the run file's "
      "has 4\n");
  EXPECT_EQ(other.out, "");
  // A run that never began leaves the files of the last run.
  EXPECT_EQ(FilesIn("made"), kResultNames);
}

// A run file can name the folder that a run saved.
TEST_F(RunEnd, ARunBeginsWithTheModelOfAFolder) {
  const Answer saved = RunToolIn(folder_, Words("run run.yaml --out made --save kept --json"));
  ASSERT_EQ(saved.status, 0) << saved.out << saved.err;
  const std::string weights = ReadText(folder_ + "/" + kModel);
  PrepareRun("{layers: 2, width: 16, heads: 2, context: 8}", "{folder: kept}");
  const Answer loaded = RunToolIn(folder_, Words("run run.yaml --out made --json"));
  ASSERT_EQ(loaded.status, 0) << loaded.out << loaded.err;
  const auto first = nlohmann::json::parse(saved.out), second = nlohmann::json::parse(loaded.out);
  EXPECT_EQ(second["params"], first["params"]);
  EXPECT_LT(second["first_loss_nats"], first["first_loss_nats"]);
  PrepareRun("{layers: 2, width: 16, heads: 2, context: 8}", "{folder: kept, width: 16}");
  const Answer both = RunToolIn(folder_, Words("run run.yaml --out made"));
  EXPECT_EQ(both.status, 2);
  EXPECT_EQ(both.err, "stringline: run.yaml:2: unknown key 'model.width'\n");
  PrepareRun("{layers: 2, width: 16, heads: 2, context: 8}", "{folder: kept, context: 9}");
  const Answer longer = RunToolIn(folder_, Words("run run.yaml --out made"));
  EXPECT_EQ(longer.status, 2);
  EXPECT_EQ(longer.err,
            "stringline: kept/config.json: 'n_positions' is 8: fewer than the 9 tokens of "
            "model.context\n");
}

struct StopCase {
  int signal;
  const char* name;
  int status;
  const char* json;
};

// The run would take years.
TEST_F(RunEnd, ASignalEndsTheRunAfterTheStepUnderWay) {
  const StopCase stops[] = {{SIGINT, "SIGINT", 130, ""}, {SIGTERM, "SIGTERM", 143, " --json"}};
  for (const StopCase& stop : stops) {
    fs::remove_all(folder_ + "/made");
    ToolProcess run(
        folder_,
        Words(absl::StrCat("run run.yaml --steps 1000000000 --out made --save kept", stop.json)));
    ASSERT_TRUE(run.WaitUntil([&] { return CountLines("made/losses.csv.part") > 3; }));
    run.Signal(stop.signal);
    const Answer answer = run.Wait();
    ASSERT_EQ(answer.status, stop.status) << answer.out << answer.err;
    EXPECT_EQ(answer.err, "");
    EXPECT_EQ(FilesIn("made"), Names{"losses.csv.part"});
    EXPECT_EQ(FilesIn("kept"), Names({"config.json", "model.safetensors"}));
    const auto file = TensorFile::Open(folder_ + "/" + kModel);
    ASSERT_TRUE(file.ok()) << file.status();
    const std::string steps = file->header().metadata.at("steps");
    EXPECT_EQ(CountLines("made/losses.csv.part"), std::stoul(steps) + 1);
    const std::string says =
        absl::StrCat("stopped by ", stop.name, " after step ", steps, " of 1000000000");
    EXPECT_TRUE(absl::StrContains(answer.out, says)) << answer.out;
    if (*stop.json == '\0') continue;
    const auto json = nlohmann::json::parse(answer.out, nullptr, false);
    EXPECT_EQ(json["ok"], false);
    EXPECT_EQ(json["error"], says);
    EXPECT_EQ(json["stopped"]["signal"], stop.name);
    EXPECT_EQ(absl::StrCat(json["stopped"]["step"].get<int64_t>()), steps);
    EXPECT_EQ(json["saved"], nlohmann::json({kModel}));
    EXPECT_EQ(json["files"], nlohmann::json({"made/losses.csv.part"}));
  }
}

// The bits of a line like "SigBlk: 0000000000004002" of a thread.
uint64_t SignalsOf(const std::string& status, const std::string& key) {
  const size_t at = status.find(key);
  EXPECT_NE(at, std::string::npos) << key;
  return std::stoull(status.substr(at + key.size()), nullptr, 16);
}

// A signal handler would run on the stack of the interrupted thread, and the stack pointer of a
// thread that multiplies matrices may be anywhere: the heap was corrupted in two of a hundred runs.
TEST_F(RunEnd, NoThreadIsInterruptedByASignal) {
  ToolProcess run(folder_, Words("run run.yaml --steps 1000000000 --out made"));
  ASSERT_TRUE(run.WaitUntil([&] { return CountLines("made/losses.csv.part") > 3; }));
  constexpr uint64_t kStops =
      uint64_t{1} << (SIGINT - 1) | uint64_t{1} << (SIGTERM - 1) | uint64_t{1} << (SIGHUP - 1);
  int waits = 0;  // threads in sigwait: these signals count as not blocked there
  int threads = 0;
  for (const auto& thread : fs::directory_iterator(absl::StrCat("/proc/", run.id(), "/task"))) {
    const std::string status = ReadText(thread.path().string() + "/status");
    waits += (SignalsOf(status, "SigBlk:") & kStops) == kStops ? 0 : 1;
    EXPECT_EQ(SignalsOf(status, "SigCgt:") & kStops, 0u) << status;
    ++threads;
  }
  EXPECT_LE(waits, 1);
  EXPECT_GE(threads, 3);
  run.Signal(SIGTERM);
  EXPECT_EQ(run.Wait().status, 143);
}

TEST_F(RunEnd, SignalsDoWhatTheyDidAfterARun) {
  constexpr int kNumbers[] = {SIGINT, SIGTERM};
  struct sigaction before[2] = {}, after[2] = {};
  for (int i = 0; i < 2; ++i) ASSERT_EQ(sigaction(kNumbers[i], nullptr, &before[i]), 0);
  ASSERT_EQ(RunToolIn(folder_, Words("run run.yaml --out made --steps 2")).status, 0);
  sigset_t blocked;
  ASSERT_EQ(pthread_sigmask(SIG_SETMASK, nullptr, &blocked), 0);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(sigismember(&blocked, kNumbers[i]), 0);
    ASSERT_EQ(sigaction(kNumbers[i], nullptr, &after[i]), 0);
    EXPECT_EQ(after[i].sa_handler, before[i].sa_handler);
  }
}

// Steps of many minutes: the first signal waits for the end of a step.
TEST_F(RunEnd, ASecondSignalEndsItAtOnce) {
  PrepareRun("M: 4}\nmodel: {layers: 2, width: 16, heads: 2, context: 8}",
             "M: 1000}\nmodel: {layers: 2, width: 256, heads: 2, context: 512}");
  ToolProcess run(folder_, Words("run run.yaml --out made --save kept"));
  ASSERT_TRUE(run.WaitUntil([&] { return Exists("made/losses.csv.part"); }));
  run.Signal(SIGINT);
  run.Signal(SIGTERM);
  const int status = run.Wait().status;
  EXPECT_TRUE(status == -SIGINT || status == -SIGTERM) << status;
  EXPECT_FALSE(Exists("made/losses.csv"));
  EXPECT_FALSE(Exists(kModel));
}

// The text is shorter than the context, so the run ends before its first step.
TEST_F(RunEnd, ARunThatNeverBeganLeavesNothing) {
  WriteText(folder_ + "/short.txt", "short");
  const Answer answer =
      RunToolIn(folder_, Words("run run.yaml --text short.txt --out new/made --save new/kept"));
  EXPECT_EQ(answer.status, 2) << answer.err;
  EXPECT_FALSE(Exists("new")) << answer.err;
  // The files of an earlier run stay, and no other file is added.
  ASSERT_EQ(RunToolIn(folder_, Words("run run.yaml --out made")).status, 0);
  const Answer again = RunToolIn(folder_, Words("run run.yaml --load missing --out made"));
  EXPECT_EQ(again.status, 2) << again.err;
  EXPECT_FALSE(Exists("made/losses.csv.part"));
  EXPECT_TRUE(Exists("made/losses.csv"));
}

// The refusal comes before any action is made.
TEST_F(RunEnd, MicrobatchesThatAreTooManyAreRefused) {
  PrepareRun("M: 4}", "M: 10000000}");
  const Answer answer = RunToolIn(folder_, Words("run run.yaml --out made"));
  EXPECT_EQ(answer.status, 1);
  EXPECT_NE(answer.err.find("actions, more than 16777216; on so many stages a step has at most "),
            std::string::npos)
      << answer.err;
  EXPECT_FALSE(Exists("made"));
}

TEST_F(RunEnd, AFullDiskEndsTheRunAndIsSaid) {
  ASSERT_EQ(RunToolIn(folder_, Words("run run.yaml --out made")).status, 0);
  ASSERT_EQ(FilesIn("made"), kResultNames);
  const Answer answer = RunWithFileLimit(1, "run run.yaml --steps 1000000 --out made --save kept");
  EXPECT_EQ(answer.status, 2) << answer.err;
  const size_t lines = CountLines("made/losses.csv.part");
  ASSERT_GT(lines, 2u);
  // The last line may be incomplete.
  const std::string says = absl::StrCat(
      "stringline: made/losses.csv.part: cannot be written: File too large; made/losses.csv.part "
      "holds the losses of ",
      lines - 1, " steps; no parameters are saved\n");
  EXPECT_EQ(answer.err, says);
  // The results of the run before are kept under names that set them apart.
  EXPECT_EQ(FilesIn("made"), (Names{"costs.yaml.old", "losses.csv.old", "losses.csv.part",
                                    "measured.timeline.old", "simulated.timeline.old"}));
  EXPECT_EQ(FilesIn("kept"), Names{});
  ASSERT_EQ(RunToolIn(folder_, Words("run run.yaml --out made")).status, 0);
  EXPECT_EQ(FilesIn("made"), kResultNames);
}

TEST_F(RunEnd, ParametersThatDoNotFitTheDiskLeaveTheEarlierOnes) {
  ASSERT_EQ(RunToolIn(folder_, Words("run run.yaml --out made --save kept")).status, 0);
  const std::string earlier = ReadText(folder_ + "/" + kModel);
  const Answer answer = RunWithFileLimit(16, "run run.yaml --out made --save kept");
  EXPECT_EQ(answer.status, 2) << answer.err;
  EXPECT_EQ(answer.err,
            "stringline: kept/model.safetensors: cannot be written: File too large; "
            "made/losses.csv.part holds the losses of 6 steps; no parameters are saved, "
            "kept/model.safetensors is as it was before\n");
  EXPECT_EQ(ReadText(folder_ + "/" + kModel), earlier);
  EXPECT_EQ(FilesIn("kept"), Names({"config.json", "model.safetensors"}));
  EXPECT_FALSE(Exists("made/losses.csv"));
}

// Every step makes the weights a hundred times larger.
TEST_F(RunEnd, NumbersThatAreNoneAreNotSaved) {
  ASSERT_EQ(RunToolIn(folder_, Words("run run.yaml --out made --save kept")).status, 0);
  const std::string earlier = ReadText(folder_ + "/" + kModel);
  PrepareRun("learning_rate: 1e-2", "learning_rate: 10, weight_decay: 10, clip_norm: 0");
  const Answer answer =
      RunToolIn(folder_, Words("run run.yaml --steps 1000 --out made --save kept --json"));
  EXPECT_EQ(answer.status, 2) << answer.out;
  const auto json = nlohmann::json::parse(answer.out, nullptr, false);
  const std::string error = json["error"];
  const size_t steps = CountLines("made/losses.csv.part") - 1;
  EXPECT_GT(steps, 0u);
  EXPECT_EQ(error.find(absl::StrCat("step ", steps + 1, ": the ")), 0u) << error;
  const std::string end =
      absl::StrCat("; try a lower learning rate; made/losses.csv.part holds the losses of ", steps,
                   " steps; no parameters are saved, kept/model.safetensors is as it was before");
  EXPECT_TRUE(absl::EndsWith(error, end)) << error;
  EXPECT_EQ(ReadText(folder_ + "/" + kModel), earlier);
  EXPECT_FALSE(Exists("made/losses.csv"));
}

TEST_F(RunEnd, ADiskThatTakesNothingIsSaidBeforeTraining) {
  const Answer answer = RunWithFileLimit(0, "run run.yaml --out made");
  EXPECT_EQ(answer.status, 2) << answer.err;
  EXPECT_TRUE(absl::StrContains(answer.err, "nothing can be written into the folder made"))
      << answer.err;
  EXPECT_EQ(FilesIn("made"), Names{});
}

}  // namespace
}  // namespace stringline
