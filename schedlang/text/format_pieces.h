// A schedule's text cut into pieces, for the formatter: its words and its comments, each with the
// place where the author put it, and the rule for the space between two of them.
#pragma once

#include <vector>

#include "absl/strings/string_view.h"
#include "schedlang/text/tokens.h"

namespace stringline {

// Columns count characters from 0.
struct FormatPiece {
  absl::string_view text;
  Token::Kind kind = Token::Kind::kName;
  bool comment = false;  // from '#' to the end of its line, without blanks at its end
  int breaks = 0;        // line ends before it; 2 stands for any number of empty lines
  int gap = 0;           // blanks between the piece before it on its line and this one
  int column = 0;        // of its first character
  int indent = 0;        // the column of its line's first piece
  int paragraph = 0;     // goes up with every empty line
};

// All words and comments of the text, in order.
std::vector<FormatPiece> Pieces(absl::string_view text);

// How many columns the text takes: characters, not bytes.
int WidthOf(absl::string_view text);

// The blanks between pieces[i - 1] and pieces[i] when they stand on one line: 0, 1, or 2 before a
// comment.
int BlanksBefore(const std::vector<FormatPiece>& pieces, size_t i);

// Whether the author may leave more blanks there, to line up pieces[i] with what stands above it.
bool MayBeAligned(const std::vector<FormatPiece>& pieces, size_t i);

// Whether pieces[i] begins a part of an overlap's lane: the F of `F.attn`.
bool BeginsLanePart(const std::vector<FormatPiece>& pieces, size_t i);

}  // namespace stringline
