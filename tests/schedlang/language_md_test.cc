// The examples of LANGUAGE.md are run, and the document has a line for every action.
//
// A block "```schedule P=2 M=3" elaborates and passes every check; a "```plan" after it is its
// plan; the "#> " lines of a block "```error P=2 M=3" are its findings.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "schedlang/check/check.h"
#include "schedlang/elaborate/elaborate.h"
#include "schedlang/lower/lower.h"
#include "tests/schedlang/elaborated.h"

namespace stringline {
namespace {

struct Block {
  std::string kind;        // the word after the fence
  std::string parameters;  // the rest of the first line
  std::string text;        // without lines that begin with "#>"
  std::string answer;      // the lines of the answer, without their "#> "
};

std::vector<Block> BlocksOf(const std::string& document) {
  std::vector<Block> blocks;
  bool inside = false;
  for (const absl::string_view line : absl::StrSplit(document, '\n')) {
    if (line.substr(0, 3) == "```") {
      inside = !inside;
      if (!inside) continue;
      const std::vector<std::string> words =
          absl::StrSplit(line.substr(3), absl::MaxSplits(' ', 1));
      blocks.push_back({words[0], words.size() > 1 ? words[1] : "", "", ""});
    } else if (inside && line.substr(0, 3) == "#> ") {
      absl::StrAppend(&blocks.back().answer, line.substr(3), "\n");
    } else if (inside) {
      absl::StrAppend(&blocks.back().text, line, "\n");
    }
  }
  return blocks;
}

std::string FindingsOfCheck(const Block& block) {
  Source source("x.sched", block.text);
  Diagnostics diagnostics;
  const auto file = ParseWithUses(&source, UsedFrom("schedules"), &diagnostics);
  if (file) {
    const auto plan = Elaborate(*file, "", ParametersOf(block.parameters), &diagnostics);
    if (plan) Check(Lower(*plan), &diagnostics);
  }
  return Render(diagnostics, source);
}

TEST(LanguageMd, ExamplesDoWhatTheySay) {
  std::string last_plan;
  int schedules = 0, plans = 0, errors = 0;
  for (const Block& block : BlocksOf(ReadTestFile("schedlang/LANGUAGE.md"))) {
    SCOPED_TRACE(block.text);
    if (block.kind == "schedule") {
      EXPECT_EQ(FindingsOfCheck(block), "");
      last_plan = Elaborated(block.text, ParametersOf(block.parameters));
      ++schedules;
    } else if (block.kind == "plan") {
      EXPECT_EQ(block.text, last_plan);
      ++plans;
    } else {
      EXPECT_EQ(block.kind, "error");
      EXPECT_NE(block.answer, "");
      EXPECT_EQ(FindingsOfCheck(block), block.answer);
      ++errors;
    }
  }
  EXPECT_GE(schedules, 6);
  EXPECT_GE(plans, 4);
  EXPECT_GE(errors, 3);
}

TEST(LanguageMd, HasALineForEveryAction) {
  const std::string document = ReadTestFile("schedlang/LANGUAGE.md");
  for (int kind = 0; kind < kActionKinds; ++kind) {
    if (IsOwn(static_cast<ActionKind>(kind))) continue;  // named by the schedule
    const std::string row = absl::StrCat("| `", PrintedKind(static_cast<ActionKind>(kind)), "` |");
    EXPECT_NE(document.find(row), std::string::npos) << row;
  }
}

}  // namespace
}  // namespace stringline
