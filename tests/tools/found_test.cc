// Found orders, kept beside the schedule: written, used, passed over where damaged, searched for
// again.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "schedlang/ask/found_file.h"
#include "schedlang/search/problem.h"
#include "tests/tools/tool_run.h"
#include "tools/commands/command.h"
#include "tools/lsp/analysis.h"

namespace stringline {
namespace {

namespace fs = std::filesystem;
using search::Found;

constexpr const char* kSchedule =
    "schedule best(P, M) {\n"
    "  stages P on line;\n"
    "  rank r search { within activations P - r; prefer F, B; }\n"
    "}\n";
constexpr const char* kQuick = "rank 0: 0F0 0F1 0B0 0B1\n";
constexpr const char* kSlow = "rank 0: 0F0 0B0 0F1 0B1\n";

// An emptied folder with best.sched.
std::string FoundFolder() {
  const std::string folder = ScratchFolder() + "/found";
  fs::create_directories(folder);
  for (const auto& entry : fs::directory_iterator(folder)) fs::remove_all(entry.path());
  WriteText(folder + "/best.sched", kSchedule);
  return folder;
}

std::string FoundText(const std::string& folder) {
  const std::string path = folder + "/best.sched.found";
  return fs::is_regular_file(path) ? ReadText(path) : "";
}

std::vector<uint64_t> KeysIn(const std::string& text) {
  std::vector<uint64_t> keys;
  for (const std::string& line : Lines(text)) {
    if (!absl::StartsWith(line, "found ")) continue;
    EXPECT_TRUE(absl::SimpleHexAtoi(Words(line)[1], &keys.emplace_back())) << line;
  }
  return keys;
}

std::string PlanOf(const std::string& folder, const std::string& more = "") {
  const Answer answer = RunToolIn(folder, Words("plan best.sched P=2 M=2 " + more));
  EXPECT_EQ(answer.status, 0) << answer.err;
  EXPECT_EQ(answer.err, "");
  return answer.out;
}

// Replaces the found order by the order that does one microbatch after another.
void PlantSlowOrder(const std::string& folder) {
  PlanOf(folder);
  const std::vector<uint64_t> keys = KeysIn(FoundText(folder));
  ASSERT_EQ(keys.size(), 1u);
  Found slow{.value = 12, .bound = 9};
  for (const int stage : {0, 1}) {
    const search::Group forward{search::LetterOf(ActionKind::kForward, stage)};
    const search::Group backward{search::LetterOf(ActionKind::kBackward, stage)};
    slow.words.push_back({forward, backward, forward, backward});
  }
  FoundFile(folder + "/best.sched", FoundFile::Use::kReadAndWrite).Keep(keys[0], slow);
}

TEST(FoundTest, LiesBesideTheFile) {
  const std::string folder = FoundFolder();
  const std::string plan = PlanOf(folder);
  EXPECT_TRUE(absl::StrContains(plan, kQuick)) << plan;
  const std::string text = FoundText(folder);
  EXPECT_TRUE(
      absl::StrContains(text,
                        "# Orders found for the search blocks of best.sched. They are found "
                        "again without this file.\nfound "))
      << text;
  EXPECT_TRUE(absl::StrContains(text, " value=9 bound=")) << text;
  EXPECT_TRUE(absl::StrContains(text, "\nrank 0: 0F 0F 0B 0B\nrank 1: 1F 1B 1F 1B\nend ")) << text;
  // Other numbers are another entry; the same ones are the same.
  EXPECT_EQ(RunToolIn(folder, Words("check best.sched P=2 M=3")).status, 0);
  EXPECT_EQ(RunToolIn(folder, Words("check best.sched P=2 M=2")).status, 0);
  const std::string both = FoundText(folder);
  EXPECT_EQ(KeysIn(both).size(), 2u) << both;
  EXPECT_TRUE(absl::StrContains(both, text.substr(text.find("\nfound "))));
}

TEST(FoundTest, PlacesAndLayersLieThereToo) {
  const std::string folder = FoundFolder();
  WriteText(folder + "/best.sched",
            "schedule best(P, M) {\n"
            "  rank r search {\n"
            "    place line, v; layers 6; split any; prefer F, B;\n"
            "    costs F l -> l == 5 ? 3 : 1, B l -> l == 5 ? 6 : 2;\n"
            "  }\n"
            "}\n");
  const std::string plan = PlanOf(folder);
  const std::string text = FoundText(folder);
  const std::vector<uint64_t> keys = KeysIn(text);
  ASSERT_EQ(keys.size(), 1u) << text;
  // A kept entry is taken as it is: a line with few layers at the end, its microbatches in turn.
  Found slow{.value = 48, .bound = 9, .place = 0, .partition = {5, 1}};
  for (const int stage : {0, 1}) {
    const search::Group forward{search::LetterOf(ActionKind::kForward, stage)};
    const search::Group backward{search::LetterOf(ActionKind::kBackward, stage)};
    slow.words.push_back({forward, backward, forward, backward});
  }
  const std::string file = folder + "/best.sched";
  FoundFile(file, FoundFile::Use::kReadAndWrite).Keep(keys[0], slow);
  EXPECT_TRUE(absl::StrContains(FoundText(folder), " value=48 bound=9 place=0 layers=5,1\n"));
  const std::string planted = PlanOf(folder);
  EXPECT_TRUE(absl::StrContains(planted, "stages 0 1\nsplit layers 5 1\n")) << planted;
  EXPECT_TRUE(absl::StrContains(planted, kSlow)) << planted;
  // Entries with an unknown place, or with layers that do not add up, are not taken.
  for (const auto& [place, partition] :
       {std::pair(2, search::Partition{5, 1}), std::pair(0, search::Partition{5, 2}),
        std::pair(0, search::Partition{6, 0}), std::pair(1, search::Partition{5, 1})}) {
    slow.place = place;
    slow.partition = partition;
    FoundFile(file, FoundFile::Use::kReadAndWrite).Keep(keys[0], slow);
    EXPECT_EQ(PlanOf(folder), plan);
  }
}

TEST(FoundTest, StagesThatRecomputeLieThereToo) {
  const std::string folder = FoundFolder();
  WriteText(folder + "/best.sched",
            "schedule best(P, M) {\n"
            "  stages P on line;\n"
            "  rank r search {\n"
            "    recompute any; within memory 8; prefer F, B;\n"
            "    costs F 2, B 4, saved_for_W 4, input 1;\n"
            "  }\n"
            "}\n");
  const std::string plan = PlanOf(folder);
  const std::vector<uint64_t> keys = KeysIn(FoundText(folder));
  ASSERT_EQ(keys.size(), 1u);
  EXPECT_TRUE(absl::StrContains(FoundText(folder), " place=0 layers=1,1 recompute=0,0\n"));
  // A kept entry is taken as it is: its second stage recomputes.
  Found slow{.value = 28, .bound = 9, .place = 0, .partition = {1, 1}, .recomputes = {0, 1}};
  for (const int stage : {0, 1}) {
    const search::Group forward{search::LetterOf(ActionKind::kForward, stage)};
    const search::Group backward{search::LetterOf(ActionKind::kBackward, stage)};
    slow.words.push_back({forward, backward, forward, backward});
  }
  const std::string file = folder + "/best.sched";
  FoundFile(file, FoundFile::Use::kReadAndWrite).Keep(keys[0], slow);
  EXPECT_TRUE(absl::StrContains(FoundText(folder),
                                " value=28 bound=9 place=0 layers=1,1 "
                                "recompute=0,1\n"));
  EXPECT_TRUE(absl::StrContains(PlanOf(folder), "stages 0 1\nrecompute 0 1\n"));
  EXPECT_TRUE(absl::StrContains(PlanOf(folder), kSlow));
  const Answer sim = RunToolIn(folder, Words("sim best.sched P=2 M=2"));
  EXPECT_TRUE(absl::StrContains(sim.out, "stage 1 recomputes, as the schedule says\n")) << sim.out;
  EXPECT_TRUE(absl::StrContains(sim.out, "makespan         28 ms")) << sim.out;
  // Others are not taken: no choice, one that is too short, and another value than the orders have.
  for (const search::Recomputes& wrong : {search::Recomputes{}, search::Recomputes{1},
                                          search::Recomputes{0, 2}, search::Recomputes{0, 0}}) {
    slow.recomputes = wrong;
    FoundFile(file, FoundFile::Use::kReadAndWrite).Keep(keys[0], slow);
    EXPECT_EQ(PlanOf(folder), plan);
  }
}

TEST(FoundTest, EveryCommandUsesIt) {
  const std::string folder = FoundFolder();
  PlantSlowOrder(folder);
  EXPECT_TRUE(absl::StrContains(PlanOf(folder), kSlow));
  EXPECT_TRUE(absl::StrContains(PlanOf(folder), "search makespan=12 bound=9\n"));
  const std::string planted = FoundText(folder);
  for (const char* const command :
       {"check best.sched P=2 M=2", "show best.sched P=2 M=2", "sim best.sched P=2 M=2",
        "report best.sched P=2 M=2", "explain best.sched 1B1 P=2 M=2",
        "compare best.sched 1f1b P=2 M=2", "check best.sched P=2 --for M=2..2",
        "sim best.sched P=2 --for M=2..2", "export best.sched P=2 M=2 --to torch-compute"}) {
    const Answer answer = RunToolIn(folder, Words(command));
    EXPECT_EQ(answer.status, 0) << command << "\n" << answer.out << answer.err;
    EXPECT_EQ(FoundText(folder), planted) << command;
  }
  const Answer sim = RunToolIn(folder, Words("sim best.sched P=2 M=2 --cost F=1,B=2"));
  EXPECT_TRUE(absl::StrContains(sim.out, "12 us")) << sim.out;
  // A schedule that uses the file keeps its own findings beside itself.
  WriteText(folder + "/late.sched",
            "use \"best.sched\";\nschedule late(P, M) = best(P, M) then defer W by 1;\n");
  EXPECT_EQ(RunToolIn(folder, Words("check late.sched P=2 M=2")).status, 0);
  EXPECT_EQ(FoundText(folder), planted);
  EXPECT_TRUE(fs::exists(folder + "/late.sched.found"));
}

TEST(FoundTest, AgainSearchesAnew) {
  for (const char* const command :
       {"plan best.sched P=2 M=2 --again", "check best.sched P=2 --for M=2..2 --again",
        "sim best.sched P=2 --for M=2..2 --again", "sim best.sched P=2 M=2 --again"}) {
    const std::string folder = FoundFolder();
    PlantSlowOrder(folder);
    EXPECT_EQ(RunToolIn(folder, Words(command)).status, 0) << command;
    EXPECT_TRUE(absl::StrContains(PlanOf(folder), kQuick)) << command;
    EXPECT_EQ(KeysIn(FoundText(folder)).size(), 1u) << command;
  }
}

TEST(FoundTest, EveryCommandThatTakesSchedulesKnowsAgain) {
  for (const Command& command : Commands()) {
    const bool takes_schedules =
        (command.options & (kPlanOptions | kTrainingOptions | kBenchOptions | kStageOption)) != 0;
    const Answer help = RunToolIn(SourceFolder(), {command.name, "--help"});
    EXPECT_EQ(absl::StrContains(help.out, "--again"), takes_schedules) << command.name;
  }
}

TEST(FoundTest, WhatIsDamagedIsPassedOver) {
  const std::string folder = FoundFolder();
  const std::string plan = PlanOf(folder);
  const std::string whole = FoundText(folder);
  const std::string path = folder + "/best.sched.found";
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = std::string_view("7\n \0", 4)[i % 4];
    WriteText(path, i % 5 == 0 ? whole.substr(0, i) : damaged);
    EXPECT_EQ(PlanOf(folder), plan) << "byte " << i;
  }
  // An entry with a changed bound is ignored.
  WriteText(path, absl::StrReplaceAll(whole, {{" bound=9", " bound=7"}}));
  EXPECT_EQ(PlanOf(folder), plan);
  // A truncated file is made whole again.
  WriteText(path, whole.substr(0, whole.size() / 2));
  PlanOf(folder);
  EXPECT_EQ(FoundText(folder), whole);
  // A damaged entry leaves the other entries alone.
  EXPECT_EQ(RunToolIn(folder, Words("check best.sched P=2 M=3")).status, 0);
  const std::string both = FoundText(folder);
  WriteText(path, absl::StrReplaceAll(both, {{"rank 0: 0F 0F 0B 0B\n", "rank 0: 0F 0F 0B\n"}}));
  PlanOf(folder);
  EXPECT_EQ(FoundText(folder).size(), both.size());
  EXPECT_EQ(KeysIn(FoundText(folder)).size(), 2u);
}

TEST(FoundTest, AnOrderOfAnotherProblemIsPassedOver) {
  const std::string folder = FoundFolder();
  const std::string plan = PlanOf(folder);
  const uint64_t key = KeysIn(FoundText(folder))[0];
  for (const int stage : {0, 5}) {
    const search::Group forward{search::LetterOf(ActionKind::kForward, stage)};
    const Found other{.words = {{forward}, {forward}}, .value = 1, .bound = 1};
    FoundFile(folder + "/best.sched", FoundFile::Use::kReadAndWrite).Keep(key, other);
    EXPECT_EQ(PlanOf(folder), plan);
  }
}

TEST(FoundTest, NothingIsKeptWhereNothingCanBeWritten) {
  const std::string folder = FoundFolder();
  const std::string plan = PlanOf(folder);
  fs::remove(folder + "/best.sched.found");
  // Something else has its name.
  fs::create_directories(folder + "/best.sched.found/inner");
  EXPECT_EQ(PlanOf(folder), plan);
  EXPECT_TRUE(fs::is_directory(folder + "/best.sched.found"));
  fs::remove_all(folder + "/best.sched.found");
  if (geteuid() != 0) {
    ASSERT_EQ(chmod(folder.c_str(), 0555), 0);
    EXPECT_EQ(PlanOf(folder), plan);
    ASSERT_EQ(chmod(folder.c_str(), 0755), 0);
    EXPECT_FALSE(fs::exists(folder + "/best.sched.found"));
  }
  // Texts without a file keep nothing; nor do schedules without a search.
  const Found found{.words = {{}}, .value = 1, .bound = 1};
  for (const char* const name : {"-", "zb_v", "no/such.sched"}) {
    FoundFile(name, FoundFile::Use::kReadAndWrite).Keep(1, found);
    EXPECT_FALSE(fs::exists(absl::StrCat(name, ".found")));
  }
  fs::copy_file(SourceFolder() + "/schedules/1f1b.sched", folder + "/1f1b.sched");
  EXPECT_EQ(RunToolIn(folder, Words("check 1f1b.sched P=2 M=2")).status, 0);
  EXPECT_FALSE(fs::exists(folder + "/1f1b.sched.found"));
}

TEST(FoundTest, TwoWhoWriteKeepBoth) {
  const std::string folder = FoundFolder();
  {
    FoundFile first(folder + "/best.sched", FoundFile::Use::kReadAndWrite);
    FoundFile second(folder + "/best.sched", FoundFile::Use::kReadAndWrite);
    EXPECT_FALSE(first.Find(1));
    first.Keep(1, {.words = {{}}, .value = 1, .bound = 1});
    second.Keep(2, {.words = {{}}, .value = 2, .bound = 1});
    EXPECT_TRUE(first.Find(1));
  }
  FoundFile both(folder + "/best.sched", FoundFile::Use::kOnlyRead);
  ASSERT_TRUE(both.Find(1) && both.Find(2));
  EXPECT_EQ(both.Find(1)->value, 1);
  EXPECT_EQ(both.Find(2)->value, 2);
  EXPECT_FALSE(both.Find(3));
  FoundFile again(folder + "/best.sched", FoundFile::Use::kOnlyWrite);
  EXPECT_FALSE(again.Find(1));
}

TEST(FoundTest, PairsReadBack) {
  const std::string folder = FoundFolder();
  const search::Group pair{search::LetterOf(ActionKind::kForward, 12),
                           search::LetterOf(ActionKind::kInputGradient, 3)};
  const Found found{.words = {{pair, pair}, {}}, .value = 1'000'000'000'000, .bound = 7};
  FoundFile(folder + "/best.sched", FoundFile::Use::kReadAndWrite).Keep(~uint64_t{0}, found);
  const auto read = FoundFile(folder + "/best.sched", FoundFile::Use::kOnlyRead).Find(~uint64_t{0});
  ASSERT_TRUE(read);
  EXPECT_EQ(read->words, found.words);
  EXPECT_EQ(read->value, found.value);
  EXPECT_EQ(read->bound, found.bound);
}

TEST(FoundTest, AnEditorReadsItAndWritesNothing) {
  const std::string folder = FoundFolder();
  const auto read = [](const std::string&, const std::string&) -> absl::StatusOr<Source> {
    return absl::NotFoundError("nothing is used");
  };
  const Source source(folder + "/best.sched", kSchedule);
  TextAnalysis analysis = Analyze(source, read);
  EXPECT_TRUE(analysis.findings.empty());
  ASSERT_TRUE(analysis.schedules[0].plan);
  EXPECT_EQ(FoundText(folder), "");
  // The kept order is shown for P=4 M=8.
  EXPECT_EQ(RunToolIn(folder, Words("plan best.sched P=4 M=8")).status, 0);
  analysis = Analyze(source, read);
  const Answer plan = RunToolIn(folder, Words("plan best.sched P=4 M=8"));
  EXPECT_EQ(Print(*analysis.schedules[0].plan), plan.out);
}

}  // namespace
}  // namespace stringline
