// Searches that are stopped in any stage answer with whole orders. Without a stop the searches here
// would take days.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "schedlang/check/check.h"
#include "schedlang/elaborate/elaborate.h"
#include "schedlang/text/parse.h"
#include "tests/tools/tool_process.h"
#include "tests/tools/tool_run.h"
#include "tools/answers/found_schedule.h"
#include "tools/commands/command.h"
#include "tools/io/requests.h"

namespace stringline {
namespace {

namespace fs = std::filesystem;

constexpr const char* kForever = " --iterations 2000000000";

absl::StatusOr<Flags> SearchFlags(const std::string& line) {
  const auto commands = Commands();
  const auto search = std::find_if(commands.begin(), commands.end(), [](const Command& command) {
    return std::string(command.name) == "search";
  });
  return ParseFlags(*search, Words(line));
}

constexpr const char* kWithMemory =
    "P=4 M=6 --recompute any --memory 4GB --cost "
    "F=10,I=12,W=7,memory.weights=1GB,memory.saved_for_I=1GB,memory.saved_for_W=1GB,message=1MB";

// Searches with every kind of stage: splits, recomputing, several places, the exact solver, long
// orders, orders of the library, an order to begin with.
const char* const kSearches[] = {
    "P=4 M=8 --place v --activations 5 --cost F=10,I=12,W=7,p2p=1",
    "P=4 M=8 --activations 4 --minimize span --cost F=[1,2,3,2],I=[2,2,3,1],W=1",
    "P=3 M=6 --place v --pairs --minimize period --cost F=10,I=10,W=8,FB=24",
    "P=4 M=6 --place any --work model --cost F=24,I=25,W=26,p2p=1",
    "P=3 M=5 --place v --split any --layers 13 --work model --cost F=13,I=14,W=15,p2p=1",
    kWithMemory,
    "P=8 M=64 --cost F=18522,I=18086,W=9337,p2p=601 --activations 10",
    "P=4 M=8 --from chimera --cost F=3,I=2,W=2",
};

TEST(SearchStop, WhatIsFoundIsWholeAtEveryLook) {
  for (const char* const line : kSearches) {
    const absl::StatusOr<Flags> flags = SearchFlags(absl::StrCat(line, kForever));
    ASSERT_TRUE(flags.ok()) << flags.status();
    const absl::StatusOr<SearchQuestion> question = SearchQuestionOf(*flags);
    ASSERT_TRUE(question.ok()) << question.status();
    for (const int looks : {0, 1, 2, 3, 5, 9, 17, 40, 100, 400, 2000}) {
      const std::string where = absl::StrCat(line, ", look ", looks);
      absl::StatusOr<SearchRequest> request = SearchRequestOf(*question, nullptr);
      ASSERT_TRUE(request.ok()) << where << request.status();
      std::atomic<int> left = looks;
      const Stop stop([&left] { return --left < 0; }, Stop::kNever);
      request->stop = &stop;
      const auto found = SearchSchedule(*request, [](const SearchProgress&) {});
      ASSERT_TRUE(found.ok()) << where << found.status();
      EXPECT_LE(found->least, found->value) << where;
      // The text gives the orders that were found, whatever its form.
      const absl::StatusOr<std::string> text =
          EmittedText({line, question->activations}, *found, &stop);
      ASSERT_TRUE(text.ok()) << where << text.status();
      const Source source("found.sched", *text);
      Diagnostics findings;
      const auto file = Parse(source, &findings);
      ASSERT_TRUE(file) << where << Render(findings, source);
      const auto plan = Elaborate(
          *file, "", {{"P", found->plan.ranks()}, {"M", found->plan.microbatches}}, &findings);
      ASSERT_TRUE(plan) << where << Render(findings, source);
      EXPECT_EQ(Print(*plan).substr(Print(*plan).find("rank 0:")),
                Print(found->plan).substr(Print(found->plan).find("rank 0:")))
          << where;
    }
  }
}

TEST(SearchStop, AFileThatIsSearchedForIsLeftAtOnce) {
  const std::string folder = ScratchFolder() + "/block";
  fs::create_directories(folder);
  WriteText(folder + "/best.sched",
            "schedule best(P, M) {\n"
            "  stages P on line;\n"
            "  rank r search { prefer F, I, W; within activations 5; iterations 1000000000; }\n"
            "}\n");
  const auto flags = SearchFlags(absl::StrCat("P=4 M=64 --from ", folder, "/best.sched"));
  ASSERT_TRUE(flags.ok()) << flags.status();
  std::atomic<int> left = 50;
  const Stop stop([&left] { return --left < 0; }, Stop::kNever);
  const auto question = SearchQuestionOf(*flags);
  ASSERT_TRUE(question.ok()) << question.status();
  const auto request = SearchRequestOf(*question, &stop);
  EXPECT_EQ(request.status().code(), absl::StatusCode::kCancelled) << request.status();
  // A result of a part of the effort is not kept.
  EXPECT_FALSE(fs::exists(folder + "/best.sched.found"));
}

class StoppedProcess : public testing::Test {
 protected:
  StoppedProcess() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }

  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      const std::string name = entry.path().filename().string();
      if (name.rfind("said.", 0) != 0) names.push_back(name);  // by the process's streams
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  // True once the process blocks SIGINT, to note it.
  static bool NotesSignals(int process) {
    const std::string path = absl::StrCat("/proc/", process, "/status");
    if (!fs::exists(path)) return false;
    const std::string status = ReadText(path);
    const size_t at = status.find("SigBlk:");
    if (at == std::string::npos) return false;
    const auto caught = std::stoull(status.substr(at + 7), nullptr, 16);
    return (caught >> (SIGINT - 1) & caught >> (SIGTERM - 1) & 1) != 0;
  }
  // True once the process has computed for a fifth of a second.
  static bool Works(int process) {
    const std::string path = absl::StrCat("/proc/", process, "/stat");
    if (!fs::exists(path)) return false;
    const std::vector<std::string> words = absl::StrSplit(ReadText(path), ' ');
    constexpr size_t kUserTicks = 13;
    return words.size() > kUserTicks && std::stoll(words[kUserTicks]) >= 20;
  }

  const std::string folder_ = ScratchFolder() + "/stopped";
};

TEST_F(StoppedProcess, ASignalIsAnsweredWithWhatWasFound) {
  for (const int signal : {SIGINT, SIGTERM}) {
    ToolProcess search(folder_, Words(absl::StrCat("search P=8 M=64 --activations 6 --cost "
                                                   "F=18522,I=18086,W=9337,p2p=601 --emit f.sched",
                                                   kForever)));
    // A process that is only being started blocks signals, too.
    ASSERT_TRUE(search.WaitUntil([&] { return Works(search.id()) && NotesSignals(search.id()); }));
    search.Signal(signal);
    const Answer answer = search.Wait();
    EXPECT_EQ(answer.status, 0) << answer.err;
    EXPECT_EQ(answer.out.rfind("makespan ", 0), 0u) << answer.out;
    EXPECT_EQ(Files(), std::vector<std::string>{"f.sched"});
    EXPECT_EQ(RunToolIn(folder_, Words("check f.sched P=8 M=64")).status, 0);
  }
}

TEST_F(StoppedProcess, ASignalEndsABlockThatIsSearched) {
  WriteText(folder_ + "/best.sched",
            "schedule best(P, M) {\n"
            "  stages P on line;\n"
            "  rank r search { prefer F, I, W; within activations 5; iterations 1000000000; }\n"
            "}\n");
  for (const char* const command :
       {"sim best.sched P=8 M=64 --timeline new/x.timeline", "plan best.sched P=8 M=64",
        "check best.sched P=8 M=64", "show best.sched P=8 M=64 --svg new/x.svg"}) {
    ToolProcess process(folder_, Words(command));
    ASSERT_TRUE(process.WaitUntil([&] { return Works(process.id()); })) << command;
    process.Signal(SIGINT);
    EXPECT_EQ(process.Wait().status, -SIGINT) << command;
    EXPECT_EQ(Files(), std::vector<std::string>{"best.sched"}) << command;
  }
}

}  // namespace
}  // namespace stringline
