// The editors' grammar: its words are the language's words, and on real schedules its patterns
// match the tokens.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "schedlang/text/format_pieces.h"
#include "schedlang/text/words.h"
#include "tests/tools/tool_run.h"

namespace stringline {
namespace {

namespace fs = std::filesystem;

struct GrammarRule {
  std::string name;                     // of the whole match
  std::map<size_t, std::string> parts;  // of its captures
  std::string text;
  std::regex pattern;
};

std::string ExtensionFolder() { return SourceFolder() + "/tools/editor/vscode/"; }

nlohmann::json ReadJson(const std::string& name) {
  const auto json = nlohmann::json::parse(ReadText(ExtensionFolder() + name), nullptr, false);
  EXPECT_TRUE(json.is_object()) << name << " is no JSON object";
  return json;
}

std::vector<GrammarRule> ReadGrammar() {
  std::vector<GrammarRule> rules;
  const auto grammar = ReadJson("stringline.tmLanguage.json");
  for (const auto& row : grammar["patterns"]) {
    GrammarRule rule{
        row.value("name", ""), {}, row["match"], std::regex(row["match"].get<std::string>())};
    const auto captures = row.value("captures", nlohmann::json::object());
    for (const auto& [index, part] : captures.items()) {
      rule.parts[std::stoul(index)] = part["name"];
    }
    rules.push_back(std::move(rule));
  }
  return rules;
}

// The scope of every byte of the line: the earliest match of the first such pattern, repeatedly, as
// editors do.
std::vector<std::string> ScopesOf(const std::string& line, const std::vector<GrammarRule>& rules) {
  std::vector<std::string> scopes(line.size());
  const auto fill = [&](ptrdiff_t begin, ptrdiff_t length, const std::string& name) {
    std::fill_n(scopes.begin() + begin, length, name);
  };
  for (ptrdiff_t at = 0; at < static_cast<ptrdiff_t>(line.size());) {
    const GrammarRule* best = nullptr;
    std::smatch best_match;
    for (const GrammarRule& rule : rules) {
      std::smatch match;
      const auto flags =
          at > 0 ? std::regex_constants::match_prev_avail : std::regex_constants::match_default;
      if (!std::regex_search(line.begin() + at, line.end(), match, rule.pattern, flags)) continue;
      if (best != nullptr && match[0].first >= best_match[0].first) continue;
      best = &rule;
      best_match = match;
    }
    if (best == nullptr) break;
    const ptrdiff_t begin = best_match[0].first - line.begin();
    fill(begin, best_match[0].length(), best->name);
    for (const auto& [index, name] : best->parts) {
      fill(best_match[index].first - line.begin(), best_match[index].length(), name);
    }
    at = begin + std::max<ptrdiff_t>(1, best_match[0].length());
  }
  return scopes;
}

// The beginning of a scope's name for each sort of word.
const char* ScopeOf(WordSort sort) {
  switch (sort) {
    case WordSort::kLetter:
      return "constant.language.action.";
    case WordSort::kStatement:
      return "keyword.control.";
    case WordSort::kKeyword:
      return "keyword.other.";
    case WordSort::kFunction:
      return "support.function.";
    case WordSort::kInPlace:
      break;
  }
  return "support.constant.";
}

// The words spelled out in a pattern.
std::set<std::string> WordsIn(const std::string& pattern) {
  std::set<std::string> words;
  std::string bare = std::regex_replace(pattern, std::regex("\\\\.|\\[[^\\]]*\\]"), " ");
  const std::regex word("[A-Za-z][A-Za-z0-9_]*");
  for (std::sregex_iterator it(bare.begin(), bare.end(), word), end; it != end; ++it) {
    words.insert(it->str());
  }
  return words;
}

TEST(EditorGrammarTest, ItsWordsAreThoseOfTheLanguage) {
  std::set<std::string> expected, found;
  for (const WordRow& row : AllWords()) expected.insert(row.word);
  const std::vector<GrammarRule> rules = ReadGrammar();
  for (const GrammarRule& rule : rules) {
    const std::set<std::string> words = WordsIn(rule.text);
    found.insert(words.begin(), words.end());
  }
  EXPECT_EQ(found, expected);
  // Each alone on a line, except words with a meaning only in their place.
  for (const WordRow& row : AllWords()) {
    const std::string scope = ScopesOf(row.word, rules)[0];
    const char* const wanted =
        row.sort == WordSort::kInPlace ? "variable.other." : ScopeOf(row.sort);
    EXPECT_EQ(scope.rfind(wanted, 0), 0u) << row.word << " is " << scope;
  }
}

// Every word, number, string and comment of the text has the scope of its token in the language.
int CheckText(const std::string& name, const std::string& text,
              const std::vector<GrammarRule>& rules) {
  std::vector<std::vector<std::string>> scopes;
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    scopes.push_back(ScopesOf(line, rules));
    lines.push_back(line);
  }
  int checked = 0;
  const Source source(name, text);
  for (const FormatPiece& piece : Pieces(source.text())) {
    const auto at = static_cast<uint32_t>(piece.text.data() - source.text().data());
    const size_t line = static_cast<size_t>(source.Locate(at).line) - 1;
    const size_t column = static_cast<size_t>(source.Locate(at).column) - 1;
    const std::string scope = scopes[line][column];
    const WordRow* const word = FindWord(piece.text);
    const bool member = column > 0 && lines[line][column - 1] == '.';
    std::string wanted;
    if (piece.comment) wanted = "comment.";
    if (piece.kind == Token::Kind::kNumber) wanted = "constant.numeric.";
    if (piece.kind == Token::Kind::kString) wanted = "string.";
    if (piece.kind == Token::Kind::kName) {
      if (member) {
        wanted = "variable.other.member.";
      } else if (word != nullptr && word->sort != WordSort::kInPlace) {
        wanted = ScopeOf(word->sort);
      } else if (word == nullptr && scope.rfind("entity.name.", 0) != 0) {
        wanted = "variable.other.";
      }
    }
    if (wanted.empty()) continue;
    ++checked;
    EXPECT_EQ(scope.rfind(wanted, 0), 0u)
        << name << ":" << line + 1 << ":" << column + 1 << ": '" << piece.text << "' is " << scope;
  }
  return checked;
}

TEST(EditorGrammarTest, MatchesTheTokensOfTheLibrary) {
  const std::vector<GrammarRule> rules = ReadGrammar();
  int checked = 0;
  for (const auto& entry : fs::directory_iterator(SourceFolder() + "/schedules")) {
    if (entry.path().extension() != ".sched") continue;
    checked += CheckText(entry.path().filename().string(), ReadText(entry.path().string()), rules);
  }
  EXPECT_GT(checked, 600);
}

struct ScopeCase {
  const char* line;
  const char* word;  // its first place in the line is looked at
  const char* scope;
};

const ScopeCase kScopeCases[] = {
    {"stages P on line;", "line", "support.constant."},
    {"stages P on reversed  v;", "v;", "support.constant."},
    {"stages P on v -> v;", "v", "variable.other."},
    {"repeat V as v { F v }", "v", "variable.other."},
    {"split even;", "even", "support.constant."},
    {"let even = 1;", "even", "variable.other."},
    {"split even -> even;", "even", "variable.other."},
    {"use \"1f1b.sched\";", "use", "keyword.control."},
    {"use \"1f1b.sched\";", "1f1b", "string."},
    {"costs F 1, p2p 2;", "p2p", "support.constant."},
    {"let p2p = 1;", "p2p", "variable.other."},
    {"costs saved_for_W s -> 1;", "saved_for_W", "support.constant."},
    {"within memory 80;", "memory", "support.constant."},
    {"within activations period;", "period", "variable.other."},
    {"minimize period;", "period", "support.constant."},
    {"rank r search {", "search", "keyword.other."},
    {"repeat p2p as i { F p2p }", "p2p", "variable.other."},
    {"let even(x) = 1;", "even", "entity.name.function."},
    {"let line = by;", "by", "variable.other."},
    {"hold at most P - r;", "most", "support.constant."},
    {"at 6 * m : F down @ m;", "at", "keyword.control."},
    {"= base(P, M) then defer W by r;", "by", "support.constant."},
    {"= base(P, M) then defer W by r;", "W", "constant.language.action."},
    {"compute { F.split B.attn }", "split", "variable.other.member."},
    {"compute { F.split B.attn }", "F", "constant.language.action."},
    {"network  {", "network", "support.constant."},
    {"pipe down { stages P on line; microbatches M / 2; }", "down", "entity.name.function."},
    {"let Fx = 3; # F is a forward", "F ", "comment."},
    {"require a \"if F or B\";", "if", "string."},
};

TEST(EditorGrammarTest, WordsInTheirPlace) {
  const std::vector<GrammarRule> rules = ReadGrammar();
  for (const ScopeCase& test : kScopeCases) {
    const std::string line = test.line;
    const std::string scope = ScopesOf(line, rules)[line.find(test.word)];
    EXPECT_EQ(scope.rfind(test.scope, 0), 0u) << line << ": '" << test.word << "' is " << scope;
  }
}

TEST(EditorGrammarTest, TheExtensionNamesItsFiles) {
  const auto package = ReadJson("package.json");
  const auto& language = package["contributes"]["languages"][0];
  EXPECT_EQ(language["extensions"], nlohmann::json({".sched"}));
  EXPECT_EQ(package["contributes"]["grammars"][0]["language"], language["id"]);
  EXPECT_EQ(package["contributes"]["grammars"][0]["scopeName"],
            ReadJson("stringline.tmLanguage.json")["scopeName"]);
  for (const std::string& path :
       {package["main"].get<std::string>(), language["configuration"].get<std::string>(),
        package["contributes"]["grammars"][0]["path"].get<std::string>()}) {
    EXPECT_TRUE(fs::exists(ExtensionFolder() + path)) << path;
  }
  EXPECT_EQ(ReadJson("language-configuration.json")["comments"]["lineComment"], "#");
}

}  // namespace
}  // namespace stringline
