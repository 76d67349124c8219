// A raster gives the group of each column, or with colours of each half column. A line is runs of
// columns with equal content, and each run bears the longest label that fits. Folding cuts a longer
// raster into bands.
#include "tools/view/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "tools/view/fold.h"
#include "tools/view/lane_rows.h"
#include "tools/view/raster.h"
#include "tools/view/shown_part.h"
#include "tools/view/stage_shades.h"
#include "tools/view/terminal_legend.h"
#include "tools/view/words.h"

namespace stringline {
namespace {

// F, B, I, W, R and UPDATE of marked stages, and the small ones.
constexpr const char* kDotted[][2] = {{"Ḟ", "ḟ"}, {"Ḃ", "ḃ"}, {"Ï", "ï"},
                                      {"Ẇ", "ẇ"}, {"Ṙ", "ṙ"}, {"Û", "û"}};
constexpr const char* kDottedCopies[2][2] = {{"Ḋ", "ḋ"}, {"Ü", "ü"}};  // D and U
constexpr int64_t kFoldedCell = 3;  // columns of the shortest action where bands are folded
constexpr int kMarginRight = 12;    // "  73%  peak"
constexpr int kMostTwoLineRanks = 24;
constexpr size_t kMostUnfinished = 8;
constexpr Rgb kCollectivePaint = {168, 168, 178}, kReducePaint = {112, 112, 124};
constexpr int kHidden = -2;  // in place of an event: one of a hidden microbatch

// 523636 -> 524000
int64_t ThreeDigits(int64_t value) {
  int64_t unit = 1;
  while (value / unit >= 1000) unit *= 10;
  return (value + unit / 2) / unit * unit;
}

// Characters, each of which is a column wide.
std::vector<std::string> GlyphsOf(const std::string& text) {
  std::vector<std::string> glyphs;
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) & 0xc0) != 0x80) glyphs.emplace_back();
    glyphs.back().push_back(c);
  }
  return glyphs;
}

// Null for a schedule's own actions, whose names are plain.
const char* const* Dotted(ActionKind kind) {
  if (IsOwn(kind)) return nullptr;
  if (IsCopy(kind)) return kDottedCopies[kind == ActionKind::kOffload ? 0 : 1];
  return kDotted[static_cast<size_t>(kind)];
}

class Drawing {
 public:
  // `rows`: null to draw a row for each rank. `end_ns`: the right edge; 0: the last end. `legend`
  // notes all that is drawn.
  Drawing(const Timeline& step, const LaneRows* rows, const Picture& picture, int64_t end_ns,
          TerminalLegend* legend)
      : step_(step),
        rows_(rows),
        picture_(picture),
        legend_(*legend),
        bubbles_(MeasureBubbles(step)),
        first_row_(FirstRow()),
        timeline_(Crop(whole(), first_row_, LastRow(), picture.part)),
        shades_(ShadesOf(step)) {
    legend_.shades.Add(shades_);
    for (const OwnAction& row : step.rows.actions) legend_.own.emplace(row.kind, row.name);
    legend_.hides_microbatches = picture.part.CutsMicrobatches();
    legend_.has_slices = legend_.has_slices || step.slices > 1;
    legend_.is_flight = legend_.is_flight || step.origin == "flight";
    for (const Event& event : step.events) {
      if (!IsCompute(event.kind)) continue;
      last_microbatch_ = std::max(last_microbatch_, MicrobatchOfStep(step, event));
    }
    for (int row = 0; row < timeline_.ranks(); ++row) LookAt(row);
    for (int row = 0; row < timeline_.ranks(); ++row) {
      margin_left_ = std::max(margin_left_, static_cast<int>(NameOf(row).size()) + 2);
    }
    band_ = std::max(10, picture.width - margin_left_ - kMarginRight);
    if (picture.part.CutsTime()) {
      end_ns = picture.part.LengthIn(std::max(end_ns, bubbles_.makespan_ns));
    }
    const int64_t folds =
        picture.fold ? FoldsNeeded(timeline_, end_ns, band_, kFoldedCell) : int64_t{1};
    raster_ = Rasterize(timeline_, band_ * static_cast<int>(folds), colored() ? 2 : 1, end_ns);
    const bool is_crowded = timeline_.ranks() > kMostTwoLineRanks;
    lines_per_rank_ = most_parts_ == 2 && is_crowded ? 1 : most_parts_;
  }

  std::string Everything() {
    std::string text = Header();
    int from = 0;
    do {
      if (from > 0) text += "\n";
      const int to = std::min(from + band_, raster_.columns);
      for (int rank = 0; rank < timeline_.ranks(); ++rank) {
        for (int line = 0; line < lines_per_rank_; ++line) text += RankLine(rank, line, from, to);
      }
      text += Axis(from, to);
      from = to;
    } while (from < raster_.columns);
    return text;
  }

  // The legend, and the notes of this picture.
  std::string Notes() const;

 private:
  bool colored() const { return picture_.colors != Colors::kNone; }

  const Timeline& whole() const { return rows_ == nullptr ? step_ : rows_->timeline; }
  // The first shown row among all rows, and the last.
  int FirstRow() const {
    int row = 0;
    while (row < whole().ranks() && !picture_.part.ShowsRank(RankOf(row))) ++row;
    return row;
  }
  int LastRow() const {
    int row = whole().ranks() - 1;
    while (row >= 0 && !picture_.part.ShowsRank(RankOf(row))) --row;
    return row;
  }
  int RankOf(int row) const { return rows_ == nullptr ? row : rows_->ranks[row]; }
  // From here on `row` counts from the first shown row.
  LaneKind KindOf(int row) const {
    return rows_ == nullptr ? LaneKind::kCompute : rows_->kinds[first_row_ + row];
  }
  std::string NameOf(int row) const {
    return rows_ == nullptr ? absl::StrCat("rank ", first_row_ + row)
                            : rows_->names[first_row_ + row];
  }

  void LookAt(int row) {
    const LaneKind lane = KindOf(row);
    legend_.lanes.insert(lane);
    int parts = 0;
    for (const Event& event : timeline_.of(RankId(row))) {
      if (!IsCompute(event.kind)) continue;
      parts = event.joined ? parts + 1 : 1;
      most_parts_ = std::max(most_parts_, parts);
      if (!HasOwnColors(lane)) legend_.kinds.insert(DrawnKind(lane, event.kind));
    }
  }

  std::string NumberOf(int row, const Event& event) const {
    const bool is_stage = KindOf(row) == LaneKind::kCollectives;
    return is_stage ? absl::StrCat(event.microbatch.value) : PrintNumber(step_, event);
  }

  Rgb PaintOfEvent(int row, const Event& event) const {
    if (KindOf(row) == LaneKind::kCollectives) {
      return event.kind == ActionKind::kForward ? kCollectivePaint : kReducePaint;
    }
    const int microbatch = MicrobatchOfStep(step_, event);
    // The steps between 256 colours are too wide for a drift.
    const bool drifts = last_microbatch_ > 0 && picture_.colors != Colors::k256;
    const double progress = drifts ? static_cast<double>(microbatch) / last_microbatch_ : 0;
    const double slice =
        step_.slices == 1 ? 0 : static_cast<double>(SliceOf(step_, event)) / (step_.slices - 1);
    return PaintOf(DrawnKind(KindOf(row), event.kind), ShadeOf(event), microbatch, progress, slice);
  }

  int PartsOf(int index) const {
    size_t end = index + 1;
    while (end < timeline_.events.size() && timeline_.events[end].joined) ++end;
    return static_cast<int>(end) - index;
  }
  // The part of the group at `index` on line `line` of its row: the first part on top.
  const Event& Part(int index, int line) const {
    return timeline_.events[index + line * PartsOf(index) / lines_per_rank_];
  }
  // True if a part begins on this line; without colours each part takes one line.
  bool Begins(int index, int line) const {
    const int parts = PartsOf(index);
    if (!colored()) return line < parts;
    return line == 0 || line * parts / lines_per_rank_ != (line - 1) * parts / lines_per_rank_;
  }
  const Event& PartThatBegins(int index, int line) const {
    return colored() ? Part(index, line) : timeline_.events[index + line];
  }
  bool IsShown(int row, const Event& event) const {
    return KindOf(row) == LaneKind::kCollectives ||
           picture_.part.ShowsMicrobatch(MicrobatchOfStep(step_, event));
  }
  // `index`, or kHidden if its part on this line is not shown.
  int Shown(int row, int index, int line) const {
    if (index < 0 || !picture_.part.CutsMicrobatches()) return index;
    const bool whole = colored() || !Begins(index, line);
    return IsShown(row, whole ? Part(index, line) : PartThatBegins(index, line)) ? index : kHidden;
  }

  int ShadeOf(const Event& event) const {
    return shades_.of[static_cast<size_t>(event.stage.value)];
  }

  std::string Letter(int row, const Event& event) const {
    switch (KindOf(row)) {
      case LaneKind::kActivations:
        return "a";
      case LaneKind::kGradients:
        return "g";
      case LaneKind::kCollectives:
        return std::string(1, LetterOfCollective(event.kind));
      default: {
        const int shade = ShadeOf(event);
        const ActionKind kind = DrawnKind(KindOf(row), event.kind);
        if (const char* const* const dotted = Dotted(kind); IsMarked(shade) && dotted != nullptr) {
          return dotted[IsDark(shade) ? 1 : 0];
        }
        const char letter = PrintedKind(step_.rows, kind)[0];
        return std::string(1, static_cast<char>(IsDark(shade) ? std::tolower(letter) : letter));
      }
    }
  }

  // All parts of a group on a single line: "F7&B3".
  std::string GroupName(int row, int index) const {
    std::string name;
    for (int part = 0; part < PartsOf(index); ++part) {
      const Event& event = timeline_.events[index + part];
      absl::StrAppend(&name, part == 0 ? "" : "&", Letter(row, event), NumberOf(row, event));
    }
    return name;
  }

  // The label of a cell of `width` whole columns.
  std::vector<std::string> Label(int row, int index, int line, int width) {
    if (!Begins(index, line)) return {};
    const Event& event = PartThatBegins(index, line);
    const std::string number = absl::StrCat(NumberOf(row, event), event.unfinished ? "?" : "");
    // A slice with little room bears the number of its microbatch.
    const std::string of_microbatch = number.substr(0, number.find('.'));
    const std::string last_digit = of_microbatch.substr(of_microbatch.size() - 1);
    std::vector<std::string> choices;
    if (colored()) {
      choices = {number, last_digit};
    } else if (lines_per_rank_ < PartsOf(index)) {
      choices = {GroupName(row, index), "&"};
    } else {
      const std::string letter = Letter(row, event);
      choices = {letter + number, letter + last_digit, letter};
    }
    // A cell for several actions bears no number.
    const double slack = colored() ? 0.05 : 0.5;
    const double own =
        static_cast<double>(event.end_ns - event.start_ns) / raster_.end_ns * raster_.columns;
    for (size_t i = 0; i < choices.size(); ++i) {
      const std::vector<std::string> glyphs = GlyphsOf(choices[i]);
      const int size = static_cast<int>(glyphs.size());
      const bool letter_alone = !colored() && size == 1;
      if (size > width || (!letter_alone && own <= size - slack)) continue;
      NoteNumber(row, letter_alone, i == 1 && of_microbatch.size() > 1);
      return glyphs;
    }
    return {};
  }
  // Collectives bear numbers of stages, which their own line of the legend explains.
  void NoteNumber(int row, bool letter_alone, bool is_last_digit) {
    if (letter_alone || KindOf(row) == LaneKind::kCollectives) return;
    legend_.has_numbers = true;
    legend_.has_last_digits = legend_.has_last_digits || is_last_digit;
  }

  std::string Header() const;
  int64_t BusyOf(int row) const;
  // The columns from .. to - 1 of the raster.
  std::string RankLine(int row, int line, int from, int to);
  std::string Cells(int row, int line, int from, int to);
  void AppendRun(int row, int index, int line, int width, std::string* text);
  void AppendHalves(int row, int left, int right, int line, std::string* text);
  std::string Axis(int from, int to) const;

  const Timeline& step_;
  const LaneRows* const rows_;  // for the whole step
  const Picture picture_;
  TerminalLegend& legend_;
  const Bubbles bubbles_;  // for the whole step
  const int first_row_;
  const Timeline timeline_;  // the shown part of the rows
  const StageShades shades_;
  int last_microbatch_ = 0;
  int most_parts_ = 1;  // in a group
  int margin_left_ = 0;
  int band_ = 0;  // the columns of a line
  int lines_per_rank_ = 1;
  Raster raster_;
};

std::string Drawing::Header() const {
  std::string text = absl::StrCat(Bold(picture_.colors), TitleOf(step_), Plain(picture_.colors),
                                  "  ", step_.origin, ": ", PrintTime(bubbles_.makespan_ns), ", ",
                                  PrintBubble(bubbles_), "\n");
  const std::string shown = WordsOf(picture_.part, step_);
  if (!shown.empty()) absl::StrAppend(&text, shown, "; the figures are of all of it\n");
  absl::StrAppend(&text, std::string(margin_left_ + std::min(band_, raster_.columns), ' '),
                  Dim(picture_.colors), "  busy  peak", Plain(picture_.colors), "\n");
  return text;
}

std::string Drawing::RankLine(int row, int line, int from, int to) {
  std::string text = line == 0 ? absl::StrFormat("%-*s", margin_left_, NameOf(row))
                               : std::string(margin_left_, ' ');
  text += Cells(row, line, from, to);
  if (line > 0 && !colored()) text.erase(text.find_last_not_of(' ') + 1);
  if (line == 0 && from == 0 && bubbles_.makespan_ns > 0) {
    const double busy = static_cast<double>(BusyOf(row)) / bubbles_.makespan_ns;
    absl::StrAppend(&text, Dim(picture_.colors), absl::StrFormat("  %3.0f%%", 100 * busy));
    if (KindOf(row) == LaneKind::kCompute) {
      const Bubbles::Rank& rank = bubbles_.ranks[RankOf(first_row_ + row)];
      absl::StrAppendFormat(&text, "  %4s", PrintActivations(step_.slices, rank.peak_activations));
    }
    text += Plain(picture_.colors);
  }
  return text + "\n";
}

// The row's busy time, in the whole step.
int64_t Drawing::BusyOf(int row) const {
  if (rows_ == nullptr) return bubbles_.ranks[first_row_ + row].busy_ns;
  int64_t busy_ns = 0, now_ns = 0;
  for (const Event& event : whole().of(RankId(first_row_ + row))) {
    busy_ns += std::max<int64_t>(0, event.end_ns - std::max(now_ns, event.start_ns));
    now_ns = std::max(now_ns, event.end_ns);
  }
  return busy_ns;
}

// A run of `width` whole columns with equal content.
void Drawing::AppendRun(int row, int index, int line, int width, std::string* text) {
  const Colors colors = picture_.colors;
  if (index < 0) {
    *text += Dim(colors);
    for (int i = 0; i < width; ++i) *text += index == kHidden ? " " : "·";
    *text += Plain(colors);
    return;
  }
  const bool halves = colored() && lines_per_rank_ < PartsOf(index);
  const std::vector<std::string> label =
      halves ? std::vector<std::string>() : Label(row, index, line, width);
  const bool tells_stages = KindOf(row) != LaneKind::kCollectives;
  const Rgb paint = PaintOfEvent(row, Part(index, line));
  const Rgb below = halves ? PaintOfEvent(row, timeline_.events[index + 1]) : TextOn(paint);
  *text += Background(paint, colors) + Foreground(below, colors);
  if (!halves && tells_stages && IsMarked(ShadeOf(Part(index, line)))) {
    *text += Underline(colors);
  }
  const int left = colored() ? (width - static_cast<int>(label.size())) / 2 : 0;
  for (int i = 0; i < width; ++i) {
    const int at = i - left;
    if (halves) {
      *text += "▄";
    } else if (at >= 0 && at < static_cast<int>(label.size())) {
      *text += label[at];
    } else {
      *text += colored() || !Begins(index, line) ? " " : "─";
    }
  }
  *text += Plain(colors);
}

// A column whose halves differ.
void Drawing::AppendHalves(int row, int left, int right, int line, std::string* text) {
  const Colors colors = picture_.colors;
  if (left < 0 && right < 0) return AppendRun(row, left, line, 1, text);
  if (left >= 0) *text += Foreground(PaintOfEvent(row, Part(left, line)), colors);
  if (right >= 0) {
    const Rgb paint = PaintOfEvent(row, Part(right, line));
    *text += left >= 0 ? Background(paint, colors) : Foreground(paint, colors);
  }
  absl::StrAppend(text, left >= 0 ? "▌" : "▐", Plain(colors));
}

std::string Drawing::Cells(int row, int line, int from, int to) {
  const std::vector<int>& slices = raster_.rows[row];
  const int step = raster_.slices_per_column;
  std::string text;
  for (int column = from; column < to;) {
    const int left = slices[column * step];
    const int right = slices[column * step + step - 1];
    if (left != right) {
      AppendHalves(row, Shown(row, left, line), Shown(row, right, line), line, &text);
      ++column;
      continue;
    }
    int end = column + 1;
    while (end < to && slices[end * step] == left && slices[end * step + step - 1] == left) {
      ++end;
    }
    AppendRun(row, Shown(row, left, line), line, end - column, &text);
    column = end;
  }
  return text;
}

// Ticks at round times, at least ten columns apart.
std::string Drawing::Axis(int from, int to) const {
  if (raster_.end_ns == 0) return "";
  int64_t tick_ns = 1;
  constexpr int64_t kFactors[] = {2, 5, 10};
  for (int64_t decade = 1;; decade *= 10) {
    bool wide = false;
    for (const int64_t factor : kFactors) {
      tick_ns = decade * factor;
      wide = static_cast<double>(tick_ns) / raster_.end_ns * raster_.columns >= 10;
      if (wide) break;
    }
    if (wide) break;
  }
  std::string text(margin_left_, ' ');
  int column = from;
  const int64_t from_ns = picture_.part.from_ns;
  for (int64_t time = (from_ns + tick_ns - 1) / tick_ns * tick_ns; time <= from_ns + raster_.end_ns;
       time += tick_ns) {
    const int at =
        static_cast<int>(static_cast<double>(time - from_ns) / raster_.end_ns * raster_.columns);
    if (at < from) continue;
    const std::string label = PrintTime(time);
    if (at >= to && to < raster_.columns) break;
    if (at + 1 + static_cast<int>(label.size()) > to + kMarginRight) break;
    absl::StrAppend(&text, std::string(std::max(0, at - column), ' '), "╵", label);
    column = at + 1 + static_cast<int>(label.size());
  }
  return absl::StrCat(Dim(picture_.colors), text, Plain(picture_.colors), "\n");
}

std::string Drawing::Notes() const {
  const Colors colors = picture_.colors;
  std::string text = Print(legend_, margin_left_, colors);
  const std::string margin = std::string(margin_left_, ' ') + Dim(colors);
  const int64_t column_ns =
      ThreeDigits(raster_.columns == 0 ? 0 : raster_.end_ns / raster_.columns);
  absl::StrAppend(&text, margin, "one column is ", raster_.exact ? "" : "about ",
                  PrintTime(column_ns), "; peak: most stage activations alive at once",
                  Plain(colors), "\n");
  const std::string reconstructed = PrintReconstruction(step_);
  for (const absl::string_view line : absl::StrSplit(reconstructed, "; ", absl::SkipEmpty())) {
    absl::StrAppend(&text, margin, line, Plain(colors), "\n");
  }
  for (const std::string& line : PrintUnfinished(step_, kMostUnfinished)) {
    absl::StrAppend(&text, margin, line, Plain(colors), "\n");
  }
  return text;
}

}  // namespace

std::string DrawTogether(const std::vector<const Timeline*>& timelines, const Picture& picture) {
  int64_t end_ns = 0;
  for (const Timeline* timeline : timelines) {
    end_ns = std::max(end_ns, MeasureBubbles(*timeline).makespan_ns);
  }
  TerminalLegend legend;
  std::string text, notes;
  for (const Timeline* timeline : timelines) {
    std::optional<LaneRows> rows;
    if (picture.lanes) rows = RowsByLane(*timeline);
    Drawing drawing(*timeline, rows ? &*rows : nullptr, picture, timelines.size() > 1 ? end_ns : 0,
                    &legend);
    text += drawing.Everything();
    notes = drawing.Notes();
  }
  return text + notes;
}

std::string Draw(const Timeline& timeline, const Picture& picture) {
  return DrawTogether({&timeline}, picture);
}

int TerminalWidth() {
  constexpr int kDefault = 100;
  int columns = 0;
  const char* const wish = std::getenv("COLUMNS");
  if (wish != nullptr && absl::SimpleAtoi(wish, &columns) && columns > 0) {
    return std::clamp(columns, 40, 10'000);
  }
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    return std::clamp<int>(size.ws_col, 40, 10'000);
  }
  return kDefault;
}

}  // namespace stringline
