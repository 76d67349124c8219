// The golden files of tests/golden/errors that the language alone answers: parsed and elaborated
// here, without the tool. Every finding of the parser and the elaborator has one.
//
// First line: `# check P=2 M=4`, with `--schedule NAME` for any schedule but the file's last; last
// lines: the findings as `#> ` lines. UPDATE_GOLDEN=1 rewrites those.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "schedlang/elaborate/elaborate.h"
#include "tests/schedlang/elaborated.h"

namespace stringline {
namespace {

struct Golden {
  std::vector<std::string> input;     // lines
  std::vector<std::string> expected;  // lines, without their "#> "
};

Golden ReadGolden(const std::string& path) {
  Golden golden;
  std::vector<std::string> lines = absl::StrSplit(ReadTestFile(path), '\n');
  lines.pop_back();
  for (const std::string& line : lines) {
    if (line.rfind("#>", 0) == 0) {
      golden.expected.push_back(line.size() > 3 ? line.substr(3) : "");
    } else {
      golden.input.push_back(line);
    }
  }
  return golden;
}

// The options of the first line.
struct Command {
  std::string schedule;
  std::vector<Parameter> parameters;
};

Command CommandOf(const std::string& line) {
  Command command;
  std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
  EXPECT_GE(words.size(), 2u) << line;
  for (size_t i = 2; i < words.size(); ++i) {
    if (words[i] == "--schedule") {
      command.schedule = words.at(++i);
    } else {
      command.parameters.push_back(ParametersOf(words[i]).front());
    }
  }
  return command;
}

void CheckFile(const CodeRow& row) {
  const std::string name = absl::StrCat(row.slug, ".sched");
  const std::string path = absl::StrCat("tests/golden/errors/", name);
  const Golden golden = ReadGolden(path);
  ASSERT_FALSE(golden.input.empty()) << path;
  const Command command = CommandOf(golden.input.front());

  const std::string input = absl::StrCat(absl::StrJoin(golden.input, "\n"), "\n");
  Source source(name, input);
  Diagnostics diagnostics;
  const auto file = ParseWithUses(&source, UsedFrom("tests/golden/errors"), &diagnostics);
  if (file) Elaborate(*file, command.schedule, command.parameters, &diagnostics);

  ASSERT_FALSE(diagnostics.empty()) << path;
  for (const Diagnostic& d : diagnostics.findings()) EXPECT_STREQ(SlugOf(d.code), row.slug);
  // For missing or unknown parameters the tool prints a line without the text.
  if (row.code == Code::kMissingParameter || row.code == Code::kUnknownParameter) return;
  std::vector<std::string> found = absl::StrSplit(Render(diagnostics, source), '\n');
  found.back() = "(exit status 1)";
  if (std::getenv("UPDATE_GOLDEN") != nullptr) {
    std::ofstream out(absl::StrCat(STRINGLINE_SOURCE_DIR, "/", path));
    out << input;
    for (const std::string& line : found) out << (line.empty() ? "#>" : "#> ") << line << "\n";
  } else {
    EXPECT_EQ(found, golden.expected) << path;
  }
}

TEST(Findings, EveryOneOfTheLanguageHasAFileThatShowsIt) {
  int checked = 0;
  for (const CodeRow& row : AllCodes()) {
    if (row.code > Code::kLeftInOrder) continue;  // the parser's and the elaborator's come first
    CheckFile(row);
    ++checked;
  }
  EXPECT_GT(checked, 30);
}

}  // namespace
}  // namespace stringline
