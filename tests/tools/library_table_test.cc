// The library on a command line: `stringline schedules`, and schedules by name.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "schedlang/ask/schedule_library.h"
#include "tests/tools/tool_run.h"
#include "tools/commands/command.h"

namespace stringline {
namespace {

Answer AtTop(const std::string& line) { return RunToolIn(SourceFolder(), Words(line)); }

nlohmann::json JsonOf(const std::string& line) {
  return nlohmann::json::parse(AtTop(line + " --json").out, nullptr, false);
}

// Each file begins with a sentence of a single line, which the list shows.
TEST(LibraryTableTest, ListsEveryScheduleInALine) {
  const Answer answer = AtTop("schedules");
  EXPECT_EQ(answer.status, 0);
  const std::vector<std::string> lines = Lines(answer.out);
  const auto schedules = JsonOf("schedules")["schedules"];
  ASSERT_EQ(schedules.size(), ScheduleLibrary().size());
  ASSERT_GE(lines.size(), schedules.size());
  for (size_t i = 0; i < schedules.size(); ++i) {
    const std::string name = schedules[i]["name"], summary = schedules[i]["summary"];
    EXPECT_EQ(name, ScheduleLibrary()[i].name);
    EXPECT_TRUE(absl::StartsWith(lines[i], name + " ")) << lines[i];
    EXPECT_TRUE(absl::EndsWith(lines[i], " " + summary)) << lines[i];
    EXPECT_EQ(summary.back(), '.') << name << ": the first line of the file is not a sentence";
    EXPECT_TRUE(
        absl::StartsWith(ReadText(absl::StrCat(SourceFolder(), "/schedules/", name, ".sched")),
                         absl::StrCat("# ", summary, "\n")))
        << name;
  }
}

// The parameters listed without a default are exactly the required parameters.
TEST(LibraryTableTest, ParametersAreThoseOfTheSchedule) {
  for (const auto& schedule : JsonOf("schedules")["schedules"]) {
    const std::string name = schedule["name"];
    std::string needed;
    for (const auto& parameter : schedule["parameters"]) {
      const std::string word = absl::StrCat(" ", parameter["name"].get<std::string>(), "=");
      if (parameter["default"].is_null()) absl::StrAppend(&needed, word, "8");
      EXPECT_TRUE(parameter["default"].is_null() ||
                  !parameter["default"].get<std::string>().empty());
    }
    EXPECT_EQ(AtTop(absl::StrCat("check ", name, needed)).status, 0) << name << needed;
    // A parameter less is too few.
    const Answer short_of_one =
        AtTop(absl::StrCat("check ", name, needed.substr(0, needed.rfind(' '))));
    EXPECT_EQ(short_of_one.status, 2) << name << needed;
    EXPECT_TRUE(absl::StrContains(short_of_one.err, " needs ")) << short_of_one.err;
  }
  const auto interleaved = JsonOf("schedules")["schedules"];
  for (const auto& schedule : interleaved) {
    if (schedule["name"] != "interleaved") continue;
    EXPECT_EQ(schedule["parameters"].dump(),
              R"([{"default":null,"name":"P"},{"default":null,"name":"M"},)"
              R"({"default":"2","name":"V"},{"default":"P","name":"G"}])");
  }
}

// Headers have the name on the command line, not the name in the schedule's text.
TEST(LibraryTableTest, HeadersSayTheNameThatWasAskedFor) {
  for (const LibrarySchedule& schedule : ScheduleLibrary()) {
    const std::string sizes = absl::StrCat(schedule.name, " P=2 M=4");
    EXPECT_TRUE(absl::StartsWith(AtTop("show " + sizes).out, sizes)) << sizes;
    EXPECT_TRUE(absl::StartsWith(AtTop("sim " + sizes).out, sizes)) << sizes;
    EXPECT_TRUE(absl::StartsWith(AtTop("check " + sizes).out, "ok: " + sizes)) << sizes;
    EXPECT_TRUE(absl::StartsWith(AtTop("plan " + sizes).out, "plan " + sizes)) << sizes;
    EXPECT_EQ(JsonOf("report " + sizes)["schedule"], schedule.name);
    EXPECT_EQ(JsonOf(absl::StrCat("check ", schedule.name, " --for P=2 --for M=4"))["schedule"],
              schedule.name);
    const auto swept = JsonOf(absl::StrCat("sim ", schedule.name, " P=2 --for M=4"));
    EXPECT_EQ(swept["points"][0]["schedules"][0]["schedule"], schedule.name);
  }
  // A schedule selected by --schedule, or a file, has the name in the text.
  EXPECT_TRUE(absl::StartsWith(AtTop("show 1f1b --schedule one_f_one_b P=2 M=4").out,
                               "one_f_one_b P=2 M=4"));
  EXPECT_TRUE(
      absl::StartsWith(AtTop("show schedules/1f1b.sched P=2 M=4").out, "one_f_one_b P=2 M=4"));
  // A user's file hides the library's schedule of the same name.
  WriteText(ScratchFolder() + "/1f1b",
            "schedule mine(P, M) { stages P on line; rank r { repeat M { F r; B r } } }\n");
  EXPECT_TRUE(
      absl::StartsWith(RunToolIn(ScratchFolder(), Words("show 1f1b P=2 M=4")).out, "mine P=2 M=4"));
}

// Plans and timelines with a library name are read back as written.
TEST(LibraryTableTest, NamesAreReadAgain) {
  const std::string folder = ScratchFolder() + "/";
  const std::string plan = AtTop("plan 1f1b P=2 M=4").out;
  WriteText(folder + "x.plan", plan);
  EXPECT_EQ(AtTop("plan " + folder + "x.plan").out, plan);
  EXPECT_EQ(AtTop("show " + folder + "x.plan").out, AtTop("show 1f1b P=2 M=4").out);
  ASSERT_EQ(AtTop("sim 1f1b P=2 M=4 --timeline " + folder + "x.timeline").status, 0);
  EXPECT_EQ(AtTop("show " + folder + "x.timeline").out, AtTop("show 1f1b P=2 M=4").out);
  const std::string found = folder + "found.sched";
  ASSERT_EQ(AtTop("search P=2 M=4 --from 1f1b --iterations 10 --emit " + found).status, 0);
  EXPECT_EQ(AtTop("check " + found + " P=2 M=4").status, 0);
}

// The help of commands that read schedules mentions names.
TEST(LibraryTableTest, HelpSaysThatNamesWork) {
  for (const Command& command : Commands()) {
    if ((command.options & kPlanOptions) == 0) continue;
    const std::string help = RunToolIn(ScratchFolder(), {command.name, "--help"}).out;
    EXPECT_TRUE(absl::StrContains(help, "stringline schedules")) << command.name << "\n" << help;
  }
}

}  // namespace
}  // namespace stringline
