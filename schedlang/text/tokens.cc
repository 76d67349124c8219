#include "schedlang/text/tokens.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace stringline {
namespace {

bool InName(char c) { return absl::ascii_isalnum(c) || c == '_'; }

// The length of the space and comments at the beginning of `text`.
size_t BlankLength(absl::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    if (text[i] == '#') {
      i = std::min(text.find('\n', i), text.size());
    } else if (absl::ascii_isspace(text[i])) {
      ++i;
    } else {
      break;
    }
  }
  return i;
}

size_t CountWhile(absl::string_view text, bool (*belongs)(char)) {
  return std::find_if_not(text.begin(), text.end(), belongs) - text.begin();
}

// `text` begins with a quote.
Token StringToken(absl::string_view text) {
  const size_t stop = text.find_first_of("\"\n", 1);
  if (stop != absl::string_view::npos && text[stop] == '"') {
    return {Token::Kind::kString, {}, text.substr(0, stop + 1)};
  }
  return {Token::Kind::kUnknown, {}, text.substr(0, stop)};
}

// The first word of `text`, which is not empty.
Token FirstToken(absl::string_view text) {
  const char c = text[0];
  if (absl::ascii_isalpha(c) || c == '_') {
    return {Token::Kind::kName, {}, text.substr(0, CountWhile(text, InName))};
  }
  if (absl::ascii_isdigit(c)) {
    return {Token::Kind::kNumber, {}, text.substr(0, CountWhile(text, InName))};
  }
  if (c == '"') return StringToken(text);
  for (absl::string_view pair : {"==", "!=", "<=", ">=", "->"}) {
    if (text.substr(0, 2) == pair) return {Token::Kind::kPunctuation, {}, text.substr(0, 2)};
  }
  constexpr absl::string_view kSingles = "()[]{};,=+-*/%&@?:<>.!|^~$'";
  const bool known = kSingles.find(c) != absl::string_view::npos;
  return {known ? Token::Kind::kPunctuation : Token::Kind::kUnknown, {}, text.substr(0, 1)};
}

// Walks over the tokens with the stack of open brackets. Stops, and returns the token, when the
// stack gets higher than `deepest`.
const Token* WalkBrackets(const std::vector<Token>& tokens, size_t deepest,
                          std::vector<const Token*>* open) {
  const auto pop_questions = [open] {
    while (!open->empty() && open->back()->text == "?") open->pop_back();
  };
  for (const Token& token : tokens) {
    if (token.kind != Token::Kind::kPunctuation) continue;
    switch (token.text[0]) {
      case '(':
      case '[':
      case '{':
      case '?':
        open->push_back(&token);
        if (open->size() > deepest) return &token;
        break;
      case ':':
        if (!open->empty() && open->back()->text == "?") open->pop_back();
        break;
      case ';':
        pop_questions();
        break;
      case ')':
      case ']':
      case '}':
        pop_questions();
        if (!open->empty()) open->pop_back();
        break;
      default:
        break;
    }
  }
  pop_questions();
  return nullptr;
}

}  // namespace

std::vector<Token> Tokenize(absl::string_view text, uint32_t first_offset) {
  std::vector<Token> tokens;
  size_t at = BlankLength(text);
  while (at < text.size()) {
    Token token = FirstToken(text.substr(at));
    const uint32_t begin = first_offset + static_cast<uint32_t>(at);
    token.span = {begin, begin + static_cast<uint32_t>(token.text.size())};
    tokens.push_back(token);
    at += token.text.size();
    at += BlankLength(text.substr(at));
  }
  const Span last = tokens.empty() ? Span{first_offset, first_offset} : tokens.back().span;
  tokens.push_back({Token::Kind::kEnd, last, ""});
  return tokens;
}

const Token* FirstTooDeep(const std::vector<Token>& tokens, int deepest) {
  std::vector<const Token*> open;
  return WalkBrackets(tokens, static_cast<size_t>(deepest), &open);
}

const Token* LastUnclosed(const std::vector<Token>& tokens) {
  std::vector<const Token*> open;
  WalkBrackets(tokens, tokens.size(), &open);
  return open.empty() ? nullptr : open.back();
}

std::string Describe(const Token& token) {
  if (token.kind == Token::Kind::kEnd) return "the end of the file";
  if (token.kind == Token::Kind::kUnknown && token.text[0] != '"') {
    const auto byte = static_cast<unsigned char>(token.text[0]);
    return byte > 0x20 && byte < 0x7f ? absl::StrCat("'", token.text, "'")
                                      : absl::StrFormat("byte 0x%02x", byte);
  }
  constexpr size_t kLongest = 40;
  if (token.text.size() <= kLongest) return absl::StrCat("'", token.text, "'");
  return absl::StrCat("'", token.text.substr(0, kLongest), "...'");
}

}  // namespace stringline
