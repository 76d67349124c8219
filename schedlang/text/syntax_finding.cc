#include "schedlang/text/syntax_finding.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "schedlang/base/written_out.h"
#include "schedlang/text/words.h"

namespace stringline {
namespace {

bool BeginsStatement(const std::vector<Token>& tokens, size_t index) {
  const absl::string_view before = tokens[index - 1].text;
  return before == "{" || before == "}" || before == ";";
}

// `repat 3 { … }`: the grammar reads the first word as the name of an order and then wants a ';'.
// Returns the misspelt word, or null in other cases.
const Token* MisspeltStatement(const std::vector<Token>& tokens, size_t index,
                               const std::string& expected) {
  if (expected != "';'" || index < 2) return nullptr;
  const Token& word = tokens[index - 1];
  const bool first = BeginsStatement(tokens, index - 1);
  const bool plain =
      word.kind == Token::Kind::kName && !IsKeyword(word.text) && !IsActionLetter(word.text);
  const absl::string_view next = tokens[index].text;
  const bool argument = tokens[index].kind == Token::Kind::kName ||
                        tokens[index].kind == Token::Kind::kNumber || next == "(" || next == "{";
  return first && plain && argument ? &word : nullptr;
}

// The likely intention behind a statement that begins with this word.
std::string HintForStatement(absl::string_view word) {
  for (const absl::string_view loop : {"for", "while", "loop", "do"}) {
    if (word == loop) return "; 'repeat n { F r }' does it n times";
  }
  const std::string closest = ClosestName(std::string(word), StatementWords());
  if (!closest.empty()) return absl::StrCat("; did you mean '", closest, "'?");
  const bool letter = word.size() == 1 && absl::ascii_isupper(word[0]);
  return letter ? "; the actions are F, B, I, W, R, D and U" : "";
}

// A construct of another language, and its counterpart here: the token that the grammar found, its
// neighbour without a space on either side, and what the grammar expected instead (null: anything).
struct Habit {
  absl::string_view found;
  absl::string_view beside;  // empty: any
  const char* expected;
  absl::string_view hint;
};
constexpr Habit kHabits[] = {
    {"/", "/", "an expression", "; comments begin with #, and a / b is rounded down"},
    {"/", "/", nullptr, "; comments begin with #"},
    {"*", "/", nullptr, "; comments begin with #"},
    {"/", "*", nullptr, "; comments begin with #"},
    {"&", "&", "an action", "; one '&' joins actions"},
    {"&", "&", nullptr, "; 'and' joins conditions"},
    {"|", "|", nullptr, "; 'or' joins conditions"},
    {"!", "", "an expression", "; 'not' turns a condition round"},
    {"=", "", "'{'", "; a == b asks whether both are equal"},
    {"=", "", "';'", "; a == b asks whether both are equal"},
    {"=", "", "')'", "; a == b asks whether both are equal"},
    {"use", "", nullptr, "; 'use' stands beside the schedules of a file"},
    {"include", "", "'schedule'", "; 'use \"1f1b.sched\";' takes the schedules of another file"},
    {"import", "", "'schedule'", "; 'use \"1f1b.sched\";' takes the schedules of another file"},
    {"from", "", "'schedule'", "; 'use \"1f1b.sched\";' takes the schedules of another file"},
    {"mod", "", nullptr, "; a % b is what a / b leaves"},
};

bool StandsBeside(const std::vector<Token>& tokens, size_t index, absl::string_view beside) {
  const Token& token = tokens[index];
  const Token* const before = index > 0 ? &tokens[index - 1] : nullptr;
  const Token* const behind = index + 1 < tokens.size() ? &tokens[index + 1] : nullptr;
  return beside.empty() ||
         (before != nullptr && before->text == beside && before->span.end == token.span.begin) ||
         (behind != nullptr && behind->text == beside && behind->span.begin == token.span.end);
}

std::string HintForHabit(const std::vector<Token>& tokens, size_t index,
                         const std::string& expected) {
  const Token& found = tokens[index];
  if (found.text == "=" && index > 1 && BeginsStatement(tokens, index - 1)) {
    return "; 'let x = …;' gives a value a name";
  }
  if (found.text == "." && index > 0 && tokens[index - 1].kind == Token::Kind::kNumber) {
    return "; all numbers are whole";
  }
  if (found.kind == Token::Kind::kNumber && index > 0 && tokens[index - 1].text == "rank") {
    return absl::StrCat("; every rank performs 'rank r { … }', and in it rank ", found.text,
                        " alone 'if r == ", found.text, " { … }'");
  }
  for (const Habit& habit : kHabits) {
    if (found.text == habit.found && (habit.expected == nullptr || expected == habit.expected) &&
        StandsBeside(tokens, index, habit.beside)) {
      return std::string(habit.hint);
    }
  }
  return "";
}

}  // namespace

std::string HintForNumber(absl::string_view text) {
  const std::string whole = WrittenOut(text);
  if (!whole.empty()) return absl::StrCat("; write ", whole);
  for (const absl::string_view unit : {"ns", "us", "ms", "s"}) {
    if (absl::EndsWith(text, unit)) return "; numbers of a schedule have no units";
  }
  return "";
}

void AddSyntaxFinding(const std::vector<Token>& tokens, size_t index, const std::string& expected,
                      Diagnostics* diagnostics) {
  const Token& found = tokens[index];
  if (const Token* word = MisspeltStatement(tokens, index, expected)) {
    diagnostics->Add(
        Code::kUnknownStatement, word->span,
        absl::StrCat(Describe(*word), " begins no statement", HintForStatement(word->text)));
    return;
  }
  if (found.kind == Token::Kind::kUnknown && found.text[0] == '"') {
    diagnostics->Add(Code::kSyntax, found.span, "expected '\"' before the end of the line");
    return;
  }
  if (found.text == ";" && index > 0 && tokens[index - 1].text == "}") {
    diagnostics->Add(Code::kSyntax, found.span, "a block ends with its '}': leave out this ';'");
    return;
  }
  if (found.kind != Token::Kind::kEnd) {
    diagnostics->Add(Code::kSyntax, found.span,
                     absl::StrCat("expected ", expected, " before ", Describe(found),
                                  HintForHabit(tokens, index, expected)));
    return;
  }
  const bool in_block = expected == "a statement or '}'";
  Diagnostic& finding = diagnostics->Add(
      Code::kSyntax, found.span,
      absl::StrCat("expected ", in_block ? "'}'" : expected, " before the end of the file"));
  if (const Token* open = LastUnclosed(tokens)) {
    finding.notes.push_back({open->span, absl::StrCat(Describe(*open), " is opened here"), ""});
  }
}

}  // namespace stringline
