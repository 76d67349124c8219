// Style that a test can hold: the folders that a file may include, the sizes of classes, files and
// lines, the users of small headers, and the first lines of headers and long sources.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <set>
#include <sstream>

#include "tests/tools/class_sizes.h"
#include "tests/tools/tool_run.h"

namespace stringline {
namespace {

namespace fs = std::filesystem;

const std::vector<SourceFile>& AllFiles() {
  static const std::vector<SourceFile> files = [] {
    std::vector<SourceFile> found;
    for (const char* const top : {"schedlang", "stages", "executor", "tools", "python", "tests"}) {
      for (const auto& entry : fs::recursive_directory_iterator(SourceFolder() + "/" + top)) {
        const std::string kind = entry.path().extension().string();
        const bool is_source = kind == ".cc" || kind == ".cu";
        if (!entry.is_regular_file() || (!is_source && kind != ".h" && kind != ".def")) continue;
        SourceFile file{fs::relative(entry.path(), SourceFolder()).string(), {}};
        std::istringstream text(ReadText(entry.path().string()));
        for (std::string line; std::getline(text, line);) file.lines.push_back(line);
        found.push_back(std::move(file));
      }
    }
    std::sort(found.begin(), found.end(),
              [](const SourceFile& a, const SourceFile& b) { return a.path < b.path; });
    return found;
  }();
  return files;
}

bool StartsWith(const std::string& text, const std::string& start) {
  return text.rfind(start, 0) == 0;
}

// The folders with sources, from top to bottom: a file includes its own folder and folders above,
// so folders form no cycle.
const std::vector<std::string>& Folders() {
  static const std::vector<std::string> folders = {
      "schedlang/base",
      "schedlang/plan",
      "schedlang/text",
      "schedlang/costs",
      "schedlang/memory",
      "schedlang/orders",
      "schedlang/check",
      "schedlang/sim",
      "schedlang/report",
      "schedlang/search",
      "schedlang/elaborate",
      "schedlang/lower",
      "schedlang/write",
      "schedlang/torch",
      "schedlang/kernels",
      "schedlang/megatron",
      "schedlang/diagnose",
      "schedlang/ask",
      "schedlang/tune",
      "stages",
      "stages/models",
      "executor/engine",
      "executor/cpu",
      "executor/cpu/kernels",
      "executor/cpu/one_thread",
      "executor/cuda/bodies",
      "executor/cuda/kernels",
      "executor/cuda",
      "executor/cuda/copies",
      "executor/cuda/backend",
      "executor/training",
      "executor/processes",
      "executor/mpi",
      "executor/nccl",
      "executor/rehearsal",
      "executor/checkpoint",
      "executor/torch_model",
      "executor/run",
      "tools/view",
      "tools/view/page",
      "tools/io",
      "tools/answers",
      "tools/lsp",
      "tools/metrics",
      "tools/training",
      "tools/bench",
      "tools/microbench",
      "tools/gpu",
      "tools/commands",
      "python/core",
      "tests",
      "tests/schedlang",
      "tests/schedlang/search",
      "tests/schedlang/write",
      "tests/stages",
      "tests/executor",
      "tests/cuda/standin",
      "tests/cuda/ptx",
      "tests/cuda",
      "tests/nccl",
      "tests/mpi",
      "tests/faults",
      "tests/page",
      "tests/torch",
      "tests/tools",
      "tests/fuzz",
  };
  return folders;
}

// A part of the tree that must not include some folders above: all whose names begin so.
struct Apart {
  std::string files;
  std::vector<std::string> never;
};
const std::vector<Apart>& FoldersApart() {
  static const std::vector<Apart> apart = {
      // Model graphs know nothing of schedules; training knows nothing of the language and begins
      // with a plan.
      {"stages",
       {"schedlang/plan", "schedlang/c", "schedlang/m", "schedlang/o", "schedlang/s", "schedlang/r",
        "schedlang/e", "schedlang/l", "schedlang/w", "schedlang/t", "schedlang/k", "schedlang/d",
        "schedlang/a"}},
      {"executor",
       {"schedlang/text", "schedlang/orders", "schedlang/search", "schedlang/elaborate",
        "schedlang/write", "schedlang/torch", "schedlang/kernels", "schedlang/diagnose",
        "schedlang/ask"}},
      // A backend knows no trainer.
      {"executor/cuda", {"executor/cpu/"}},
  };
  return apart;
}

// The index of the file's folder in the list; -1 if missing.
int FloorOf(const std::string& path) {
  const std::string folder = path.substr(0, path.rfind('/'));
  const auto found = std::find(Folders().begin(), Folders().end(), folder);
  return found == Folders().end() ? -1 : static_cast<int>(found - Folders().begin());
}

// The project's own file that the line includes; "" for none.
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

TEST(StyleTest, FoldersIncludeOnlyThoseAboveThem) {
  int seen = 0;
  std::set<std::string> folders;
  for (const SourceFile& file : AllFiles()) {
    const int own = FloorOf(file.path);
    EXPECT_GE(own, 0) << file.path << ": its folder is not in the list of folders";
    folders.insert(file.path.substr(0, file.path.rfind('/')));
    for (const std::string& line : file.lines) {
      const std::string target = OwnInclude(line);
      if (target.empty()) continue;
      ++seen;
      const int other = FloorOf(target);
      EXPECT_TRUE(other >= 0 && other <= own) << file.path << " includes " << target;
      for (const Apart& part : FoldersApart()) {
        if (!StartsWith(file.path, part.files)) continue;
        for (const std::string& never : part.never) {
          EXPECT_FALSE(StartsWith(target, never)) << file.path << " includes " << target;
        }
      }
    }
  }
  EXPECT_GT(seen, 100);
  std::cout << folders.size() << " folders, each including only those above it: no cycle\n";
  for (const std::string& folder : Folders()) {
    EXPECT_TRUE(folders.count(folder)) << folder << " is in the list and has no sources";
  }
}

TEST(StyleTest, OnlyTheGrammarIncludesBoost) {
  for (const SourceFile& file : AllFiles()) {
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
  for (const SourceFile& file : AllFiles()) {
    lengths.push_back(file.lines.size());
    EXPECT_LE(file.lines.size(), 800u) << file.path;
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

// The reader of classes counts definitions and functions in several files, and data members.
TEST(StyleTest, ClassSizesAreRead) {
  const std::vector<SourceFile> files = {
      {"a.h",
       {"namespace one {", "", "class Pair final : public Base {",
        " public:", "  int sum() const { return a_ + b_; }", "  void Add(int more);", "",
        "  // A comment.", " private:", "  struct Inner {", "    int x = 0;", "  };",
        "  static constexpr int kNone = 0;", "  std::map<int, int> a_, b_ = {};  // two",
        "  void (*call_)(int) = nullptr;", "};", "", "}  // namespace one"}},
      {"b.cc",
       {"namespace one {",
        "namespace {",
        "",
        "struct Pair {",
        "  int only;",
        "};",
        "",
        "void Free() {",
        "  Work();",
        "}",
        "",
        "}  // namespace",
        "",
        "std::pair<int, int> Pair::Add(int more,",
        "                              int) {",
        "  // A comment.",
        "  a_ += more;",
        "}",
        "",
        "Pair::~Pair() { Free(); }",
        "",
        "void Other::Add() {",
        "  Work();",
        "}",
        "",
        "}  // namespace one"}}};
  const std::map<std::string, ClassSize> sizes = ClassSizesOf(files);
  ASSERT_EQ(sizes.size(), 2u);
  const ClassSize& pair = sizes.at("one::Pair");
  EXPECT_TRUE(pair.is_class);
  EXPECT_EQ(pair.file, "a.h");
  EXPECT_EQ(pair.lines, 12 + 4 + 1);
  EXPECT_EQ(pair.members, 3);
  EXPECT_EQ(sizes.at("one::b.cc::Pair").lines, 3);
}

// Classes that are longer, each with a reason, and their limits: lines of code, data members.
struct LongClass {
  const char* name;
  int lines, members;
};
constexpr LongClass kLongClasses[] = {
    // Streams, events and timers under one lock: their order of locking is the class's invariant.
    {"stringline::CpuDevice", 610, 26},
    // The search's inner loop: a word, its times and a trial's front are read by every function.
    {"stringline::search::Evaluator", 510, 22},
};

TEST(StyleTest, ClassesHaveOneDuty) {
  std::vector<SourceFile> files;
  for (const SourceFile& file : AllFiles()) {
    if (!StartsWith(file.path, "tests/")) files.push_back(file);
  }
  const std::map<std::string, ClassSize> sizes = ClassSizesOf(files);
  std::vector<std::pair<int, std::string>> lengths;
  size_t long_ones = 0;
  for (const auto& [name, size] : sizes) {
    if (size.is_class) lengths.emplace_back(size.lines, name);
    LongClass limit{"", 400, 15};
    for (const LongClass& known : kLongClasses) {
      if (name == known.name) limit = known;
    }
    if (*limit.name != '\0') ++long_ones;
    EXPECT_LE(size.lines, limit.lines) << name << " (" << size.file << ") has too many lines";
    if (size.is_class) {
      EXPECT_LE(size.members, limit.members)
          << name << " (" << size.file << ") has too many members";
    }
  }
  EXPECT_EQ(long_ones, std::size(kLongClasses)) << "a class of the list does not exist";
  std::sort(lengths.begin(), lengths.end());
  ASSERT_GT(lengths.size(), 100u);
  std::cout << lengths.size() << " classes, median " << lengths[lengths.size() / 2].first
            << " lines, largest " << lengths.back().second << " with " << lengths.back().first
            << "\n";
}

// Headers of at most kFewLines lines may serve a single source of their folder for these reasons.
constexpr const char* kHeadersOfOneUser[] = {
    // Compiled apart from their users: oneDNN's, cuDNN's and Boost's headers, embedded files.
    "executor/cpu/kernels/bf16_products.h",
    "tools/commands/commit.h",
    "tools/view/page/page_files.h",
    // An algorithm or a format with an idea of its own behind one function.
    "executor/torch_model/raise_ops.h",
    "executor/torch_model/raised_layers.h",
    "schedlang/elaborate/run.h",
    "schedlang/elaborate/search_orders.h",
    "schedlang/plan/read_extra.h",
    "schedlang/search/all_orders.h",
    "schedlang/sim/group_parts.h",
    "schedlang/tune/finish.h",
    "stages/models/batch_sizes.h",
    "tools/answers/collective_table.h",
    "tools/answers/network_table.h",
};

std::string WithoutExtension(const std::string& path) { return path.substr(0, path.rfind('.')); }
std::string FolderOf(const std::string& path) { return path.substr(0, path.rfind('/')); }

TEST(StyleTest, SmallHeadersServeSeveral) {
  constexpr size_t kFewLines = 20;
  std::map<std::string, std::set<std::string>> users;  // by header: modules that include it
  for (const SourceFile& file : AllFiles()) {
    for (const std::string& line : file.lines) {
      const std::string target = OwnInclude(line);
      const std::string user = WithoutExtension(file.path);
      if (!target.empty() && WithoutExtension(target) != user) users[target].insert(user);
    }
  }
  std::set<std::string> found;
  for (const SourceFile& file : AllFiles()) {
    const bool is_small = file.lines.size() <= kFewLines && !StartsWith(file.path, "tests/") &&
                          file.path.substr(file.path.rfind('.')) == ".h";
    const std::set<std::string>& of = users[file.path];
    if (is_small && of.size() == 1 && FolderOf(*of.begin()) == FolderOf(file.path)) {
      found.insert(file.path);
    }
  }
  const std::set<std::string> known(std::begin(kHeadersOfOneUser), std::end(kHeadersOfOneUser));
  for (const std::string& header : found) {
    EXPECT_TRUE(known.count(header))
        << header << " serves only " << *users[header].begin() << ": it could join that module";
  }
  for (const std::string& header : known) {
    EXPECT_TRUE(found.count(header)) << header << " is in the list and serves several, or is gone";
  }
}

TEST(StyleTest, HeadersSayWhatTheyAre) {
  for (const SourceFile& file : AllFiles()) {
    const std::string kind = file.path.substr(file.path.rfind('.'));
    if (kind == ".cc" || kind == ".cu") continue;
    ASSERT_FALSE(file.lines.empty()) << file.path;
    EXPECT_TRUE(StartsWith(file.lines[0], "// ")) << file.path << " begins with a comment";
    if (kind != ".h") continue;
    EXPECT_NE(std::find(file.lines.begin(), file.lines.end(), "#pragma once"), file.lines.end())
        << file.path;
  }
}

// A source begins with its method; its header gives its purpose.
TEST(StyleTest, LongFilesBeginWithTheirIdea) {
  constexpr size_t kLong = 200;
  int seen = 0;
  for (const SourceFile& file : AllFiles()) {
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
  if (line.empty() || line.find('{') == std::string::npos) return "";  // a declaration
  std::istringstream words(line);
  std::string keyword, name;
  words >> keyword >> name;
  if (keyword == "enum" && (name == "class" || name == "struct")) words >> name;
  if (line[0] == ' ' || (keyword != "class" && keyword != "struct" && keyword != "enum")) return "";
  return name.find('<') == std::string::npos ? name : "";
}

// Two types with the same name in the same namespace would be one to the linker, and crash.
TEST(StyleTest, EveryTypeHasANameOfItsOwn) {
  std::map<std::string, std::string> owners;
  for (const SourceFile& file : AllFiles()) {
    std::vector<std::string> spaces;
    for (const std::string& line : file.lines) {
      std::istringstream words(line);
      std::string keyword, name;
      words >> keyword >> name;
      if (keyword == "namespace" && line.back() == '{') spaces.push_back(name);
      if (StartsWith(line, "}  // namespace") && !spaces.empty()) spaces.pop_back();
      const std::string type = DefinedType(line);
      // A type in an unnamed namespace is seen by its own file only.
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

// The text of the comment on the line, "" if there is none. A comment begins outside of literals.
std::string CommentOf(const std::string& line) {
  char quote = 0;
  for (size_t i = 0; i + 1 < line.size(); ++i) {
    const char c = line[i];
    if (quote != 0) {
      if (c == '\\') ++i;
      if (c == quote) quote = 0;
    } else if (c == '"' || (c == '\'' && (i == 0 || !std::isalnum(line[i - 1])))) {
      quote = c;
    } else if (c == '/' && line[i + 1] == '/') {
      const size_t text = line.find_first_not_of("/ ", i);
      return text == std::string::npos ? " " : line.substr(text);
    }
  }
  return "";
}

struct CommentCounts {
  int blocks = 0;
  int riddles = 0;  // blocks that begin with a pronoun or a preposition without its noun
  int words = 0;
  int pronouns = 0;
};

void CountWords(const std::string& text, bool begins, CommentCounts* counts) {
  static const std::set<std::string> kBegin = {"what",      "whatever", "of",    "how",     "who",
                                               "whoever",   "whose",    "whom",  "whether", "which",
                                               "whichever", "where",    "those", "that"};
  static const std::set<std::string> kPronouns = {"what", "who",   "that", "it",
                                                  "one",  "there", "such"};
  std::string word;
  for (size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ' ';
    if (std::isalpha(static_cast<unsigned char>(c)) || (c == '\'' && !word.empty())) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      continue;
    }
    if (word.empty()) continue;
    if (begins && kBegin.count(word)) ++counts->riddles;
    begins = false;
    ++counts->words;
    counts->pronouns += static_cast<int>(kPronouns.count(word));
    word.clear();
  }
}

CommentCounts CountComments() {
  CommentCounts counts;
  for (const SourceFile& file : AllFiles()) {
    bool goes_on = false;  // the line above is a comment without code
    for (const std::string& line : file.lines) {
      const std::string text = CommentOf(line);
      const bool alone = line.find_first_not_of(" /") != std::string::npos &&
                         line.find("//") == line.find_first_not_of(' ');
      if (text.empty() || StartsWith(text, "clang-format") || StartsWith(text, "namespace") ||
          StartsWith(text, "NOLINT")) {
        goes_on = false;
        continue;
      }
      const bool begins = !(goes_on && alone);
      counts.blocks += begins;
      CountWords(text, begins, &counts);
      goes_on = alone;
    }
  }
  return counts;
}

TEST(StyleTest, CommentsNameTheirSubjects) {
  const CommentCounts counts = CountComments();
  ASSERT_GT(counts.blocks, 5000);
  const double riddles = 100.0 * counts.riddles / counts.blocks;
  const double pronouns = 1000.0 * counts.pronouns / counts.words;
  std::cout << counts.blocks << " comments, " << riddles << " % begin with a pronoun; " << pronouns
            << " pronouns in 1,000 words\n";
  EXPECT_LE(riddles, 3);
  EXPECT_LE(pronouns, 35);
}

TEST(StyleTest, NamesSayWhatThingsAre) {
  for (const SourceFile& file : AllFiles()) {
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
