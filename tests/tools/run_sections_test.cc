#include "tools/gpu/run_sections.h"

#include <poll.h>
#include <unistd.h>

#include <cmath>
#include <csignal>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tools/gpu/chosen_sections.h"

namespace stringline {
namespace {

TEST(RunSections, OneThatBreaksTakesNoOtherWithIt) {
  const std::vector<CheckSection> sections = {
      {"crashes",
       [](CheckRows* rows) {
         rows->Pass("first", "1e-7");
         std::signal(SIGSEGV, SIG_DFL);
         raise(SIGSEGV);
       }},
      {"hangs",
       [](CheckRows*) {
         while (true) pause();
       },
       /*deadline_s=*/1},
      {"is silent", [](CheckRows*) {}},
      {"leaves", [](CheckRows*) { _exit(3); }},
      {"works",
       [](CheckRows* rows) {
         rows->Skip("second", "no peer");
         rows->Fail("third", std::string(10000, 'x'));
       }},
  };
  size_t followed = 0;
  const std::vector<CheckRow> rows = RunSections(sections, [&](const CheckRow&) { ++followed; });
  ASSERT_EQ(rows.size(), 7u);
  EXPECT_EQ(followed, rows.size());
  const auto is = [&](size_t i, const char* section, const char* name, CheckResult result,
                      const std::string& said) {
    EXPECT_EQ(rows[i].section, section);
    EXPECT_EQ(rows[i].name, name);
    EXPECT_EQ(rows[i].result, result);
    EXPECT_NE(rows[i].said.find(said), std::string::npos) << rows[i].said;
  };
  is(0, "crashes", "first", CheckResult::kPass, "1e-7");
  is(1, "crashes", "all of it", CheckResult::kFail, "signal 11");
  is(2, "hangs", "all of it", CheckResult::kFail, "not over after 1 s");
  is(3, "is silent", "all of it", CheckResult::kFail, "said nothing");
  is(4, "leaves", "all of it", CheckResult::kFail, "ended with 3");
  is(5, "works", "second", CheckResult::kSkip, "no peer");
  is(6, "works", "third", CheckResult::kFail, std::string(10000, 'x'));
}

TEST(RunSections, AllEndInTime) {
  const std::vector<CheckSection> sections = {
      {"hangs",
       [](CheckRows*) {
         while (true) pause();
       }},
      {"is left", [](CheckRows* rows) { rows->Pass("anything", ""); }},
  };
  const std::vector<CheckRow> rows = RunSections(
      sections, [](const CheckRow&) {}, /*most_s=*/1);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].result, CheckResult::kFail);
  EXPECT_EQ(rows[0].said, "not over after 1 s, killed");
  EXPECT_EQ(rows[1].result, CheckResult::kSkip);
  EXPECT_EQ(rows[1].said, "the 1 s are over");
}

// Processes hold the end of a pipe as long as they live.
TEST(RunSections, WhatASectionStartedEndsWithIt) {
  for (const bool hangs : {false, true}) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const auto starts_another = [&](CheckRows* rows) {
      if (fork() == 0) {
        while (true) pause();
      }
      rows->Pass("started", "");
      while (hangs) pause();
    };
    const std::vector<CheckRow> rows =
        RunSections({{"starts", starts_another, /*deadline_s=*/1}}, [](const CheckRow&) {});
    EXPECT_EQ(rows[0].name, "started");
    (void)close(ends[1]);
    pollfd waiting = {ends[0], POLLIN, 0};
    EXPECT_EQ(poll(&waiting, 1, 30'000), 1) << "it lives on";
    (void)close(ends[0]);
  }
}

TEST(CheckRows, ArePrintedAsATableAndAsJson) {
  std::vector<CheckRow> rows = {
      {"kernels", "gelu", CheckResult::kPass, "1e-7 | 2 TB/s", {.ratio = 0.37}},
      {"speed", "124M", CheckResult::kSkip, "no torch"}};
  EXPECT_EQ(PrintMarkdown("GPU", "2026-01-02", rows),
            "GPU, 2026-01-02\n\n| section | check | | error / allowed | |\n|---|---|---|---|---|\n"
            "| kernels | gelu | PASS | 37 % | 1e-7 / 2 TB/s |\n"
            "| speed | 124M | SKIP |  | no torch |\n\n"
            "1 passed, 0 failed, 1 skipped\n");
  const auto json = nlohmann::json::parse(PrintJson("GPU", "2026-01-02", rows));
  EXPECT_EQ(json["device"], "GPU");
  ASSERT_EQ(json["rows"].size(), 2u);
  EXPECT_EQ(json["rows"][0]["ratio"], 0.37);
  EXPECT_FALSE(json["rows"][0].contains("us"));
  EXPECT_EQ(json["rows"][1]["result"], "SKIP");
  EXPECT_FALSE(json["rows"][1].contains("ratio"));
  rows[0].figures = {.ratio = INFINITY, .us = 2.5, .paper_us = 2};
  const auto other = nlohmann::json::parse(PrintJson("GPU", "2026-01-02", rows));
  EXPECT_EQ(other["rows"][0]["ratio"], "inf");
  EXPECT_EQ(other["rows"][0]["us"], 2.5);
  EXPECT_EQ(other["rows"][0]["paper_us"], 2);
}

TEST(CheckRows, HoldErrorsAgainstTheirTolerance) {
  const std::vector<CheckRow> rows = RunSections({{"numbers",
                                                   [](CheckRows* rows) {
                                                     rows->Hold("close", 1, "all");
                                                     rows->Hold("far", 1.01, "all");
                                                     rows->Hold("lost", NAN, "all");
                                                     rows->Pass("timed", "", {.us = 3});
                                                   }}},
                                                 [](const CheckRow&) {});
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].result, CheckResult::kPass);
  EXPECT_EQ(rows[0].figures.ratio, 1);
  EXPECT_EQ(rows[1].result, CheckResult::kFail);
  EXPECT_EQ(rows[1].figures.ratio, 1.01);
  EXPECT_EQ(rows[2].result, CheckResult::kFail);
  EXPECT_EQ(rows[3].figures.us, 3);
  EXPECT_FALSE(rows[3].figures.ratio.has_value());
}

std::vector<CheckSection> ThreeSections() {
  return {
      {"one", {}, 10, 1, "the first"}, {"two", {}, 10, 2, ""}, {"three", {}, 10, 1, "the last"}};
}
std::string NamesOf(const absl::StatusOr<ChosenSections>& chosen) {
  if (!chosen.ok()) return std::string(chosen.status().message());
  std::string text = chosen->table;
  for (const auto& run : chosen->runs) {
    text += ":";
    for (const CheckSection& section : run) text += " " + section.name;
  }
  return text;
}

TEST(ChosenSections, AreHalvesOrNamed) {
  const struct {
    std::vector<std::string> words;
    const char* chosen;
  } cases[] = {
      {{}, "gpu_check: one three: two"},
      {{"first"}, "gpu_check_first: one three"},
      {{"second"}, "gpu_check_second: two"},
      {{"three", "two"}, "gpu_check: three two"},
      {{"four"},
       "there is no section 'four'; there are one two three; or one of the halves: first second"},
      {{"one", "first"},
       "there is no section 'first'; there are one two three; or one of the halves: first second"},
  };
  for (const auto& one : cases)
    EXPECT_EQ(NamesOf(ChooseSections(ThreeSections(), one.words)), one.chosen);
  EXPECT_EQ(
      DescribeSections(ThreeSections()),
      "  first\n    one         the first\n    three       the last\n  second\n    two         \n");
}

// A table that ends early, or covers a half, names what it lacks.
TEST(ChosenSections, WhatDidNotRunIsInTheTable) {
  const std::vector<CheckSection> all = ThreeSections();
  const std::vector<CheckRow> rows = WithSectionsLeftOut(
      {{"one", "a check", CheckResult::kPass, ""}}, all, *ChooseSections(all, {"first"}));
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].name, "a check");
  EXPECT_EQ(rows[1].section, "two");
  EXPECT_EQ(rows[1].result, CheckResult::kSkip);
  EXPECT_EQ(rows[1].said, "not asked for: tools/gpu_check second runs it");
  EXPECT_EQ(rows[2].section, "three");
  EXPECT_EQ(rows[2].result, CheckResult::kSkip);
  EXPECT_EQ(rows[2].said, "it had not begun when this table was written");
}

}  // namespace
}  // namespace stringline
