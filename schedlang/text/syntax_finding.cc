#include "schedlang/text/syntax_finding.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "schedlang/text/words.h"

namespace stringline {
namespace {

bool BeginsStatement(const std::vector<Token>& tokens, size_t index) {
  const absl::string_view before = tokens[index - 1].text;
  return before == "{" || before == "}" || before == ";";
}

// `repat 3 { … }`: the grammar reads the first word as the name of an order and then wants its ';'.
// The word, if that is what happened.
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

// What somebody who begins a statement with this word may have meant.
std::string HintForStatement(absl::string_view word) {
  for (const absl::string_view loop : {"for", "while", "loop", "do"}) {
    if (word == loop) return "; 'repeat n { F r }' does it n times";
  }
  const std::string closest = ClosestName(std::string(word), StatementWords());
  if (!closest.empty()) return absl::StrCat("; did you mean '", closest, "'?");
  const bool letter = word.size() == 1 && absl::ascii_isupper(word[0]);
  return letter ? "; the actions are F, B, I and W" : "";
}

// What other languages have, and how it is written here.
std::string HintForHabit(const std::vector<Token>& tokens, size_t index,
                         const std::string& expected) {
  const absl::string_view found = tokens[index].text;
  const bool followed =
      index + 1 < tokens.size() && tokens[index + 1].span.begin == tokens[index].span.end;
  if (found == "/" && followed && tokens[index + 1].text == "/") return "; comments begin with #";
  if (found == "=" && index > 1 && BeginsStatement(tokens, index - 1)) {
    return "; 'let x = …;' gives a value a name";
  }
  if (found == "=" && (expected == "'{'" || expected == "';'" || expected == "')'")) {
    return "; a == b asks whether both are equal";
  }
  if (found == "use") return "; 'use' stands beside the schedules of a file";
  for (const absl::string_view word : {"include", "import", "from"}) {
    if (found == word && expected == "'schedule'") {
      return "; 'use \"1f1b.sched\";' takes the schedules of another file";
    }
  }
  if (found == "mod") return "; a % b is what a / b leaves";
  if (found == "." && index > 0 && tokens[index - 1].kind == Token::Kind::kNumber) {
    return "; all numbers are whole";
  }
  return "";
}

}  // namespace

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
