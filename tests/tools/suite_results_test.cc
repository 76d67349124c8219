// The results of a suite: the JSON, read back whole or refused, and the page.
#include "tests/tools/suite_results.h"

#include <gtest/gtest.h>

#include "absl/strings/str_replace.h"
#include "tests/tools/tool_run.h"
#include "tools/bench/page.h"
#include "tools/bench/results.h"

namespace stringline {
namespace {

std::string FileOf(const std::string& text) {
  const std::string path = ScratchFolder() + "/results.json";
  WriteText(path, text);
  return path;
}

TEST(SuiteResultsTest, AreReadAsTheyWereWritten) {
  const std::string text = Print(MadeResults());
  const auto read = ReadResults(FileOf(text));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(Print(*read), text);
}

TEST(SuiteResultsTest, AreSummarised) {
  const Json json = AsJson(MadeResults());
  const Json& summary = json["cases"][0]["summary"];
  EXPECT_EQ(summary["step_us"], 100'000);
  EXPECT_NEAR(summary["quartiles_us"][0].get<double>(), 90'000, 1e-6);
  EXPECT_NEAR(summary["quartiles_us"][1].get<double>(), 110'000, 1e-6);
  EXPECT_EQ(summary["repetitions_us"].size(), 5u);
  EXPECT_EQ(summary["processor_us"], 150'000);
  EXPECT_NEAR(summary["tokens_per_second"].get<double>(), 640, 1e-6);
  EXPECT_EQ(summary["measured_bubble"], 0.25);
  EXPECT_TRUE(json["cases"][1]["summary"]["measured_bubble"].is_null());
  EXPECT_TRUE(json["cases"][3]["summary"].is_null());
  EXPECT_EQ(json["cases"][3]["reason"], "no | torch\nhere");
}

TEST(SuiteResultsTest, WhatIsNotWholeIsRefused) {
  const std::string text = Print(MadeResults());
  // A JSON cut anywhere is refused; the last character but one closes the object.
  for (const size_t length : {size_t{0}, size_t{1}, text.size() / 3, text.size() - 2}) {
    const auto read = ReadResults(FileOf(text.substr(0, length)));
    ASSERT_FALSE(read.ok());
    EXPECT_NE(read.status().message().find("results.json: no results of a suite: it is cut short"),
              absl::string_view::npos)
        << read.status();
  }
  const struct {
    const char* from;
    const char* to;
    const char* says;
  } kWrong[] = {
      {"\"form\": 1", "\"form\": 2", "its form is 2, and not 1"},
      {"\"form\": 1", "\"from\": 1", "key 'form' not found"},
      {"\"step_us\": [", "\"steps_us\": [", "key 'step_us' not found"},
      {"\"loss\": 5.0", "\"loss\": \"5\"", "must be number"},
      {"\"settings\": {", "\"settings\": 3, \"was\": {", "cannot use at()"},
  };
  for (const auto& wrong : kWrong) {
    const std::string changed = absl::StrReplaceAll(text, {{wrong.from, wrong.to}});
    ASSERT_NE(changed, text) << wrong.from;
    const auto read = ReadResults(FileOf(changed));
    ASSERT_FALSE(read.ok()) << wrong.to;
    EXPECT_NE(read.status().message().find(wrong.says), absl::string_view::npos) << read.status();
  }
  EXPECT_FALSE(ReadResults(FileOf("[]")).ok());
  EXPECT_TRUE(absl::IsNotFound(ReadResults(ScratchFolder() + "/none.json").status()));
}

TEST(SuitePageTest, HasOursBesideTorchs) {
  const std::string folder = ScratchFolder();
  WriteText(folder + "/results.json", Print(MadeResults()));
  const Answer answer = RunToolIn(folder, Words("bench results.json --page made/page.md"));
  EXPECT_EQ(answer.status, 0) << answer.err;
  const std::string page = ReadText(folder + "/made/page.md");
  EXPECT_EQ(page, PrintPage(MadeResults()));
  for (const char* const line :
       {"`stringline bench made.yaml --page` has measured and written this page.",
        "5 repetitions of 3 steps, after 1 that do not count",
        "2026-01-02: 2 cores of a made CPU, 16 GiB of memory. Stringline 0.1.0 (c++ 1), torch "
        "2.15.0.",
        "- small: `{layers: 4}`",
        "| small | 1f1b P=2 M=4 | ScheduleMade | 200 ms | 100 ms | 2.00x | 300 ms | 150 ms | 2.00x "
        "| "
        "64 MiB | 64 MiB |",
        "| small | zb_h1 P=2 M=4 | 90 ms | 81 ms to 99 ms | 711 | 135 ms | 25.0 % | 20.0 % | 64 "
        "MiB | "
        "5.0000 |",
        "| small in fp32, 64 tokens a step | 0.0e+00 |  | 0.0e+00 | the same |",
        "| small | zb_h1 P=2 M=4 | torch | no \\| torch here |",
        "by more than 5 % in 0 of 15 repetitions"}) {
    EXPECT_NE(page.find(line), std::string::npos) << line << "\n" << page;
  }
  EXPECT_NE(answer.out.find("small 1f1b P=2 M=4 fp32"), std::string::npos) << answer.out;
  EXPECT_NE(answer.out.find("2.00x"), std::string::npos) << answer.out;
  EXPECT_NE(answer.out.find("none"), std::string::npos) << answer.out;
}

}  // namespace
}  // namespace stringline
