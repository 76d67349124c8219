// Files of every format as earlier versions wrote them, under tests/formats/VERSION: this version
// reads each with the same meaning. They are never rewritten (CONTRIBUTING.md, Versions and
// formats).
//
//   NAME.sched, .plan, .timeline  the first line is a command of the file, `# plan P=2 M=3`; the
//                                 `#> ` lines at the end are its answer; NAME.sched.found: orders
//                                 that a search of that version has found
//   answers.txt                   `$ command` lines, each followed by its answer in JSON: every key
//                                 is still there, with a value of the same type
//   run/                          run.yaml, a checkpoint of it, and the losses of the whole run
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tests/tools/tool_run.h"

namespace stringline {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> FilesOf(const std::string& version) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(SourceFolder() + "/tests/formats/" + version)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::string> Versions() {
  std::vector<std::string> versions;
  for (const auto& entry : fs::directory_iterator(SourceFolder() + "/tests/formats")) {
    if (entry.is_directory()) versions.push_back(entry.path().filename().string());
  }
  std::sort(versions.begin(), versions.end());
  return versions;
}

class FormatsTest : public ::testing::TestWithParam<std::string> {};

// Files are read in a copy: a search that finds no orders for this version writes its own.
TEST_P(FormatsTest, TextsMeanTheSame) {
  const std::string folder = ScratchFolder() + "/formats";
  fs::create_directories(folder);
  for (const fs::path& path : FilesOf(GetParam())) {
    fs::copy(path, folder, fs::copy_options::overwrite_existing);
  }
  int seen = 0;
  for (const fs::path& path : FilesOf(GetParam())) {
    if (path.filename() == "answers.txt" || path.extension() == ".found") continue;
    SCOPED_TRACE(path.string());
    const std::vector<std::string> lines = Lines(ReadText(path.string()));
    ASSERT_FALSE(lines.empty());
    ASSERT_EQ(lines[0].rfind("# ", 0), 0U);
    std::vector<std::string> words = Words(lines[0].substr(2));
    words.insert(words.begin() + 1, path.filename().string());
    std::string expected;
    for (const std::string& line : lines) {
      if (line.rfind("#>", 0) == 0)
        absl::StrAppend(&expected, line.size() > 3 ? line.substr(3) : "", "\n");
    }
    const Answer answer = RunToolIn(folder, words);
    EXPECT_EQ(answer.status, 0);
    EXPECT_EQ(answer.out + answer.err, expected);
    ++seen;
  }
  EXPECT_GT(seen, 10);
}

// "report.causes[].share_us": the path of every value, with its type; the elements of a list share
// a path.
void ListKeys(const nlohmann::json& value, const std::string& place,
              std::vector<std::string>* keys) {
  if (value.is_object()) {
    for (const auto& [key, inner] : value.items())
      ListKeys(inner, absl::StrCat(place, ".", key), keys);
  } else if (value.is_array()) {
    for (const auto& inner : value) ListKeys(inner, place + "[]", keys);
  } else {
    keys->push_back(absl::StrCat(place, ": ", value.is_number() ? "number" : value.type_name()));
  }
}

std::vector<std::string> KeysOf(const std::string& text) {
  std::vector<std::string> keys;
  ListKeys(nlohmann::json::parse(text), "", &keys);
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return keys;
}

TEST_P(FormatsTest, JsonKeepsItsKeys) {
  const std::string path =
      absl::StrCat(SourceFolder(), "/tests/formats/", GetParam(), "/answers.txt");
  std::string command, text;
  int seen = 0;
  const auto compare = [&] {
    if (command.empty()) return;
    SCOPED_TRACE(command);
    const Answer answer = RunToolIn(SourceFolder(), Words(command));
    ASSERT_EQ(answer.status, 0) << answer.err;
    const std::vector<std::string> now = KeysOf(answer.out);
    for (const std::string& key : KeysOf(text)) {
      EXPECT_TRUE(std::binary_search(now.begin(), now.end(), key)) << key << " is no more";
    }
    ++seen;
  };
  for (const std::string& line : Lines(ReadText(path))) {
    if (line.rfind("$ ", 0) != 0) {
      absl::StrAppend(&text, line, "\n");
      continue;
    }
    compare();
    command = line.substr(2);
    text.clear();
  }
  compare();
  EXPECT_GT(seen, 5);
}

// Step and loss of each line of losses.csv.
std::vector<std::pair<int, double>> LossesOf(const std::string& text) {
  std::vector<std::pair<int, double>> losses;
  for (const std::string& line : Lines(text)) {
    const std::vector<std::string> cells = absl::StrSplit(line, ',');
    int step = 0;
    double loss = 0;
    if (cells.size() < 2 || !absl::SimpleAtoi(cells[0], &step)) continue;
    EXPECT_TRUE(absl::SimpleAtod(cells[1], &loss)) << line;
    losses.emplace_back(step, loss);
  }
  return losses;
}

TEST_P(FormatsTest, CheckpointsAreResumed) {
  const std::string folder = absl::StrCat(SourceFolder(), "/tests/formats/", GetParam(), "/run");
  const std::string scratch = ScratchFolder() + "/formats";
  fs::remove_all(scratch);
  fs::create_directories(scratch);
  fs::copy(folder, scratch, fs::copy_options::recursive);
  const Answer answer =
      RunToolIn(scratch, {"run", "run.yaml", "--out", "out", "--resume", "checkpoints"});
  ASSERT_EQ(answer.status, 0) << answer.out << answer.err;
  const auto expected = LossesOf(ReadText(folder + "/losses.csv"));
  const auto found = LossesOf(ReadText(scratch + "/out/losses.csv"));
  ASSERT_GE(expected.size(), 2U);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].first, expected[i].first);
    // Another processor sums in another order.
    EXPECT_NEAR(found[i].second, expected[i].second, 1e-4) << "step " << found[i].first;
  }
}

INSTANTIATE_TEST_SUITE_P(Versions, FormatsTest, ::testing::ValuesIn(Versions()),
                         [](const auto& info) {
                           return "v" + absl::StrJoin(absl::StrSplit(info.param, '.'), "_");
                         });

}  // namespace
}  // namespace stringline
