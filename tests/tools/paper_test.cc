// tools/gpu/paper: the launches of a step, from the programs of a run; every op has a row in its
// table, and one without is an error.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "stages/ops.h"
#include "tests/tools/tool_run.h"

namespace stringline {
namespace {

// The exit status, and what it said.
int Paper(const std::string& arguments, std::string* said) {
  const std::string file = ScratchFolder() + "/said.txt";
  const int status = std::system(
      absl::StrCat("'", SourceFolder(), "/tools/gpu/paper' ", arguments, " > '", file, "' 2>&1")
          .c_str());
  *said = ReadText(file);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

struct Row {
  int times;
  double megabytes, teraflops;  // each; 0: no product
  double milliseconds;          // of all
};
// By part and launch.
std::map<std::string, Row> RowsOf(const std::string& said) {
  std::map<std::string, Row> rows;
  for (const absl::string_view line : absl::StrSplit(said, '\n')) {
    std::vector<std::string> cells = absl::StrSplit(line, '|');
    for (std::string& cell : cells) absl::StripAsciiWhitespace(&cell);
    if (cells.size() != 9) continue;
    Row row = {};
    if (!absl::SimpleAtoi(cells[3], &row.times)) continue;
    EXPECT_TRUE(absl::SimpleAtod(cells[4], &row.megabytes)) << line;
    if (!cells[5].empty()) {
      EXPECT_TRUE(absl::SimpleAtod(cells[5], &row.teraflops)) << line;
    }
    EXPECT_TRUE(absl::SimpleAtod(cells[7], &row.milliseconds)) << line;
    rows[absl::StrCat(cells[1], ": ", cells[2])] = row;
  }
  return rows;
}

bool HasPython() { return std::system("python3 --version > /dev/null 2>&1") == 0; }

TEST(PaperTest, ListsTheLaunchesOfAStep) {
  if (!HasPython()) GTEST_SKIP() << "python3 is missing";
  const std::string run = ScratchFolder() + "/run.yaml";
  WriteText(run, absl::StrCat("schedule: {file: ", SourceFolder(),
                              "/schedules/1f1b.sched, P: 1, M: 1}\n"
                              "precision: bf16\n"
                              "model: {kind: gpt, layers: 2, width: 768, heads: 12, context: 1024, "
                              "vocabulary: 50304}\n"
                              "data: {text: any, microbatch: 32}\n"
                              "train: {steps: 1, learning_rate: 1e-3}\n"));
  std::string said;
  ASSERT_EQ(Paper(absl::StrCat("--launches --tool '", STRINGLINE_TOOL, "' '", run, "'"), &said), 0)
      << said;
  const std::map<std::string, Row> rows = RowsOf(said);
  const struct {
    const char* name;
    int times;
    double megabytes;
  } expected[] = {
      // Two layers with two norms, two products with a bias, and two with a residual; the last
      // norm.
      {"forward: layer norm", 5, 100.9},
      {"forward: attention", 2, 202.9},
      {"forward: y = x w' + b", 4, 230.6},
      {"forward: y = x w' + b + z", 4, 229.4},
      {"forward: gelu", 2, 4 * 32768 * 3072e-6},
      {"forward: y = x w'", 1, 3424.3},
      {"forward: loss with its gradient", 1, 2 * 2 * 32768 * 50304e-6 + 0.3},
      // One of five norms has no residual after it.
      {"backward: gradient of layer norm", 1, 156.1},
      {"backward: gradient of layer norm, z added", 4, 206.5},
      {"backward: gradient of layer norm, sums", 5, 4.9},
      {"backward: dx = dy w gelu'(u)", 2, 457.7},
      {"backward: dx = dy w", 7, -1},
      {"backward: dw += dy' x", 9, -1},
      {"backward: column sum", 8, -1},
      {"backward: gradient of attention", 2, -1},
  };
  for (const auto& row : expected) {
    const auto found = rows.find(row.name);
    ASSERT_NE(found, rows.end()) << row.name << " is not in\n" << said;
    EXPECT_EQ(found->second.times, row.times) << row.name;
    if (row.megabytes > 0) {
      EXPECT_NEAR(found->second.megabytes, row.megabytes, 0.2) << row.name;
    }
  }
  EXPECT_EQ(rows.count("backward: gradient of loss"), 0u);
  EXPECT_EQ(rows.count("backward: add"), 0u);
  for (const auto& [name, row] : rows) EXPECT_LE(row.teraflops, 700) << name;
  std::string other;
  ASSERT_EQ(Paper(absl::StrCat("--launches --not-deterministic --tool '", STRINGLINE_TOOL, "' '",
                               run, "'"),
                  &other),
            0);
  const double less = rows.at("backward: gradient of attention").megabytes -
                      RowsOf(other).at("backward: gradient of attention").megabytes;
  EXPECT_NEAR(less, 2 * 32 * 12 * 1024e-6 * 1024, 0.2);

  // The ops are those of the programs, and their times are those of the launches.
  const std::string file = ScratchFolder() + "/paper.json";
  ASSERT_EQ(
      Paper(absl::StrCat("--ops '", file, "' --tool '", STRINGLINE_TOOL, "' '", run, "'"), &other),
      0)
      << other;
  const auto ops = nlohmann::json::parse(ReadText(file));
  double us = 0, of_launches = 0;
  for (const auto& [op, value] : ops.items()) {
    const bool is_known = std::any_of(AllOps().begin(), AllOps().end(),
                                      [&op = op](const OpRow& row) { return row.name == op; });
    EXPECT_TRUE(is_known) << op;
    us += value.get<double>();
  }
  for (const auto& [name, row] : rows) {
    if (!absl::StartsWith(name, "update: ")) of_launches += row.milliseconds * 1000;
  }
  EXPECT_NEAR(us, of_launches, 0.01 * static_cast<double>(rows.size()) * 1000);
  EXPECT_GT(us, 1000);
}

TEST(PaperTest, EveryOpHasARow) {
  const std::string script = ReadText(SourceFolder() + "/tools/gpu/paper");
  const size_t table = script.find("\nOPS = {");
  ASSERT_NE(table, std::string::npos);
  const std::string rows = script.substr(table, script.find("\n}", table) - table);
  for (const OpRow& op : AllOps()) {
    if (IsOfAnyTensor(op.op)) continue;  // of CPUs alone
    EXPECT_TRUE(absl::StrContains(rows, absl::StrCat("\n    '", op.name, "': "))) << op.name;
  }
}

TEST(PaperTest, AnOpWithoutARowIsAnErrorByName) {
  if (!HasPython()) GTEST_SKIP() << "python3 is missing";
  const std::string tool = ScratchFolder() + "/tool";
  WriteText(
      tool,
      "#!/bin/sh\necho '{\"ok\": true, \"programs\": [{\"first\": true, \"inputs\": "
      "[{\"type\": \"i32[1,2]\"}], \"params\": [], \"forward\": {\"inputs\": [], \"outputs\": [], "
      "\"nodes\": [{\"op\": \"surprise\", \"operands\": [], \"results\": [], \"types\": "
      "[], \"attributes\": {}}]}, \"backward\": {}}]}'\n");
  std::filesystem::permissions(tool, std::filesystem::perms::owner_all);
  std::string said;
  EXPECT_NE(Paper(absl::StrCat("--tool '", tool, "' any.yaml"), &said), 0);
  EXPECT_EQ(said.substr(said.find("paper:")),
            "paper: the table OPS has no row for the op surprise\n");
  EXPECT_NE(Paper("--tool /missing any.yaml", &said), 0);
}

}  // namespace
}  // namespace stringline
