// `stringline run --processes N`: ranks in processes of this host train as in a single process.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/tools/prepared_run.h"
#include "tests/tools/tool_process.h"
#include "tests/tools/tool_run.h"
#include "tools/gpu/processes.h"

namespace stringline {
namespace {

Answer RunProcesses(const std::string& folder, const std::string& options) {
  ToolProcess process(folder, Words(absl::StrCat("run run.yaml ", options)));
  return process.Wait();
}

TEST(RunProcesses, TrainAsOneDoesBitForBit) {
  const std::string folder = PrepareRun("train:", "device: cpu\ntrain:");
  const Answer one = RunProcesses(folder, "--out one --save saved_one");
  ASSERT_EQ(one.status, 0) << one.err;
  const Answer two = RunProcesses(folder, "--out two --save saved_two --processes 2");
  ASSERT_EQ(two.status, 0) << two.err;
  EXPECT_EQ(ReadText(folder + "/two/losses.csv"), ReadText(folder + "/one/losses.csv"));
  const std::string saved = ReadText(folder + "/saved_one/model.safetensors");
  EXPECT_FALSE(saved.empty());
  EXPECT_TRUE(ReadText(folder + "/saved_two/model.safetensors") == saved);
  // The output equals the output of a single process, but for times.
  EXPECT_EQ(two.out.substr(0, two.out.find("step ")), one.out.substr(0, one.out.find("step ")));
  EXPECT_EQ(two.err, "");
}

TEST(RunProcesses, CopiesThatShareOutTheirStateTrainAsWholeOnesDo) {
  std::string losses, saved;
  for (const char* const sharding : {"none", "optimizer", "gradients", "parameters"}) {
    SCOPED_TRACE(sharding);
    const std::string folder = PrepareRun(
        "train:", absl::StrCat("device: cpu\nmesh: {data: 2}\nbucket: 4KiB\nsharding: ", sharding,
                               "\ntrain:"));
    const Answer run = RunProcesses(
        folder, absl::StrCat("--out made --save saved", losses.empty() ? "" : " --processes 4"));
    ASSERT_EQ(run.status, 0) << run.err;
    if (losses.empty()) {
      losses = ReadText(folder + "/made/losses.csv");
      saved = ReadText(folder + "/saved/model.safetensors");
      ASSERT_FALSE(losses.empty() || saved.empty());
    }
    EXPECT_EQ(ReadText(folder + "/made/losses.csv"), losses);
    EXPECT_TRUE(ReadText(folder + "/saved/model.safetensors") == saved);
  }
}

TEST(RunProcesses, EvaluateAsOneDoes) {
  const std::string folder =
      PrepareRun("train:",
                 "device: cpu\nmesh: {data: 2}\nsharding: parameters\n"
                 "evaluate: {every: 2, text: words.txt, sequences: 32}\ntrain:");
  ASSERT_EQ(RunProcesses(folder, "--out one").status, 0);
  const Answer run = RunProcesses(folder, "--out many --processes 4");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(ReadText(folder + "/many/losses.csv"), ReadText(folder + "/one/losses.csv"));
  const Answer one = RunProcesses(folder, "--evaluate"),
               many = RunProcesses(folder, "--evaluate --processes 4");
  EXPECT_EQ(many.status, 0) << many.err;
  EXPECT_EQ(many.out, one.out);
  EXPECT_TRUE(absl::StrContains(many.out, "32 sequences of 8 tokens of words.txt")) << many.out;
}

TEST(RunProcesses, SlowLinksChangeNoLoss) {
  const std::string folder = PrepareRun("train:", "device: cpu\ntrain:");
  const Answer one = RunProcesses(folder, "--out one");
  ASSERT_EQ(one.status, 0) << one.err;
  const Answer slow = RunProcesses(folder, "--out slow --processes 2 --link 1ms,10MB/s --json");
  ASSERT_EQ(slow.status, 0) << slow.err;
  EXPECT_EQ(ReadText(folder + "/slow/losses.csv"), ReadText(folder + "/one/losses.csv"));
  // Each of a step's four microbatches takes a millisecond to the next rank, and a millisecond
  // back.
  const auto answer = nlohmann::json::parse(slow.out);
  EXPECT_GT(answer["measured_us"].get<double>(), 5000) << slow.out;
}

TEST(RunProcesses, WhatOneSaysIsSaidOnce) {
  const std::string folder = PrepareRun();
  const Answer many = RunProcesses(folder, "--out made --processes 3");
  EXPECT_EQ(many.status, 2);
  EXPECT_EQ(
      many.err,
      "stringline: the command line says that there are 3 processes, but the run has 2 ranks\n");
  const Answer no_text = RunProcesses(folder, "--text nothing.txt --processes 2");
  EXPECT_EQ(no_text.status, 2);
  EXPECT_EQ(no_text.err, "stringline: nothing.txt: no such file\n");
}

TEST(RunProcesses, ASignalEndsThemAllAfterAStep) {
  const std::string folder = PrepareRun("steps: 6", "steps: 1000000");
  std::filesystem::remove_all(folder + "/made");
  ToolProcess process(folder, Words("run run.yaml --out made --processes 2"));
  const std::string losses = folder + "/made/losses.csv.part";
  ASSERT_TRUE(process.WaitUntil(
      [&] { return std::filesystem::exists(losses) && ReadText(losses).size() > 100; }));
  process.Signal(SIGTERM);
  const Answer answer = process.Wait();
  EXPECT_EQ(answer.status, 128 + SIGTERM) << answer.err;
  EXPECT_TRUE(absl::StrContains(answer.out, "stopped by SIGTERM after step ")) << answer.out;
}

// Processes started separately, each with its own command line.
std::vector<Answer> RunApart(const std::string& folder, const std::vector<std::string>& files,
                             int port) {
  std::deque<ToolProcess> processes;
  for (size_t p = 0; p < files.size(); ++p) {
    processes.emplace_back(
        folder, Words(absl::StrCat("run ", files[p], " --out apart", p, " --rank ", p, " --ranks ",
                                   files.size(), " --master 127.0.0.1:", port, " --run-id apart")));
  }
  std::vector<Answer> answers;
  for (ToolProcess& process : processes) answers.push_back(process.Wait());
  return answers;
}

// Both processes end with status 2 and name the key.
void ExpectDiffer(const std::string& folder, const std::vector<std::string>& runs,
                  const std::string& key) {
  for (const Answer& answer : RunApart(folder, runs, FreePort())) {
    EXPECT_EQ(answer.status, 2);
    EXPECT_TRUE(absl::StrContains(answer.err,
                                  absl::StrCat(" do not run the same: they differ in ", key, " (")))
        << answer.err;
    EXPECT_TRUE(absl::StartsWith(answer.err, "stringline: process 1 on ")) << answer.err;
  }
}

TEST(RunProcesses, SettingsThatDifferAreNamed) {
  const std::string folder = PrepareRun("train:", "device: cpu\ntrain:");
  const std::string run = ReadText(folder + "/run.yaml"), words = ReadText(folder + "/words.txt");
  std::string other = words;
  other[100] = other[100] == 'x' ? 'y' : 'x';
  WriteText(folder + "/other.txt", other);
  const std::pair<const char*, std::string> differ[] = {
      {"contents of data", absl::StrReplaceAll(run, {{"words.txt", "other.txt"}})},
      {"model.heads", absl::StrReplaceAll(run, {{"heads: 2", "heads: 1"}})},
      {"train.weight_decay",
       absl::StrReplaceAll(run, {{"steps: 6", "steps: 6, weight_decay: 0.5"}})}};
  for (const auto& [key, text] : differ) {
    ASSERT_NE(text, run);
    WriteText(folder + "/other.yaml", text);
    ExpectDiffer(folder, {"run.yaml", "other.yaml"}, key);
  }
}

TEST(RunProcesses, WhatIsLoadedAndSavedIsCompared) {
  const std::string folder = PrepareRun("train:", "device: cpu\ntrain:");
  for (const char* const steps : {"2", "3"}) {
    const std::string save = absl::StrCat("run run.yaml --out made --save m", steps, " --steps ");
    const Answer saved = RunToolIn(folder, Words(absl::StrCat(save, steps)));
    ASSERT_EQ(saved.status, 0) << saved.err;
  }
  ExpectDiffer(folder, {"run.yaml --load m2", "run.yaml --load m3"}, "contents of --load");
  ExpectDiffer(folder, {"run.yaml", "run.yaml --load m3"}, "contents of --load");
  ExpectDiffer(folder, {"run.yaml --save made", "run.yaml"}, "--save");
}

// The process of local_processes that holds this rank.
pid_t ChildOf(int parent, int rank) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string pid = entry.path().filename().string();
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream stat(entry.path() / "stat"), words(entry.path() / "cmdline");
    const std::string line((std::istreambuf_iterator<char>(stat)), {});
    const std::string said((std::istreambuf_iterator<char>(words)), {});
    const size_t name = line.rfind(')');
    if (name == std::string::npos || std::atoi(line.c_str() + name + 4) != parent) continue;
    if (absl::StrContains(said, absl::StrCat(std::string("--rank") + '\0', rank) + '\0')) {
      return std::atoi(pid.c_str());
    }
  }
  return -1;
}

// True when the run under way in `folder`/made has written some losses.
bool Trains(const std::string& folder) {
  const std::string losses = folder + "/made/losses.csv.part";
  return std::filesystem::exists(losses) && ReadText(losses).size() > 200;
}

std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST(RunProcesses, WhoIsLostIsNamedAndTheOthersLeaveFlightRecords) {
  const std::string folder = PrepareRun("P: 2, M: 4}", "P: 3, M: 4}\ndevice: cpu\ntimeout: 1500ms");
  WriteText(folder + "/run.yaml",
            absl::StrReplaceAll(ReadText(folder + "/run.yaml"),
                                {{"steps: 6", "steps: 100000000"}, {"layers: 2", "layers: 3"}}));
  for (const int signal : {SIGKILL, SIGSTOP}) {
    std::filesystem::remove_all(folder + "/made");
    ToolProcess process(folder, Words("run run.yaml --out made --save never_saved --processes 3"));
    ASSERT_TRUE(process.WaitUntil([&] { return Trains(folder); }));
    const pid_t lost = ChildOf(process.id(), 1);
    ASSERT_GT(lost, 0);
    ASSERT_EQ(kill(lost, signal), 0);
    if (signal == SIGSTOP) {
      // The stopped process continues when the others have ended.
      EXPECT_TRUE(process.WaitUntil([&] {
        return std::filesystem::exists(folder + "/made/flight-0.timeline") &&
               std::filesystem::exists(folder + "/made/flight-2.timeline");
      }));
      ASSERT_EQ(kill(lost, SIGCONT), 0);
    }
    const Answer answer = process.Wait();
    EXPECT_EQ(answer.status, 3) << answer.out;
    EXPECT_TRUE(absl::StartsWith(answer.err, "stringline: rank 1 on ")) << answer.err;
    EXPECT_TRUE(absl::StrContains(answer.err, signal == SIGKILL
                                                  ? " died, or ended without a word: "
                                                  : " does not answer: its process was stopped"))
        << answer.err;
    EXPECT_TRUE(absl::StrContains(
        answer.err, "; what the ranks did last is in made/flight-0.timeline; made/losses.csv.part"))
        << answer.err;
    EXPECT_FALSE(std::filesystem::exists(folder + "/never_saved/model.safetensors"));
    std::vector<std::string> names = NamesIn(folder + "/made");
    names.erase(std::remove(names.begin(), names.end(), "flight-1.timeline"), names.end());
    EXPECT_EQ(names, std::vector<std::string>(
                         {"flight-0.timeline", "flight-2.timeline", "losses.csv.part"}));
    const Answer shown = RunToolIn(folder, Words("show made/flight-2.timeline --color never"));
    EXPECT_EQ(shown.status, 0) << shown.err;
    EXPECT_TRUE(absl::StrContains(shown.out, "zb_h1 P=3 M=4  flight: ")) << shown.out;
    // Between two steps no rank is in a call.
    if (std::regex_search(answer.err, std::regex("rank 2 on \\S+ waited "))) {
      EXPECT_TRUE(absl::StrContains(shown.out, "not ended: ")) << answer.err << shown.out;
    }
  }
  // A whole run afterwards takes them away.
  WriteText(folder + "/run.yaml", absl::StrReplaceAll(ReadText(folder + "/run.yaml"),
                                                      {{"steps: 100000000", "steps: 4"}}));
  EXPECT_EQ(RunProcesses(folder, "--out made --processes 3").status, 0);
  EXPECT_EQ(NamesIn(folder + "/made"),
            std::vector<std::string>(
                {"costs.yaml", "losses.csv", "measured.timeline", "simulated.timeline"}));
}

// Without a timeout no rank counts as late; a death is noticed all the same.
TEST(RunProcesses, WithoutATimeoutADeathIsNoticedAndALateRankIsWaitedFor) {
  const std::string folder =
      PrepareRun("train: {steps: 6", "device: cpu\ntimeout: 0s\ntrain: {steps: 1000000");
  const std::string losses = folder + "/made/losses.csv.part";
  std::filesystem::remove_all(folder + "/made");
  ToolProcess process(folder, Words("run run.yaml --out made --processes 2"));
  ASSERT_TRUE(process.WaitUntil([&] { return Trains(folder); }));
  const pid_t late = ChildOf(process.id(), 1);
  ASSERT_GT(late, 0);
  ASSERT_EQ(kill(late, SIGSTOP), 0);
  usleep(2'500'000);
  ASSERT_EQ(kill(late, SIGCONT), 0);
  const size_t then = ReadText(losses).size();
  ASSERT_TRUE(process.WaitUntil([&] { return ReadText(losses).size() > then + 200; }));
  ASSERT_EQ(kill(late, SIGKILL), 0);
  const Answer answer = process.Wait();
  EXPECT_EQ(answer.status, 3);
  EXPECT_TRUE(absl::StartsWith(answer.err, "stringline: rank 1 on ")) << answer.err;
}

// With --json a process that is left answers in place of the first.
TEST(RunProcesses, AnotherAnswersIfTheFirstIsLost) {
  const std::string folder =
      PrepareRun("train: {steps: 6", "device: cpu\ntrain: {steps: 100000000");
  for (const char* const restarts : {"", " --restarts 1"}) {
    SCOPED_TRACE(restarts);
    std::filesystem::remove_all(folder + "/made");
    ToolProcess process(
        folder, Words(absl::StrCat("run run.yaml --out made --processes 2 --json", restarts)));
    for (int lost = *restarts == '\0' ? 1 : 2; lost > 0; --lost) {
      ASSERT_TRUE(process.WaitUntil([&] { return Trains(folder); }));
      const pid_t first = ChildOf(process.id(), 0);
      ASSERT_GT(first, 0);
      std::filesystem::remove_all(folder + "/made/losses.csv.part");
      ASSERT_EQ(kill(first, SIGKILL), 0);
    }
    const Answer answer = process.Wait();
    EXPECT_EQ(answer.status, 128 + SIGKILL);
    const auto json = nlohmann::json::parse(answer.out, nullptr, false);
    ASSERT_TRUE(json.is_object()) << answer.out << answer.err;
    EXPECT_EQ(json["ok"], false);
    EXPECT_TRUE(absl::StrContains(json.value("error", ""), "rank 0 on ")) << answer.out;
  }
}

}  // namespace
}  // namespace stringline
