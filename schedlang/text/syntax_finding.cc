#include "schedlang/text/syntax_finding.h"

#include "absl/strings/str_cat.h"
#include "schedlang/text/words.h"

namespace stringline {
namespace {

// `repat 3 { … }`: the grammar reads the first word as the name of an order and then wants its ';'.
// The word, if that is what happened.
const Token* MisspeltStatement(const std::vector<Token>& tokens, size_t index,
                               const std::string& expected) {
  if (expected != "';'" || index < 2) return nullptr;
  const Token& word = tokens[index - 1];
  const absl::string_view before = tokens[index - 2].text;
  const bool first = before == "{" || before == "}" || before == ";";
  const bool plain =
      word.kind == Token::Kind::kName && !IsKeyword(word.text) && !IsActionLetter(word.text);
  const absl::string_view next = tokens[index].text;
  const bool argument = tokens[index].kind == Token::Kind::kName ||
                        tokens[index].kind == Token::Kind::kNumber || next == "(" || next == "{";
  return first && plain && argument ? &word : nullptr;
}

}  // namespace

void AddSyntaxFinding(const std::vector<Token>& tokens, size_t index, const std::string& expected,
                      Diagnostics* diagnostics) {
  const Token& found = tokens[index];
  if (const Token* word = MisspeltStatement(tokens, index, expected)) {
    const std::string closest = ClosestName(word->text, StatementWords());
    const std::string hint = closest.empty() ? "" : absl::StrCat("; did you mean '", closest, "'?");
    diagnostics->Add(Code::kUnknownStatement, word->span,
                     absl::StrCat(Describe(*word), " begins no statement", hint));
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
                     absl::StrCat("expected ", expected, " before ", Describe(found)));
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
