#include "schedlang/text/format_pieces.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "schedlang/text/words.h"

namespace stringline {
namespace {

using Kind = Token::Kind;

// Makes pieces in a walk over the text.
class Cutter {
 public:
  explicit Cutter(absl::string_view text) : text_(text) {}

  void Add(absl::string_view piece, Kind kind, bool comment) {
    const bool starts_line = pieces_.empty() || breaks_ > 0;
    if (starts_line) indent_ = column_;
    if (breaks_ > 1) ++paragraph_;
    pieces_.push_back({piece, kind, comment, pieces_.empty() ? 0 : std::min(breaks_, 2),
                       starts_line ? 0 : gap_, column_, indent_, paragraph_});
    column_ += WidthOf(piece);
    breaks_ = 0;
    gap_ = 0;
  }

  // Adds the text between two words: blanks, line ends and comments.
  void AddBetween(size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      if (text_[i] == '#') {
        const size_t stop = std::min(text_.find('\n', i), end);
        Add(absl::StripTrailingAsciiWhitespace(text_.substr(i, stop - i)), Kind::kUnknown, true);
        i = stop - 1;
      } else if (text_[i] == '\n') {
        ++breaks_;
        column_ = 0;
      } else {
        ++gap_;
        ++column_;
      }
    }
  }

  std::vector<FormatPiece> Take() { return std::move(pieces_); }

 private:
  const absl::string_view text_;
  std::vector<FormatPiece> pieces_;
  int breaks_ = 0;
  int gap_ = 0;
  int column_ = 0;
  int indent_ = 0;
  int paragraph_ = 0;
};

bool Is(const FormatPiece& piece, absl::string_view text) {
  return !piece.comment && piece.text == text;
}

bool IsOneOf(const FormatPiece& piece, absl::string_view characters) {
  return piece.kind == Kind::kPunctuation && piece.text.size() == 1 &&
         characters.find(piece.text[0]) != absl::string_view::npos;
}

bool FollowsDot(const std::vector<FormatPiece>& pieces, size_t i) {
  return i > 0 && Is(pieces[i - 1], ".");
}

bool IsWordOfLanguage(const std::vector<FormatPiece>& pieces, size_t i) {
  return pieces[i].kind == Kind::kName && !FollowsDot(pieces, i) && IsKeyword(pieces[i].text);
}

// True for the ':' of `at slot : action`, and not for that of `a ? b : c`.
bool IsColonOfAt(const std::vector<FormatPiece>& pieces, size_t i) {
  if (!Is(pieces[i], ":")) return false;
  int open = 0;
  for (size_t k = i; k > 0 && !IsOneOf(pieces[k - 1], "{};"); --k) {
    open += Is(pieces[k - 1], "?") ? 1 : Is(pieces[k - 1], ":") ? -1 : 0;
  }
  return open == 0;
}

// R, D and U are letters only where they begin an action, and names elsewhere.
bool BeginsFurther(const std::vector<FormatPiece>& pieces, size_t i) {
  const bool begins = i == 0 || IsOneOf(pieces[i - 1], "{};&") || pieces[i - 1].comment ||
                      IsColonOfAt(pieces, i - 1);
  return begins && IsFurtherLetter(pieces[i].text) && i + 1 < pieces.size() &&
         !IsOneOf(pieces[i + 1], "};&=");
}

bool IsLetter(const std::vector<FormatPiece>& pieces, size_t i) {
  return pieces[i].kind == Kind::kName && !FollowsDot(pieces, i) &&
         (IsActionLetter(pieces[i].text) || BeginsFurther(pieces, i));
}

bool BeginsStatement(const std::vector<FormatPiece>& pieces, size_t i) {
  return i == 0 || IsOneOf(pieces[i - 1], "{};") || pieces[i - 1].comment;
}

// `defer W by e`, `hold at most e`, `within memory e`, `slices e;`: words only in those places.
bool IsWordInPlace(const std::vector<FormatPiece>& pieces, size_t i) {
  if (BeginsStatement(pieces, i) && BeginsInPlace(pieces[i].text)) return true;
  return i > 0 &&
         ((Is(pieces[i], "by") && (Is(pieces[i - 1], "W") || Is(pieces[i - 1], "recompute") ||
                                   Is(pieces[i - 1], "offload"))) ||
          (Is(pieces[i], "most") && Is(pieces[i - 1], "at")) || Is(pieces[i - 1], "within"));
}

// True if an operand ends with pieces[i], so that an operator or its bracket follows.
bool EndsOperand(const std::vector<FormatPiece>& pieces, size_t i) {
  const FormatPiece& piece = pieces[i];
  if (piece.kind == Kind::kNumber || IsOneOf(piece, ")]")) return true;
  return piece.kind == Kind::kName && !IsWordOfLanguage(pieces, i) && !IsLetter(pieces, i) &&
         !IsWordInPlace(pieces, i);
}

bool IsSign(const std::vector<FormatPiece>& pieces, size_t i) {
  return Is(pieces[i], "-") && (i == 0 || !EndsOperand(pieces, i - 1));
}

}  // namespace

int WidthOf(absl::string_view text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

std::vector<FormatPiece> Pieces(absl::string_view text) {
  Cutter cutter(text);
  size_t at = 0;
  for (const Token& token : Tokenize(text)) {
    if (token.kind == Kind::kEnd) break;
    cutter.AddBetween(at, token.span.begin);
    cutter.Add(token.text, token.kind, false);
    at = token.span.end;
  }
  cutter.AddBetween(at, text.size());
  return cutter.Take();
}

int BlanksBefore(const std::vector<FormatPiece>& pieces, size_t i) {
  const FormatPiece& before = pieces[i - 1];
  const FormatPiece& piece = pieces[i];
  if (piece.comment) return 2;
  if (IsOneOf(piece, "),;].") || IsOneOf(before, "([.") || IsSign(pieces, i - 1)) return 0;
  if (IsOneOf(piece, "([")) return EndsOperand(pieces, i - 1) ? 0 : 1;
  return 1;
}

bool BeginsLanePart(const std::vector<FormatPiece>& pieces, size_t i) {
  const bool begins =
      IsLetter(pieces, i) || (pieces[i].kind == Kind::kNumber && !FollowsDot(pieces, i));
  return begins && i + 1 < pieces.size() && Is(pieces[i + 1], ".");
}

bool MayBeAligned(const std::vector<FormatPiece>& pieces, size_t i) {
  const FormatPiece& piece = pieces[i];
  if (piece.comment || piece.kind == Kind::kString) return true;
  if (BlanksBefore(pieces, i) == 0) return false;
  if (IsOneOf(piece, "{=:@&") || IsOneOf(pieces[i - 1], ",;:}")) return true;
  if (BeginsLanePart(pieces, i)) return true;
  const bool expression = piece.text == "and" || piece.text == "or" || piece.text == "not";
  return IsWordOfLanguage(pieces, i) && !expression && !IsWordOfLanguage(pieces, i - 1);
}

}  // namespace stringline
