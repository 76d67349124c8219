// The documents show the tool's output: in a ```console block of README.md or of an example, `$
// stringline …` is run from the top of the repository, and the lines up to the next `$` are its
// output. A line `…` stands for any lines. UPDATE_GOLDEN=1 rewrites the output of commands without
// a `…`.
//
// `$ stringline run …` trains two steps on a short text: only the output lines without numbers are
// compared. The same holds for `$ examples/…`, a script of an example: the script gets a folder to
// write to, and has to end with 0. A run in several processes starts the tool itself anew, so it is
// not run in this process.
//
// Links of all documents lead to files that exist, and to headings in them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
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

bool IsScript(const std::string& line) { return line.rfind("$ examples/", 0) == 0; }
bool IsRun(const std::string& line) {
  return line.rfind("$ stringline ", 0) == 0 || IsScript(line);
}
bool Trains(const std::string& line) {
  return line.rfind("$ stringline run ", 0) == 0 || IsScript(line);
}

// The short command that is run for a shown training command.
Text ShortRun(const Text& words) {
  Text run;
  for (size_t i = 0; i < words.size(); ++i) {
    const bool replaced = words[i] == "--text" || words[i] == "--out" || words[i] == "--steps";
    i += replaced ? 1 : 0;
    if (!replaced) run.push_back(words[i]);
  }
  for (const char* const word : {"--steps", "2", "--text", "schedlang/LANGUAGE.md", "--out"}) {
    run.push_back(word);
  }
  run.push_back(ScratchFolder() + "/short_run");
  return run;
}

// The output of a shell, including standard error, at the top of the repository.
Text OutputOfShell(const std::string& command) {
  const std::string said = ScratchFolder() + "/shell.txt";
  const std::string line =
      absl::StrCat("cd '", SourceFolder(), "' && STRINGLINE='", STRINGLINE_TOOL, "' timeout 300 ",
                   command, " > '", said, "' 2>&1");
  const int status = std::system(line.c_str());
  EXPECT_EQ(status, 0) << command << "\n" << ReadText(said);
  return Lines(ReadText(said));
}

Text OutputOf(const std::string& line) {
  if (IsScript(line)) {
    return OutputOfShell(absl::StrCat(line.substr(2), " '", ScratchFolder(), "/script'"));
  }
  std::vector<std::string> words = Words(line.substr(2));
  words.erase(words.begin());
  if (Trains(line)) words = ShortRun(words);
  if (std::find(words.begin(), words.end(), "--processes") != words.end()) {
    return OutputOfShell(absl::StrCat(STRINGLINE_TOOL, " ", absl::StrJoin(words, " ")));
  }
  const Answer answer = RunToolIn(SourceFolder(), words);
  if (Trains(line)) {
    EXPECT_EQ(answer.status, 0) << line << "\n" << answer.out << answer.err;
  }
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

// Compares the shown output of a training run without its numbers, which are never the same twice.
bool MatchesRun(const Text& shown, const Text& found) {
  return std::all_of(shown.begin(), shown.end(), [&](const std::string& line) {
    return line == "…" || line.find_first_of("0123456789") != std::string::npos ||
           std::find(found.begin(), found.end(), line) != found.end();
  });
}

// Checks the blocks of a document; returns the number of commands run, and the text with fresh
// output.
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
    const bool keep = elided || Trains(lines[i]) || !UpdatesGolden();
    EXPECT_TRUE(!keep || (Trains(lines[i]) ? MatchesRun(shown, found) : Matches(shown, found)))
        << path << ": " << lines[i] << "\nshows\n"
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

// The paths of all documents, relative to the top of the repository.
std::vector<std::string> AllDocuments() {
  std::vector<std::string> documents;
  const fs::path top = SourceFolder();
  for (auto entry = fs::recursive_directory_iterator(top);
       entry != fs::recursive_directory_iterator(); ++entry) {
    const std::string name = entry->path().filename().string();
    // Hidden folders, and those that builds and runs write at the top.
    const bool is_written = entry.depth() == 0 && (name == "build" || name == "out");
    if (entry->is_directory() && (name[0] == '.' || is_written)) entry.disable_recursion_pending();
    if (entry->path().extension() == ".md") {
      documents.push_back(fs::relative(entry->path(), top).string());
    }
  }
  std::sort(documents.begin(), documents.end());
  return documents;
}

// The lines of a document outside of its code.
Text Prose(const std::string& document) {
  Text prose;
  bool is_code = false;
  for (const std::string& line : Lines(ReadText(SourceFolder() + "/" + document))) {
    const bool fence = line.rfind("```", 0) == 0;
    if (fence) is_code = !is_code;
    prose.push_back(fence || is_code ? "" : line);
  }
  return prose;
}

// A heading's name in links, as GitHub makes it: letters, digits and '-', blanks as '-'.
std::string AnchorOf(const std::string& heading) {
  std::string anchor;
  for (const char c : heading) {
    if (c == ' ') anchor += '-';
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) || c == '-' || c == '_' || byte >= 0x80) {
      anchor += static_cast<char>(std::tolower(byte));
    }
  }
  return anchor;
}

bool HasHeading(const std::string& document, const std::string& anchor) {
  const Text prose = Prose(document);
  return std::any_of(prose.begin(), prose.end(), [&anchor](const std::string& line) {
    const size_t level = line.find_first_not_of('#');
    return level != 0 && level != std::string::npos && line[level] == ' ' &&
           AnchorOf(line.substr(level + 1)) == anchor;
  });
}

// The targets of links in a line, without those in `code`.
Text LinksIn(const std::string& line) {
  static const std::regex code("`[^`]*`"), link("\\]\\(([^)\\s]+)\\)");
  const std::string text = std::regex_replace(line, code, "");
  Text targets;
  for (std::sregex_iterator at(text.begin(), text.end(), link), end; at != end; ++at) {
    targets.push_back((*at)[1]);
  }
  return targets;
}

// The reason why a link of a document leads nowhere; "" if it leads somewhere.
std::string WhyDead(const std::string& document, const std::string& target) {
  const size_t hash = target.find('#');
  const std::string file = target.substr(0, hash);
  const std::string path =
      file.empty() ? document
                   : (fs::path(document).parent_path() / file).lexically_normal().string();
  if (!fs::exists(SourceFolder() + "/" + path)) return "there is no " + path;
  if (hash == std::string::npos || HasHeading(path, target.substr(hash + 1))) return "";
  return path + " has no heading for it";
}

TEST(DocumentsTest, DeadLinksAreSeen) {
  EXPECT_EQ(LinksIn("a [b](c.md#d) `[e](f)` ![g](h.svg)"), (Text{"c.md#d", "h.svg"}));
  EXPECT_EQ(AnchorOf("What a `W` is: 1, 2"), "what-a-w-is-1-2");
  EXPECT_EQ(WhyDead("tools/README.md", "../README.md#two-commands"), "");
  EXPECT_EQ(WhyDead("tools/README.md", "no.md"), "there is no tools/no.md");
  EXPECT_EQ(WhyDead("README.md", "#nowhere"), "README.md has no heading for it");
}

TEST(DocumentsTest, LinksLeadSomewhere) {
  int links = 0;
  for (const std::string& document : AllDocuments()) {
    int number = 0;
    for (const std::string& line : Prose(document)) {
      ++number;
      for (const std::string& target : LinksIn(line)) {
        if (target.rfind("http", 0) == 0) continue;
        ++links;
        EXPECT_EQ(WhyDead(document, target), "") << document << ":" << number << ": " << target;
      }
    }
  }
  EXPECT_GT(links, 100);
}

}  // namespace
}  // namespace stringline
