#include "tools/gpu/run_sections.h"

#include <poll.h>
#include <unistd.h>

#include <csignal>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

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
  const std::vector<CheckRow> rows = {{"kernels", "gelu", CheckResult::kPass, "1e-7 | 2 TB/s"},
                                      {"speed", "124M", CheckResult::kSkip, "no torch"}};
  EXPECT_EQ(PrintMarkdown("GPU", "2026-01-02", rows),
            "GPU, 2026-01-02\n\n| section | check | | |\n|---|---|---|---|\n"
            "| kernels | gelu | PASS | 1e-7 / 2 TB/s |\n| speed | 124M | SKIP | no torch |\n\n"
            "1 passed, 0 failed, 1 skipped\n");
  const auto json = nlohmann::json::parse(PrintJson("GPU", "2026-01-02", rows));
  EXPECT_EQ(json["device"], "GPU");
  ASSERT_EQ(json["rows"].size(), 2u);
  EXPECT_EQ(json["rows"][1]["result"], "SKIP");
}

}  // namespace
}  // namespace stringline
