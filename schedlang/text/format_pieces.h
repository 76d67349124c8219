// The formatter's pieces: a schedule's words and comments, each with its original place, and the
// rule for the space between two of them.
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
  int breaks = 0;        // line ends before the piece; 2 stands for any number of empty lines
  int gap = 0;           // blanks after the piece before it on its line
  int column = 0;        // its first character's
  int indent = 0;        // the column of its line's first piece
  int paragraph = 0;     // goes up with every empty line
};

// All words and comments of the text, in order.
std::vector<FormatPiece> Pieces(absl::string_view text);

// The width of the text in columns: characters, not bytes.
int WidthOf(absl::string_view text);

// The blanks between pieces[i - 1] and pieces[i] on a line: 0, 1, or 2 before a comment.
int BlanksBefore(const std::vector<FormatPiece>& pieces, size_t i);

// True if the author may add blanks before pieces[i], to align it with the lines above.
bool MayBeAligned(const std::vector<FormatPiece>& pieces, size_t i);

// True if pieces[i] begins a part of an overlap's lane: the F of `F.attn`, the 1 of `1.attn`.
bool BeginsLanePart(const std::vector<FormatPiece>& pieces, size_t i);

}  // namespace stringline
