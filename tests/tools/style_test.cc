// Style that a test can hold: who may include whom, how long files and lines are, what headers and
// long sources begin with.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <sstream>

#include "tests/tools/tool_run.h"

namespace stringline {
namespace {

namespace fs = std::filesystem;

struct File {
  std::string path;  // from the top of the repository
  std::vector<std::string> lines;
};

const std::vector<File>& AllFiles() {
  static const std::vector<File> files = [] {
    std::vector<File> found;
    for (const char* const top : {"schedlang", "stages", "executor", "tools", "python", "tests"}) {
      for (const auto& entry : fs::recursive_directory_iterator(SourceFolder() + "/" + top)) {
        const std::string kind = entry.path().extension().string();
        const bool is_source = kind == ".cc" || kind == ".cu";
        if (!entry.is_regular_file() || (!is_source && kind != ".h" && kind != ".def")) continue;
        File file{fs::relative(entry.path(), SourceFolder()).string(), {}};
        std::istringstream text(ReadText(entry.path().string()));
        for (std::string line; std::getline(text, line);) file.lines.push_back(line);
        found.push_back(std::move(file));
      }
    }
    std::sort(found.begin(), found.end(),
              [](const File& a, const File& b) { return a.path < b.path; });
    return found;
  }();
  return files;
}

bool StartsWith(const std::string& text, const std::string& start) {
  return text.rfind(start, 0) == 0;
}

// The parts of the tree, each with the beginnings of its files' paths and the parts whose files
// they may include besides their own. A part names only parts above it, so there is no circle.
struct TreePart {
  std::string name;
  std::vector<std::string> files;
  std::vector<std::string> includes;
};
const std::vector<TreePart>& IncludeRule() {
  static const std::vector<TreePart> rule = [] {
    std::vector<TreePart> parts = {
        {"base", {"schedlang/base/"}, {}},
        {"plan",
         {"schedlang/plan.", "schedlang/actions.def", "schedlang/effects.", "schedlang/sharding.",
          "schedlang/text_form.", "schedlang/values."},
         {"base"}},
        {"parts", {"schedlang/parts/"}, {"base", "plan"}},
        {"a plan read", {"schedlang/read_"}, {"base", "plan", "parts"}},
        {"text", {"schedlang/text/"}, {"base"}},
        {"orders", {"schedlang/orders/"}, {"base", "plan"}},
        {"messages", {"schedlang/messages/"}, {"base", "plan"}},
        {"timeline", {"schedlang/timeline."}, {"base", "plan", "parts", "messages"}},
        {"memory", {"schedlang/memory/"}, {"base", "plan"}},
        {"check", {"schedlang/check/"}, {"base", "plan", "messages", "memory"}},
        {"sim", {"schedlang/sim/"}, {"base", "plan", "parts", "messages", "timeline", "memory"}},
        {"search", {"schedlang/search/"}, {"base", "plan", "sim"}},
        {"elaborate",
         {"schedlang/elaborate/"},
         {"base", "plan", "parts", "text", "orders", "search"}},
        {"lower", {"schedlang/lower/"}, {"base", "plan", "messages", "timeline", "sim"}},
        {"write",
         {"schedlang/write/"},
         {"base", "plan", "text", "orders", "check", "search", "elaborate", "lower"}},
        {"formats",
         {"schedlang/formats/"},
         {"base", "plan", "messages", "timeline", "sim", "lower"}},
        {"trace",
         {"schedlang/trace/"},
         {"base", "plan", "messages", "timeline", "check", "sim", "formats"}},
        {"stages", {"stages/"}, {"base"}},
        // Nothing of the language: it begins where the plan does.
        {"executor",
         {"executor/"},
         {"base", "plan", "parts", "messages", "timeline", "memory", "check", "sim", "lower",
          "stages"}},
    };
    for (const char* const all : {"tools", "python", "tests"}) {
      TreePart part{all, {std::string(all) + "/"}, {}};
      for (const TreePart& before : parts) part.includes.push_back(before.name);
      parts.push_back(std::move(part));
    }
    return parts;
  }();
  return rule;
}

bool StartsWithAny(const std::string& text, const std::vector<std::string>& starts) {
  return std::any_of(starts.begin(), starts.end(),
                     [&](const std::string& start) { return StartsWith(text, start); });
}

// The one part of the tree that the file belongs to; "" if there is none or several.
std::string PartOfTree(const std::string& path) {
  std::string found;
  for (const TreePart& part : IncludeRule()) {
    if (!StartsWithAny(path, part.files)) continue;
    if (!found.empty()) return "";
    found = part.name;
  }
  return found;
}

// The file of ours that the line includes; "" for none.
std::string OwnInclude(const std::string& line) {
  const std::string start = "#include \"";
  if (!StartsWith(line, start)) return "";
  const std::string target = line.substr(start.size(), line.rfind('"') - start.size());
  for (const char* const top :
       {"schedlang/", "stages/", "executor/", "tools/", "python/", "tests/"}) {
    if (StartsWith(target, top)) return target;
  }
  return "";
}

TEST(StyleTest, FoldersIncludeOnlyWhatTheyMay) {
  int seen = 0;
  for (const File& file : AllFiles()) {
    const std::string own = PartOfTree(file.path);
    const auto part = std::find_if(IncludeRule().begin(), IncludeRule().end(),
                                   [&own](const TreePart& p) { return p.name == own; });
    ASSERT_NE(part, IncludeRule().end()) << file.path;
    for (const std::string& line : file.lines) {
      const std::string target = OwnInclude(line);
      if (target.empty()) continue;
      ++seen;
      const std::string other = PartOfTree(target);
      EXPECT_TRUE(other == own || std::count(part->includes.begin(), part->includes.end(), other))
          << file.path << " includes " << target;
    }
  }
  EXPECT_GT(seen, 100);
}

TEST(StyleTest, FoldersFormNoCircle) {
  std::vector<std::string> above;
  for (const TreePart& part : IncludeRule()) {
    for (const std::string& other : part.includes) {
      EXPECT_TRUE(std::count(above.begin(), above.end(), other))
          << part.name << " includes " << other << ", which does not stand above it";
    }
    above.push_back(part.name);
  }
}

TEST(StyleTest, OnlyTheGrammarIncludesBoost) {
  for (const File& file : AllFiles()) {
    const bool is_grammar =
        file.path == "schedlang/text/grammar.cc" || file.path == "schedlang/text/terminals.h";
    if (is_grammar || StartsWith(file.path, "tests/")) continue;
    for (const std::string& line : file.lines) {
      EXPECT_FALSE(StartsWith(line, "#include <boost/")) << file.path;
    }
  }
}

TEST(StyleTest, FilesAndLinesAreShort) {
  std::vector<size_t> lengths;
  for (const File& file : AllFiles()) {
    lengths.push_back(file.lines.size());
    EXPECT_LE(file.lines.size(), 600u) << file.path;
    for (size_t i = 0; i < file.lines.size(); ++i) {
      EXPECT_LE(Width(file.lines[i]), 100u) << file.path << ":" << i + 1;
      EXPECT_EQ(file.lines[i].find('\t'), std::string::npos) << file.path << ":" << i + 1;
    }
  }
  std::sort(lengths.begin(), lengths.end());
  ASSERT_FALSE(lengths.empty());
  const size_t median = lengths[lengths.size() / 2];
  std::cout << lengths.size() << " files, median " << median << " lines, longest " << lengths.back()
            << "\n";
  EXPECT_LE(median, 150u);
}

TEST(StyleTest, HeadersSayWhatTheyAre) {
  for (const File& file : AllFiles()) {
    const std::string kind = file.path.substr(file.path.rfind('.'));
    if (kind == ".cc" || kind == ".cu") continue;
    ASSERT_FALSE(file.lines.empty()) << file.path;
    EXPECT_TRUE(StartsWith(file.lines[0], "// ")) << file.path << " begins with a comment";
    if (kind != ".h") continue;
    EXPECT_NE(std::find(file.lines.begin(), file.lines.end(), "#pragma once"), file.lines.end())
        << file.path;
  }
}

// How a file does its work is said before the code; what it is for, its header says.
TEST(StyleTest, LongFilesBeginWithTheirIdea) {
  constexpr size_t kLong = 200;
  int seen = 0;
  for (const File& file : AllFiles()) {
    const std::string kind = file.path.substr(file.path.rfind('.'));
    if (kind == ".h" || kind == ".def" || StartsWith(file.path, "tests/")) continue;
    if (file.lines.size() < kLong) continue;
    ++seen;
    EXPECT_TRUE(StartsWith(file.lines[0], "// "))
        << file.path << " has " << file.lines.size()
        << " lines; begin it with its idea: a comment of one to three lines above the includes";
  }
  EXPECT_GT(seen, 50);
}

// The name of the type that the line begins to define, at the left margin; "" for none.
std::string DefinedType(const std::string& line) {
  if (line.empty() || line.back() == ';') return "";
  std::istringstream words(line);
  std::string keyword, name;
  words >> keyword >> name;
  if (keyword == "enum" && (name == "class" || name == "struct")) words >> name;
  if (line[0] == ' ' || (keyword != "class" && keyword != "struct" && keyword != "enum")) return "";
  return name.find('<') == std::string::npos ? name : "";
}

// Two types of one name in one namespace would be one to the linker, and crash.
TEST(StyleTest, EveryTypeHasANameOfItsOwn) {
  std::map<std::string, std::string> owners;
  for (const File& file : AllFiles()) {
    std::vector<std::string> spaces;
    for (const std::string& line : file.lines) {
      std::istringstream words(line);
      std::string keyword, name;
      words >> keyword >> name;
      if (keyword == "namespace" && line.back() == '{') spaces.push_back(name);
      if (StartsWith(line, "}  // namespace") && !spaces.empty()) spaces.pop_back();
      const std::string type = DefinedType(line);
      // One that nobody names is seen by its own file only.
      if (type.empty() || std::find(spaces.begin(), spaces.end(), "{") != spaces.end()) continue;
      std::string full;
      for (const std::string& space : spaces) full += space + "::";
      full += type;
      const auto [owner, is_new] = owners.try_emplace(full, file.path);
      EXPECT_TRUE(is_new || StartsWith(file.path, "tests/"))
          << full << " is defined in " << owner->second << " and in " << file.path;
    }
  }
  EXPECT_GT(owners.size(), 100u);
}

TEST(StyleTest, NamesSayWhatThingsAre) {
  for (const File& file : AllFiles()) {
    EXPECT_EQ(file.path.find("util"), std::string::npos) << file.path;
    for (const std::string& line : file.lines) {
      std::istringstream words(line);
      std::string keyword, name;
      words >> keyword >> name;
      if (keyword != "class" && keyword != "struct") continue;
      for (const char* const vague : {"Manager", "Helper", "Context", "Util"}) {
        EXPECT_EQ(name.find(vague), std::string::npos) << file.path << ": " << line;
      }
    }
  }
}

}  // namespace
}  // namespace stringline
