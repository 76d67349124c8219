// What the documents show is what the tool prints: in a ```console block of README.md or of an
// example, `$ stringline …` is run from the top of the repository, and the lines up to the next `$`
// are its output. A line `…` stands for any lines. UPDATE_GOLDEN=1 rewrites the output of commands
// without one.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "tests/tools/tool_run.h"

namespace stringline {
namespace {

namespace fs = std::filesystem;
using Text = std::vector<std::string>;

std::string Joined(const Text& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

// A command that trains is shown but not run here.
bool IsRun(const std::string& line) {
  return line.rfind("$ stringline ", 0) == 0 && line.rfind("$ stringline run", 0) != 0;
}

Text OutputOf(const std::string& line) {
  std::vector<std::string> words = Words(line.substr(2));
  words.erase(words.begin());
  const Answer answer = RunToolIn(SourceFolder(), words);
  Text lines = Lines(answer.out + answer.err);
  for (std::string& text : lines) {
    while (!text.empty() && text.back() == ' ') text.pop_back();
  }
  return lines;
}

// Does `found` read as `shown` does, where a line "…" stands for any lines?
bool Matches(const Text& shown, const Text& found, size_t s = 0, size_t f = 0) {
  if (s == shown.size()) return f == found.size();
  if (shown[s] == "…") {
    for (size_t skip = f; skip <= found.size(); ++skip) {
      if (Matches(shown, found, s + 1, skip)) return true;
    }
    return false;
  }
  return f < found.size() && shown[s] == found[f] && Matches(shown, found, s + 1, f + 1);
}

// Checks the blocks of one document; returns how many commands it ran, and the text as it should
// be.
int CheckBlocks(const std::string& path, Text* fresh) {
  int ran = 0;
  bool inside = false;
  const Text lines = Lines(ReadText(path));
  for (size_t i = 0; i < lines.size(); ++i) {
    fresh->push_back(lines[i]);
    if (lines[i].rfind("```", 0) == 0) inside = lines[i] == "```console";
    if (!inside || !IsRun(lines[i])) continue;
    Text shown;
    size_t end = i + 1;
    while (end < lines.size() && lines[end].rfind("```", 0) != 0 &&
           lines[end].rfind("$ ", 0) != 0) {
      shown.push_back(lines[end++]);
    }
    const Text found = OutputOf(lines[i]);
    const bool elided = std::find(shown.begin(), shown.end(), "…") != shown.end();
    const bool keep = elided || !UpdatesGolden();
    EXPECT_TRUE(!keep || Matches(shown, found)) << path << ": " << lines[i] << "\nshows\n"
                                                << Joined(shown) << "but prints\n"
                                                << Joined(found);
    fresh->insert(fresh->end(), keep ? shown.begin() : found.begin(),
                  keep ? shown.end() : found.end());
    i = end - 1;
    ++ran;
  }
  return ran;
}

TEST(DocumentsTest, ShowWhatTheToolPrints) {
  std::vector<std::string> documents;
  for (const char* const file : {"README.md", "tools/README.md", "schedules/README.md"}) {
    if (fs::exists(SourceFolder() + "/" + file)) documents.push_back(SourceFolder() + "/" + file);
  }
  for (const auto& entry : fs::recursive_directory_iterator(SourceFolder() + "/examples")) {
    if (entry.path().extension() == ".md") documents.push_back(entry.path().string());
  }
  std::sort(documents.begin(), documents.end());
  int ran = 0;
  for (const std::string& path : documents) {
    Text fresh;
    ran += CheckBlocks(path, &fresh);
    if (UpdatesGolden() && Joined(fresh) != ReadText(path)) WriteText(path, Joined(fresh));
  }
  EXPECT_GE(ran, 8);
}

}  // namespace
}  // namespace stringline
