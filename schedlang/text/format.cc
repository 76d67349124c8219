// The text is cut into pieces, words and comments, with their original places. Lines are cut and
// every piece gets its column; while a line is too long, its blocks are opened and all is laid out
// again. At the end the pieces must be unchanged.
#include "schedlang/text/format.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "schedlang/base/sl_check.h"
#include "schedlang/text/format_pieces.h"
#include "schedlang/text/parse.h"

namespace stringline {
namespace {

constexpr int kWidest = 100;
constexpr int kBlockIndent = 2;
constexpr int kGoesOnIndent = 4;

// Pieces [begin, end) of a line.
struct LineOfPieces {
  size_t begin = 0;
  size_t end = 0;
  int indent = 0;
  bool as_written = false;  // its first piece began a line of the author's
};

class TextLayout {
 public:
  explicit TextLayout(std::vector<FormatPiece> pieces)
      : pieces_(std::move(pieces)),
        partner_(pieces_.size(), 0),
        open_(pieces_.size(), false),
        ends_line_(pieces_.size(), false),
        breaks_(pieces_.size(), 0),
        columns_(pieces_.size(), 0) {
    PairBraces();
  }

  std::string Print() {
    do {
      for (size_t i = 0; i < pieces_.size(); ++i) breaks_[i] = BreaksBefore(i);
      CutLines();
      PlaceAll();
    } while (OpenLongLines());
    return Joined();
  }

 private:
  bool Is(size_t i, absl::string_view text) const {
    return !pieces_[i].comment && pieces_[i].text == text;
  }
  bool IsOneOf(size_t i, absl::string_view characters) const {
    return pieces_[i].kind == Token::Kind::kPunctuation && pieces_[i].text.size() == 1 &&
           characters.find(pieces_[i].text[0]) != absl::string_view::npos;
  }

  bool BeginsFilePart(size_t i) const { return Is(i, "schedule") || Is(i, "use"); }

  // Finds every brace's partner, and the blocks that contain a line end.
  void PairBraces() {
    std::vector<size_t> stack;
    for (size_t i = 0; i < pieces_.size(); ++i) {
      if (pieces_[i].breaks > 0 && !stack.empty()) open_[stack.back()] = true;
      if (Is(i, "{")) stack.push_back(i);
      if (!Is(i, "}") || stack.empty()) continue;
      const size_t begin = stack.back();
      stack.pop_back();
      partner_[begin] = i;
      partner_[i] = begin;
      open_[i] = open_[begin];
      if (open_[begin] && !stack.empty()) open_[stack.back()] = true;
    }
  }

  void Open(size_t brace) { open_[brace] = open_[partner_[brace]] = true; }

  int BreaksBefore(size_t i) const {
    if (i == 0) return 0;
    const int written = pieces_[i].breaks;
    if (pieces_[i].comment) return Is(i - 1, "{") ? std::min(written, 1) : written;
    if (Is(i, "}") && open_[i]) return 1;
    if (pieces_[i - 1].comment) return std::max(1, written);
    if (IsOneOf(i, "{;,)]") || IsOneOf(i - 1, "([")) return 0;
    if (Is(i - 1, "{")) return open_[i - 1] ? 1 : 0;
    if (Is(i - 1, "}")) {
      const bool goes_on = Is(i, "else");
      if (open_[i - 1]) return goes_on ? 0 : std::max(1, written);
      if (goes_on) return std::min(written, 1);
      return BeginsFilePart(i) ? std::max(1, written) : written;
    }
    if (Is(i - 1, ";")) return std::max(written, ends_line_[i - 1] || BeginsFilePart(i) ? 1 : 0);
    return std::min(written, 1);
  }

  // True if the line that begins with pieces[i] continues a statement of an earlier line.
  bool GoesOn(size_t i) const {
    size_t next = i;
    while (next < pieces_.size() && pieces_[next].comment) ++next;
    if (next == pieces_.size() || Is(next, "}") || BeginsLanePart(pieces_, next)) return false;
    size_t before = i;
    while (before > 0 && pieces_[before - 1].comment) --before;
    return before > 0 && !IsOneOf(before - 1, "{};");
  }

  void CutLines() {
    lines_.clear();
    int depth = 0;
    for (size_t i = 0; i < pieces_.size(); ++i) {
      if (Is(i, "}")) --depth;
      if (i == 0 || breaks_[i] > 0) {
        if (!lines_.empty()) lines_.back().end = i;
        const int indent = depth * kBlockIndent + (GoesOn(i) ? kGoesOnIndent : 0);
        lines_.push_back({i, pieces_.size(), indent, i == 0 || pieces_[i].breaks > 0});
      }
      if (Is(i, "{")) ++depth;
    }
  }

  // The key of an aligned column: paragraph, column as written, kind of piece.
  using ColumnKey = std::tuple<int, int, absl::string_view>;

  ColumnKey KeyOf(size_t i) const {
    const FormatPiece& piece = pieces_[i];
    absl::string_view kind = piece.text;
    if (piece.comment) kind = "#";
    if (piece.kind == Token::Kind::kString) kind = "\"";
    if (BeginsLanePart(pieces_, i)) kind = ".";
    return {piece.paragraph, piece.column, kind};
  }

  // By aligned column: the line and the piece of each member.
  using Columns = std::map<ColumnKey, std::vector<std::pair<size_t, size_t>>>;

  Columns FindColumns() const {
    Columns columns;
    for (const bool wide : {true, false}) {
      for (size_t l = 0; l < lines_.size(); ++l) {
        if (!lines_[l].as_written) continue;
        for (size_t i = lines_[l].begin + 1; i < lines_[l].end && pieces_[i].breaks == 0; ++i) {
          if ((pieces_[i].gap >= 2) != wide || !MayBeAligned(pieces_, i)) continue;
          if (wide) {
            columns[KeyOf(i)].push_back({l, i});
          } else if (const auto column = columns.find(KeyOf(i)); column != columns.end()) {
            column->second.push_back({l, i});
          }
        }
      }
    }
    return columns;
  }

  // Decides the column of every piece, one aligned column at a time from left to right, at the
  // place that its widest line needs.
  void PlaceAll() {
    std::vector<size_t> placed(lines_.size());  // by line: the first piece without a column
    for (size_t l = 0; l < lines_.size(); ++l) {
      columns_[lines_[l].begin] = lines_[l].indent;
      placed[l] = lines_[l].begin + 1;
    }
    const auto place = [&](size_t line, size_t last) {
      for (size_t& i = placed[line]; i <= last; ++i) {
        columns_[i] = columns_[i - 1] + WidthOf(pieces_[i - 1].text) + BlanksBefore(pieces_, i);
      }
    };
    const Columns found = FindColumns();
    std::vector<const Columns::value_type*> ordered;
    for (const auto& column : found) ordered.push_back(&column);
    std::sort(ordered.begin(), ordered.end(), [](const auto* a, const auto* b) {
      return std::get<1>(a->first) < std::get<1>(b->first);
    });
    for (const auto* column : ordered) {
      int target = 0;
      for (const auto& [line, i] : column->second) {
        place(line, i);
        const int shift = lines_[line].indent - pieces_[i].indent;
        // A gap stays a gap: two blanks at least.
        const int least = pieces_[i].gap >= 2 && BlanksBefore(pieces_, i) < 2 ? 1 : 0;
        target = std::max({target, columns_[i] + least, pieces_[i].column + shift});
      }
      for (const auto& [line, i] : column->second) columns_[i] = target;
    }
    for (size_t l = 0; l < lines_.size(); ++l) place(l, lines_[l].end - 1);
  }

  // Opens blocks in lines that are too long. False if nothing can be opened.
  bool OpenLongLines() {
    bool changed = false;
    for (const LineOfPieces& line : lines_) {
      size_t end = line.end;
      if (pieces_[end - 1].comment) --end;
      if (end <= line.begin) continue;
      if (columns_[end - 1] + WidthOf(pieces_[end - 1].text) <= kWidest) continue;
      changed = OpenBlocks(line.begin, end) || EndStatements(line.begin, end) || changed;
    }
    return changed;
  }

  bool OpenBlocks(size_t begin, size_t end) {
    bool changed = false;
    for (size_t i = begin; i < end; ++i) {
      if (!Is(i, "{") || open_[i]) continue;
      Open(i);
      changed = true;
      i = partner_[i];
    }
    return changed;
  }

  bool EndStatements(size_t begin, size_t end) {
    bool changed = false;
    for (size_t i = begin; i + 1 < end; ++i) {
      if (!Is(i, ";") || ends_line_[i]) continue;
      ends_line_[i] = true;
      changed = true;
    }
    return changed;
  }

  std::string Joined() const {
    std::string out;
    for (const LineOfPieces& line : lines_) {
      if (breaks_[line.begin] > 1) out += '\n';
      int column = 0;
      for (size_t i = line.begin; i < line.end; ++i) {
        out.append(columns_[i] - column, ' ');
        out.append(pieces_[i].text.data(), pieces_[i].text.size());
        column = columns_[i] + WidthOf(pieces_[i].text);
      }
      out += '\n';
    }
    return out;
  }

  const std::vector<FormatPiece> pieces_;
  std::vector<size_t> partner_;  // for a brace
  std::vector<bool> open_;       // for a brace: its block holds line ends
  std::vector<bool> ends_line_;  // for a ';'
  std::vector<int> breaks_;      // before each piece, as decided
  std::vector<int> columns_;     // as decided
  std::vector<LineOfPieces> lines_;
};

bool SamePieces(absl::string_view a, absl::string_view b) {
  const std::vector<FormatPiece> first = Pieces(a), second = Pieces(b);
  return std::equal(first.begin(), first.end(), second.begin(), second.end(),
                    [](const FormatPiece& x, const FormatPiece& y) {
                      return x.text == y.text && x.comment == y.comment;
                    });
}

}  // namespace

std::optional<std::string> Format(const Source& source, Diagnostics* diagnostics) {
  if (!Parse(source, diagnostics)) return std::nullopt;
  std::string text = TextLayout(Pieces(source.text())).Print();
  SL_CHECK(SamePieces(source.text(), text)) << "after laying out " << source.path();
  return text;
}

}  // namespace stringline
