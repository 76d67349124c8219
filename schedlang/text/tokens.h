// A text cut into words, which the grammar reads and its messages name.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "schedlang/base/source.h"

namespace stringline {

struct Token {
  enum class Kind : uint8_t {
    kName,
    kNumber,       // digits, with any letters behind: `3x` is one wrong number
    kString,       // on one line, with its quotes
    kPunctuation,  // ( ) [ ] { } ; , = + - * / % & @ ? : < > == != <= >= ->
    kUnknown,      // bytes that belong to no word, or a string not closed on its line
    kEnd,          // the end of the text; points at the last word
  };
  Kind kind = Kind::kEnd;
  Span span;
  absl::string_view text;
};

// All words of the text, comments left out; the last is kEnd. The tokens point into `text`, whose
// first byte has the place `first_offset`.
std::vector<Token> Tokenize(absl::string_view text, uint32_t first_offset = 0);

// The first token at which brackets, and the `? :` of conditions, nest deeper than `deepest`, or
// null. The grammar recurses exactly at these, so this bounds its stack.
const Token* FirstTooDeep(const std::vector<Token>& tokens, int deepest);

// The last opened bracket that is never closed; null if all are closed.
const Token* LastUnclosed(const std::vector<Token>& tokens);

// The token's name in messages: 'repeat', byte 0x1b, the end of the file.
std::string Describe(const Token& token);

}  // namespace stringline
