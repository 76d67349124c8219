// Tests that are files: every file under tests/golden.
//
// The first line is a command, `# check P=2 M=4`; the command reads the file itself, and trailing
// `#> ` lines are the expected output, standard output before standard error. A file NAME.golden
// reads others: its commands name their files, seen from the top of the repository, and each is
// followed by its own output. UPDATE_GOLDEN=1 rewrites the output. Inputs of other tests (.csv,
// .pt2, .json, .pickle), README.md and hidden files are no tests.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "tests/tools/tool_run.h"

namespace stringline {
namespace {

namespace fs = std::filesystem;

std::string GoldenFolder() { return SourceFolder() + "/tests/golden"; }

std::string AsExpected(const Answer& answer) {
  std::string text;
  for (const std::string& line : Lines(answer.out + answer.err)) {
    text += line.empty() ? "#>\n" : "#> " + line + "\n";
  }
  if (answer.status != 0) text += "#> (exit status " + std::to_string(answer.status) + ")\n";
  return text;
}

bool IsExpectedLine(const std::string& line) { return line.rfind("#>", 0) == 0; }

// The file with the tool's present output.
std::string Regenerate(const fs::path& path) {
  const bool list = path.extension() == ".golden";
  std::string text;
  std::string output;
  bool first = true;
  for (const std::string& line : Lines(ReadText(path.string()))) {
    if (IsExpectedLine(line)) continue;
    text += line + "\n";
    const bool command = line.rfind("# ", 0) == 0 && (list || first);
    first = false;
    if (!command) continue;
    std::vector<std::string> words = Words(line.substr(2));
    if (list) {
      text += AsExpected(RunToolIn(SourceFolder(), words));
      continue;
    }
    words.insert(words.begin() + 1, path.filename().string());
    output = AsExpected(RunToolIn(path.parent_path().string(), words));
  }
  return text + output;
}

size_t FirstDifference(const std::string& a, const std::string& b) {
  const std::vector<std::string> first = Lines(a);
  const std::vector<std::string> second = Lines(b);
  size_t line = 0;
  while (line < first.size() && line < second.size() && first[line] == second[line]) ++line;
  return line + 1;
}

class GoldenTest : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenTest, PrintsWhatTheFileSays) {
  const fs::path path = fs::path(GoldenFolder()) / GetParam();
  const std::string found = Regenerate(path);
  const std::string expected = ReadText(path.string());
  if (UpdatesGolden()) {
    if (found != expected) WriteText(path.string(), found);
    return;
  }
  if (found == expected) return;
  ADD_FAILURE() << path.string() << " says\n"
                << expected << "\nbut it should be\n"
                << found << "\nThey differ first in line " << FirstDifference(found, expected)
                << "; UPDATE_GOLDEN=1 rewrites the file";
}

// A file for other tests or for readers.
bool IsData(const fs::path& path) {
  for (const char* const kind : {".csv", ".pt2", ".md", ".json", ".pickle"}) {
    if (path.extension() == kind) return true;
  }
  return path.filename().string()[0] == '.';
}

std::vector<std::string> GoldenFiles() {
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(GoldenFolder())) {
    if (entry.is_regular_file() && !IsData(entry.path())) {
      files.push_back(fs::relative(entry.path(), GoldenFolder()).string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

INSTANTIATE_TEST_SUITE_P(Files, GoldenTest, ::testing::ValuesIn(GoldenFiles()),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) {
                             if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace stringline
