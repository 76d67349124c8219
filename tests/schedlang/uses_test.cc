// `use`: schedules of other files, and every possible mistake with them.
#include "schedlang/text/uses.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "schedlang/elaborate/elaborate.h"
#include "schedlang/text/format.h"
#include "tests/schedlang/elaborated.h"

namespace stringline {
namespace {

using UsedTexts = std::map<std::string, std::string>;

constexpr const char* kUsedBase =
    "schedule base(P, M) {\n"
    "  stages P on line;\n"
    "  rank r { repeat M { F r; B r } }\n"
    "}\n";

// The plan of files["x.sched"], or its findings. `reads` counts how often a file is read.
std::string PlanWithUses(const UsedTexts& files, const std::string& schedule = "",
                         int* reads = nullptr) {
  Source source("x.sched", files.at("x.sched"));
  Diagnostics diagnostics;
  const ReadUsed read = [&](const std::string& name,
                            const std::string& user) -> absl::StatusOr<Source> {
    if (reads != nullptr) ++*reads;
    const std::string path = PathBeside(name, user);
    const auto file = files.find(path);
    if (file == files.end()) return absl::NotFoundError(absl::StrCat(path, ": no such file"));
    return Source(path, file->second);
  };
  const auto file = ParseWithUses(&source, read, &diagnostics);
  std::optional<Plan> plan;
  if (file) plan = Elaborate(*file, schedule, {{"P", 1}, {"M", 2}}, &diagnostics);
  EXPECT_EQ(plan.has_value(), diagnostics.empty());
  return plan ? Print(*plan) : Render(diagnostics, source);
}

TEST(UsesTest, ASchedulesBaseStandsInAnotherFile) {
  const std::string plan =
      "plan x P=1 M=2\n"
      "stages 0\n"
      "rank 0: 0F0 0I0 0W0 0F1 0I1 0W1\n";
  const std::string derived = "schedule x(P, M) = base(P, M) then defer W by 0;\n";
  EXPECT_EQ(PlanWithUses({{"x.sched", "use \"b.sched\";\n" + derived}, {"b.sched", kUsedBase}}),
            plan);
  // The position of `use` in the text does not matter, nor do comments around the statement.
  EXPECT_EQ(PlanWithUses(
                {{"x.sched", derived + "# last\nuse \"b.sched\"; # b\n"}, {"b.sched", kUsedBase}}),
            plan);
  // Paths are relative to the file that contains them.
  EXPECT_EQ(PlanWithUses(
                {{"x.sched", "use \"deep/../deep/b.sched\";\n" + derived},
                 {"deep/b.sched", "use \"../c.sched\";\nschedule base(P, M) = root(P, M);\n"},
                 {"c.sched",
                  "schedule root(P, M) { stages P on line; rank q { repeat M { F q; B q } } }"}}),
            plan);
}

TEST(UsesTest, WhatAFileIsAboutIsItsOwn) {
  const UsedTexts files = {{"x.sched", std::string(kUsedBase) + "use \"b.sched\";\n"},
                           {"b.sched", "schedule other(P, M) { stages P on v; rank r { } }"}};
  EXPECT_EQ(PlanWithUses(files).substr(0, 14), "plan base P=1 ");
  EXPECT_EQ(PlanWithUses(files, "other"),
            "x.sched:1:10: error: the file has no schedule 'other'; it has base\n"
            "    1 | schedule base(P, M) {\n"
            "      |          ^~~~\n");
}

// Names that a file uses are not handed on, so two files may have names in common.
TEST(UsesTest, NamesEndWithTheFileThatUsesThem) {
  const UsedTexts files = {
      {"x.sched", "use \"a.sched\";\nuse \"b.sched\";\nschedule x(P, M) = a(P, M);\n"},
      {"a.sched", "use \"one.sched\";\nschedule a(P, M) = base(P, M);\n"},
      {"b.sched", "use \"two.sched\";\nschedule b(P, M) = base(P, M);\n"},
      {"one.sched", kUsedBase},
      {"two.sched", kUsedBase}};
  EXPECT_EQ(PlanWithUses(files), "plan x P=1 M=2\nstages 0\nrank 0: 0F0 0B0 0F1 0B1\n");
  UsedTexts hidden = files;
  hidden["x.sched"] = "use \"a.sched\";\nschedule x(P, M) = base(P, M);\n";
  EXPECT_EQ(PlanWithUses(hidden),
            "x.sched:2:20: error: the file has no schedule 'base', nor has one that it uses\n"
            "    2 | schedule x(P, M) = base(P, M);\n"
            "      |                    ^~~~\n");
}

TEST(UsesTest, AFileIsParsedOnceHoweverManyUseIt) {
  UsedTexts files = {
      {"x.sched", "use \"f0.sched\";\nuse \"g0.sched\";\nschedule x(P, M) = f0(P, M);\n"}};
  constexpr int kLong = 60;  // if each were parsed for each use, 2^60 times
  for (int i = 0; i < kLong; ++i) {
    for (const char* const letter : {"f", "g"}) {
      const std::string uses =
          absl::StrCat("use \"f", i + 1, ".sched\";\nuse \"g", i + 1, ".sched\";\n");
      files[absl::StrCat(letter, i, ".sched")] =
          absl::StrCat(i + 1 < kLong ? uses : "", "schedule ", letter, i, "(P, M)",
                       i + 1 < kLong ? absl::StrCat(" = f", i + 1, "(P, M);")
                                     : " { stages P on line; rank r { repeat M { F r; B r } } }");
    }
  }
  int reads = 0;
  EXPECT_EQ(PlanWithUses(files, "", &reads).substr(0, 7), "plan x ");
  EXPECT_LT(reads, 5 * kLong);
}

// The library's ZB-H1 is its 1F1B with weight gradients held back.
TEST(UsesTest, ADerivedScheduleIsThePublishedOne) {
  const auto ranks_of = [](const std::string& text, int64_t p, int64_t m) {
    const std::string plan = Elaborated(text, {{"P", p}, {"M", m}});
    return plan.substr(plan.find('\n'));
  };
  const std::string derived =
      "use \"1f1b.sched\"; schedule held(P, M) = one_f_one_b(P, M) then defer W by r;";
  const std::string published = ReadTestFile("schedules/zb_h1.sched");
  for (int64_t p = 1; p <= 8; ++p) {
    for (int64_t m = 1; m <= 3 * p; ++m) {
      ASSERT_EQ(ranks_of(derived, p, m), ranks_of(published, p, m)) << p << " " << m;
    }
  }
}

struct WrongUse {
  UsedTexts files;
  const char* findings;
};

TEST(UsesTest, WhatIsWrongIsToldAtTheUse) {
  const std::string x = "schedule x(P, M) { stages P on line; rank r { } }\n";
  const WrongUse cases[] = {
      {{{"x.sched", "use \"c.sched\";\n" + x}},
       "x.sched:1:5: error: c.sched: no such file\n"
       "    1 | use \"c.sched\";\n"
       "      |     ^~~~~~~~~\n"},
      {{{"x.sched", "use \"x.sched\";\n" + x}},
       "x.sched:1:5: error: the file uses itself\n"
       "    1 | use \"x.sched\";\n"
       "      |     ^~~~~~~~~\n"},
      {{{"x.sched", "use \"a.sched\";\n" + x},
        {"a.sched",
         "use \"b/b.sched\";\n"
         "schedule a(P, M) { stages P on line; rank r { } }"},
        {"b/b.sched",
         "use \"../a.sched\";\n"
         "schedule b(P, M) { stages P on line; rank r { } }"}},
       "b/b.sched:1:5: error: files use each other in a cycle: a.sched, b/b.sched, a.sched\n"
       "    1 | use \"../a.sched\";\n"
       "      |     ^~~~~~~~~~~~\n"},
      {{{"x.sched", "use \"b.sched\";\nuse \"./b.sched\";\n" + x}, {"b.sched", kUsedBase}},
       "x.sched:2:5: error: this file is used a second time\n"
       "    2 | use \"./b.sched\";\n"
       "      |     ^~~~~~~~~~~\n"
       "note: the first time is here\n"
       "    1 | use \"b.sched\";\n"
       "      |     ^~~~~~~~~\n"},
      {{{"x.sched", "use \"b.sched\";\n" + std::string(kUsedBase)},
        {"b.sched", "\n" + std::string(kUsedBase)}},
       "x.sched:1:5: error: it holds a second schedule 'base'\n"
       "    1 | use \"b.sched\";\n"
       "      |     ^~~~~~~~~\n"
       "note: the first one is here\n"
       "    2 | schedule base(P, M) {\n"
       "      |          ^~~~\n"
       "note: b.sched: the second one is here\n"
       "    2 | schedule base(P, M) {\n"
       "      |          ^~~~\n"},
      {{{"x.sched", "use \"b.sched\";\nuse \"c.sched\";\n" + x},
        {"b.sched", kUsedBase},
        {"c.sched", kUsedBase}},
       "x.sched:2:5: error: it holds a second schedule 'base'\n"
       "    2 | use \"c.sched\";\n"
       "      |     ^~~~~~~~~\n"
       "note: b.sched: the first one is here\n"
       "    1 | schedule base(P, M) {\n"
       "      |          ^~~~\n"
       "note: c.sched: the second one is here\n"
       "    1 | schedule base(P, M) {\n"
       "      |          ^~~~\n"},
      // A mistake in the other file is reported at its place there, and once.
      {{{"x.sched", "use \"b.sched\";\nuse \"c.sched\";\n" + x},
        {"c.sched", "use \"b.sched\";\nschedule c(P, M) = b(P, M);\n"},
        {"b.sched", "# b\nschedule b(P, M) { stages P line; rank r { } }"}},
       "b.sched:2:29: error: expected 'on' before 'line'\n"
       "    2 | schedule b(P, M) { stages P line; rank r { } }\n"
       "      |                             ^~~~\n"
       "note: x.sched: the file is used here\n"
       "    1 | use \"b.sched\";\n"
       "      |     ^~~~~~~~~\n"},
      {{{"x.sched", "use \"b.sched\";\nschedule x(P, M) = base(P, M);\n"}, {"b.sched", ""}},
       "b.sched:1:1: error: expected 'schedule' before the end of the file\n"
       "    1 | \n"
       "      | ^\n"
       "note: x.sched: the file is used here\n"
       "    1 | use \"b.sched\";\n"
       "      |     ^~~~~~~~~\n"},
      // So is a mistake that shows only when the schedule is elaborated.
      {{{"x.sched", "use \"b.sched\";\nschedule x(P, M) = base(P, M);\n"},
        {"b.sched", "schedule base(P, M) {\n  stages P on line;\n  rank r { F r + 1 }\n}\n"}},
       "b.sched:3:14: error: stage 1 does not exist: the stages are 0 .. 0, with r = 0\n"
       "    3 |   rank r { F r + 1 }\n"
       "      |              ^~~~~  (rank 0, P=1 M=2)\n"},
      {{{"x.sched", "use \"b.sched\"\n" + x}},
       "x.sched:2:1: error: expected ';' before 'schedule'\n"
       "    2 | schedule x(P, M) { stages P on line; rank r { } }\n"
       "      | ^~~~~~~~\n"},
      {{{"x.sched", "use b;\n" + x}},
       "x.sched:1:5: error: expected a file in quotes before 'b'\n"
       "    1 | use b;\n"
       "      |     ^\n"},
  };
  for (const WrongUse& wrong : cases) EXPECT_EQ(PlanWithUses(wrong.files), wrong.findings);
}

TEST(UsesTest, FilesThatUseFilesEnd) {
  UsedTexts files = {{"x.sched", "use \"f0.sched\";\nschedule x(P, M) = s0(P, M);\n"}};
  for (int i = 0; i < 200; ++i) {
    files[absl::StrCat("f", i, ".sched")] = absl::StrCat("use \"f", i + 1, ".sched\";\nschedule s",
                                                         i, "(P, M) = s", i + 1, "(P, M);\n");
  }
  EXPECT_EQ(PlanWithUses(files),
            "f99.sched:1:5: error: files use files more than 100 deep here\n"
            "    1 | use \"f100.sched\";\n"
            "      |     ^~~~~~~~~~~~\n");
}

TEST(UsesTest, FmtKeepsThem) {
  Diagnostics findings;
  const Source source("x.sched",
                      "use \"a.sched\" ;use \"b.sched\";  # the base\n\n\n"
                      "schedule x(P,M)=base(P,M);use \"c.sched\";schedule y(P,M)=base(P,M);");
  EXPECT_EQ(Format(source, &findings),
            "use \"a.sched\";\n"
            "use \"b.sched\";  # the base\n"
            "\n"
            "schedule x(P, M) = base(P, M);\n"
            "use \"c.sched\";\n"
            "schedule y(P, M) = base(P, M);\n");
}

}  // namespace
}  // namespace stringline
