// The secret of runs of several processes, as the tool makes, takes and keeps it.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/tools/prepared_run.h"
#include "tests/tools/tool_process.h"
#include "tests/tools/tool_run.h"
#include "tools/gpu/processes.h"

namespace stringline {
namespace {

// An environment variable for the processes that are started while this lives; null: none.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (value == nullptr) (void)unsetenv(name);
    if (value != nullptr) (void)setenv(name, value, 1);
  }
  ~Variable() { (void)unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* const name_;
};
constexpr char kName[] = "STRINGLINE_SECRET";

std::string FileOf(int process, const char* name) {
  std::ifstream file(absl::StrCat("/proc/", process, "/", name));
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// "" if the process has none.
std::string SecretOf(int process) {
  for (const auto variable : absl::StrSplit(FileOf(process, "environ"), '\0')) {
    const std::string begin = absl::StrCat(kName, "=");
    if (absl::StartsWith(variable, begin)) return std::string(variable.substr(begin.size()));
  }
  return "";
}

bool HasTrained(const std::string& folder) {
  const std::string losses = folder + "/made/losses.csv.part";
  return std::filesystem::exists(losses) && ReadText(losses).size() > 200;
}

// No file of a run holds the text: neither its results, nor what it printed.
void ExpectNowhere(const std::string& folder, const std::string& text) {
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    EXPECT_FALSE(absl::StrContains(ReadText(entry.path().string()), text)) << entry.path();
    ++files;
  }
  EXPECT_GT(files, 3);
}

std::string PrepareLongRun() {
  return PrepareRun("train: {steps: 6",
                    "device: cpu\ncheckpoint: {every: 20, folder: kept}\n"
                    "train: {steps: 1000000");
}

TEST(RunSecret, TheLauncherMakesOneForEachRunAndRestartsKeepIt) {
  const Variable none(kName, nullptr);
  const std::string folder = PrepareLongRun();
  std::string before;
  for (int run = 0; run < 2; ++run) {
    std::filesystem::remove_all(folder + "/made");
    std::filesystem::remove_all(folder + "/kept");
    ToolProcess launcher(folder, Words("run run.yaml --out made --processes 2 --restarts 1"));
    ASSERT_TRUE(launcher.WaitUntil([&] {
      return HasTrained(folder) && std::filesystem::exists(folder + "/kept/step-000020");
    }));
    const std::vector<int> first = ChildrenOf(launcher.id());
    ASSERT_EQ(first.size(), 2u);
    const std::string secret = SecretOf(first[0]);
    EXPECT_EQ(secret.size(), 64u);
    EXPECT_NE(secret, before);
    EXPECT_EQ(SecretOf(first[1]), secret);
    EXPECT_EQ(SecretOf(launcher.id()), "");
    for (const int process : first) {
      EXPECT_FALSE(absl::StrContains(FileOf(process, "cmdline"), secret));
    }
    ASSERT_EQ(kill(first[1], SIGKILL), 0);
    std::vector<int> second;
    ASSERT_TRUE(launcher.WaitUntil([&] {
      second = ChildrenOf(launcher.id());
      return second.size() == 2 && second[0] != first[0] && !SecretOf(second[0]).empty() &&
             !SecretOf(second[1]).empty();
    }));
    for (const int process : second) EXPECT_EQ(SecretOf(process), secret);
    ASSERT_TRUE(launcher.WaitUntil([&] { return HasTrained(folder); }));
    launcher.Signal(SIGTERM);
    const Answer answer = launcher.Wait();
    EXPECT_EQ(answer.status, 128 + SIGTERM) << answer.err;
    ExpectNowhere(folder, secret);
    before = secret;
  }
}

TEST(RunSecret, AGivenOneIsTakenAndShownNowhere) {
  const std::string secret = "a secret that is shown nowhere 7391";
  const Variable given(kName, secret.c_str());
  const std::string folder = PrepareLongRun();
  std::filesystem::remove_all(folder + "/made");
  ToolProcess launcher(folder, Words("run run.yaml --out made --json --verbose --processes 2"));
  ASSERT_TRUE(launcher.WaitUntil([&] { return HasTrained(folder); }));
  const std::vector<int> processes = ChildrenOf(launcher.id());
  ASSERT_EQ(processes.size(), 2u);
  for (const int process : processes) EXPECT_EQ(SecretOf(process), secret);
  // The other writes a flight record.
  ASSERT_EQ(kill(processes[1], SIGKILL), 0);
  const Answer answer = launcher.Wait();
  EXPECT_EQ(answer.status, 3) << answer.err;  // it lost a process
  EXPECT_TRUE(std::filesystem::exists(folder + "/made/flight-0.timeline"));
  ExpectNowhere(folder, secret);
}

TEST(RunSecret, AShortOneIsRefused) {
  const Variable given(kName, "hunter2");
  const std::string folder = PrepareRun("train:", "device: cpu\ntrain:");
  const Answer answer =
      RunToolIn(folder, Words("run run.yaml --rank 0 --ranks 2 --master 127.0.0.1:29500"));
  EXPECT_EQ(answer.status, 2);
  EXPECT_EQ(answer.err,
            "stringline: STRINGLINE_SECRET has 7 characters, and a secret has at least 16; openssl "
            "rand -hex 32 prints a good one\n");
}

TEST(RunSecret, OverSeveralHostsThereHasToBeOne) {
  const Variable none(kName, nullptr);
  const std::string folder = PrepareRun("train:", "device: cpu\ntrain:");
  for (const char* const rank : {"0", "1"}) {
    const Answer answer = RunToolIn(
        folder, Words(absl::StrCat("run run.yaml --ranks 2 --master gpu1:29500 --rank ", rank)));
    EXPECT_EQ(answer.status, 2);
    EXPECT_TRUE(absl::StrContains(answer.err,
                                  "rank 0 is at gpu1:29500, to which others may connect, too, and "
                                  "the run has no secret: STRINGLINE_SECRET"))
        << answer.err;
  }
}

TEST(RunSecret, AnotherOneIsNamed) {
  const std::string folder = PrepareRun("train:", "device: cpu\ntrain:");
  const int port = FreePort();
  const auto words = [&](int rank) {
    return Words(absl::StrCat("run run.yaml --out made", rank,
                              " --ranks 2 --master 127.0.0.1:", port, " --rank ", rank));
  };
  const Variable of_first(kName, "the secret of rank 0");
  const ToolProcess first(folder, words(0));
  std::filesystem::create_directories(folder + "/other");
  for (const char* const name : {"run.yaml", "words.txt", "s.sched"}) {
    std::filesystem::copy_file(folder + "/" + name, folder + "/other/" + name,
                               std::filesystem::copy_options::overwrite_existing);
  }
  const Variable of_second(kName, "the secret of rank 1");
  ToolProcess second(folder + "/other", words(1));
  const Answer answer = second.Wait();
  EXPECT_EQ(answer.status, 2);
  EXPECT_TRUE(absl::StrContains(answer.err, absl::StrCat(" and the listener at 127.0.0.1:", port,
                                                         " do not have the same secret: rank 1 has "
                                                         "the secret of STRINGLINE_SECRET; ")))
      << answer.err;
}

}  // namespace
}  // namespace stringline
