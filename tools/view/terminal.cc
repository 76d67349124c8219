#include "tools/view/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <set>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "tools/view/lane_rows.h"
#include "tools/view/raster.h"
#include "tools/view/words.h"

namespace stringline {
namespace {

constexpr ActionKind kComputations[] = {ActionKind::kForward, ActionKind::kBackward,
                                        ActionKind::kInputGradient, ActionKind::kWeightGradient};
constexpr const char* kKindWords[] = {"forward", "backward", "input gradient", "weight gradient"};
constexpr int kMarginRight = 12;  // "  73%  peak"
constexpr int kMostTwoLineRanks = 24;
constexpr int kNetworkMargin = 9;  // "network  "

// 523636 -> 524000
int64_t ThreeDigits(int64_t value) {
  int64_t unit = 1;
  while (value / unit >= 1000) unit *= 10;
  return (value + unit / 2) / unit * unit;
}

class Drawing {
 public:
  // `rows`: null to draw a row a rank.
  Drawing(const Timeline& step, const LaneRows* rows, const Picture& picture)
      : step_(step),
        rows_(rows),
        timeline_(rows == nullptr ? step : rows->timeline),
        picture_(picture),
        bubbles_(MeasureBubbles(step)) {
    const Timeline& timeline = timeline_;
    for (int rank = 0; rank < step.ranks(); ++rank) NumberStages(rank);
    for (const Event& event : timeline.events) {
      if (!IsCompute(event.kind)) continue;
      last_microbatch_ = std::max(last_microbatch_, MicrobatchOfStep(step_, event));
      groups_ = groups_ || event.joined;
      kinds_.insert(event.kind);
    }
    margin_left_ = static_cast<int>(absl::StrCat("rank ", step.ranks() - 1, "  ").size());
    if (rows != nullptr) margin_left_ = std::max(margin_left_, kNetworkMargin);
    band_ = std::max(10, picture.width - margin_left_ - kMarginRight);
    raster_ = Rasterize(timeline, band_ * (picture.fold ? BandsNeeded() : 1), colored() ? 2 : 1,
                        picture.end_ns);
    lines_per_rank_ = groups_ && timeline.ranks() <= kMostTwoLineRanks ? 2 : 1;
  }

  std::string Everything() const {
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
    return picture_.legend ? text + Legend() : text;
  }

 private:
  // So many that the shortest action is three columns wide, but not more than forty.
  int BandsNeeded() const {
    constexpr int64_t kMostBands = 40, kCell = 3;
    int64_t shortest_ns = 0, end_ns = picture_.end_ns;
    for (const Event& event : timeline_.events) {
      if (!IsCompute(event.kind)) continue;
      end_ns = std::max(end_ns, event.end_ns);
      const int64_t length = event.end_ns - event.start_ns;
      if (length > 0 && (shortest_ns == 0 || length < shortest_ns)) shortest_ns = length;
    }
    if (shortest_ns == 0) return 1;
    const int64_t columns = (end_ns + shortest_ns - 1) / shortest_ns * kCell;
    return static_cast<int>(std::clamp<int64_t>((columns + band_ - 1) / band_, 1, kMostBands));
  }

  bool colored() const { return picture_.colors != Colors::kNone; }

  // A rank's stages count from 0 in the order of their ids: its chunks. With pipes, a stage's chunk
  // is its pipe.
  void NumberStages(int rank) {
    std::set<int> stages;
    for (const Event& event : step_.of(RankId(rank))) stages.insert(event.stage.value);
    int chunk = 0;
    for (const int stage : stages) {
      chunk_of_[stage] = timeline_.pipes.empty() ? chunk++ : PipeOf(timeline_, StageId(stage));
    }
    chunks_ = std::max(chunks_, chunk);
  }

  Rgb PaintOfEvent(const Event& event) const {
    const int microbatch = MicrobatchOfStep(step_, event);
    const double progress =
        last_microbatch_ == 0 ? 0 : static_cast<double>(microbatch) / last_microbatch_;
    return PaintOf(event.kind, chunk_of_.at(event.stage.value), microbatch, progress);
  }

  // The part of the group at `index` that line `line` of its rank shows: the first above, the last
  // below.
  const Event& Part(int index, int line) const {
    size_t last = index;
    if (line == 0) return timeline_.events[index];
    while (last + 1 < timeline_.events.size() && timeline_.events[last + 1].joined) ++last;
    return timeline_.events[last];
  }
  bool IsGroup(int index) const {
    const size_t next = index + 1;
    return next < timeline_.events.size() && timeline_.events[next].joined;
  }

  char Letter(const Event& event) const {
    const char letter = PrintedKind(event.kind)[0];
    const bool small = chunk_of_.at(event.stage.value) % 2 == 1;
    return static_cast<char>(small ? std::tolower(letter) : letter);
  }

  // What a cell of `width` whole columns says.
  std::string Label(int index, int line, int width) const {
    if (line > 0 && !IsGroup(index)) return "";
    const Event& event = Part(index, line);
    const std::string number = absl::StrCat(MicrobatchOfStep(step_, event));
    const std::string last_digit = number.substr(number.size() - 1);
    std::vector<std::string> choices;
    if (colored()) {
      choices = {number, last_digit};
    } else if (lines_per_rank_ == 1 && IsGroup(index)) {
      const Event& other = Part(index, 1);
      choices = {absl::StrCat(std::string(1, Letter(event)), number, "&",
                              std::string(1, Letter(other)), MicrobatchOfStep(step_, other)),
                 "&"};
    } else {
      const std::string letter(1, Letter(event));
      choices = {letter + number, letter + last_digit, letter};
    }
    // A cell that stands for several actions bears no number.
    const double slack = colored() ? 0.05 : 0.5;
    const double own =
        static_cast<double>(event.end_ns - event.start_ns) / raster_.end_ns * raster_.columns;
    for (const std::string& choice : choices) {
      const int size = static_cast<int>(choice.size());
      const bool letter_alone = !colored() && size == 1;
      if (size <= width && (letter_alone || own > size - slack)) return choice;
    }
    return "";
  }

  std::string Header() const;
  int64_t BusyOf(int row) const;
  // The columns from .. to - 1 of the raster.
  std::string RankLine(int rank, int line, int from, int to) const;
  std::string Cells(int rank, int line, int from, int to) const;
  void AppendRun(int index, int line, int width, std::string* text) const;
  void AppendHalves(int left, int right, int line, std::string* text) const;
  std::string Axis(int from, int to) const;
  std::string Legend() const;

  const Timeline& step_;
  const LaneRows* const rows_;
  const Timeline& timeline_;  // of the rows
  const Picture picture_;
  const Bubbles bubbles_;
  std::map<int, int> chunk_of_;
  std::set<ActionKind> kinds_;
  int chunks_ = 1;
  int last_microbatch_ = 0;
  bool groups_ = false;
  int margin_left_ = 0;
  int band_ = 0;  // the columns of a line
  int lines_per_rank_ = 1;
  Raster raster_;
};

std::string Drawing::Header() const {
  std::string text = absl::StrCat(Bold(picture_.colors), TitleOf(step_), Plain(picture_.colors),
                                  "  ", step_.origin, ": ", PrintTime(bubbles_.makespan_ns), ", ",
                                  PrintBubble(bubbles_), "\n");
  absl::StrAppend(&text, std::string(margin_left_ + std::min(band_, raster_.columns), ' '),
                  Dim(picture_.colors), "  busy  peak", Plain(picture_.colors), "\n");
  return text;
}

std::string Drawing::RankLine(int rank, int line, int from, int to) const {
  const std::string name = rows_ == nullptr ? absl::StrCat("rank ", rank) : rows_->names[rank];
  std::string text =
      line == 0 ? absl::StrFormat("%-*s", margin_left_, name) : std::string(margin_left_, ' ');
  text += Cells(rank, line, from, to);
  if (line > 0 && !colored()) text.erase(text.find_last_not_of(' ') + 1);
  if (line == 0 && from == 0 && bubbles_.makespan_ns > 0) {
    const double busy = static_cast<double>(BusyOf(rank)) / bubbles_.makespan_ns;
    absl::StrAppend(&text, Dim(picture_.colors), absl::StrFormat("  %3.0f%%", 100 * busy));
    const int of = rows_ == nullptr ? rank : rows_->rank[rank];
    if (rows_ == nullptr || !rows_->network[rank]) {
      absl::StrAppendFormat(&text, "  %4d", bubbles_.ranks[of].peak_activations);
    }
    text += Plain(picture_.colors);
  }
  return text + "\n";
}

// How long something happens in the row.
int64_t Drawing::BusyOf(int row) const {
  if (rows_ == nullptr) return bubbles_.ranks[row].busy_ns;
  int64_t busy_ns = 0, now_ns = 0;
  for (const Event& event : timeline_.of(RankId(row))) {
    busy_ns += std::max<int64_t>(0, event.end_ns - std::max(now_ns, event.start_ns));
    now_ns = std::max(now_ns, event.end_ns);
  }
  return busy_ns;
}

// A run of `width` whole columns with one content.
void Drawing::AppendRun(int index, int line, int width, std::string* text) const {
  const Colors colors = picture_.colors;
  if (index < 0) {
    *text += Dim(colors);
    for (int i = 0; i < width; ++i) *text += "·";
    *text += Plain(colors);
    return;
  }
  const bool halves = colored() && lines_per_rank_ == 1 && IsGroup(index);
  const std::string label = halves ? "" : Label(index, line, width);
  const Rgb paint = PaintOfEvent(Part(index, line));
  *text += Background(paint, colors) +
           Foreground(halves ? PaintOfEvent(Part(index, 1)) : TextOn(paint), colors);
  const int left = colored() ? (width - static_cast<int>(label.size())) / 2 : 0;
  for (int i = 0; i < width; ++i) {
    const int at = i - left;
    if (halves) {
      *text += "▄";
    } else if (at >= 0 && at < static_cast<int>(label.size())) {
      *text += label[at];
    } else {
      *text += colored() || (line > 0 && !IsGroup(index)) ? " " : "─";
    }
  }
  *text += Plain(colors);
}

// One column whose halves differ.
void Drawing::AppendHalves(int left, int right, int line, std::string* text) const {
  const Colors colors = picture_.colors;
  if (left >= 0) *text += Foreground(PaintOfEvent(Part(left, line)), colors);
  if (right >= 0) {
    const Rgb paint = PaintOfEvent(Part(right, line));
    *text += left >= 0 ? Background(paint, colors) : Foreground(paint, colors);
  }
  absl::StrAppend(text, left >= 0 ? "▌" : "▐", Plain(colors));
}

std::string Drawing::Cells(int rank, int line, int from, int to) const {
  const std::vector<int>& row = raster_.rows[rank];
  const int step = raster_.slices_per_column;
  std::string text;
  for (int column = from; column < to;) {
    const int left = row[column * step];
    const int right = row[column * step + step - 1];
    if (left != right) {
      AppendHalves(left, right, line, &text);
      ++column;
      continue;
    }
    int end = column + 1;
    while (end < to && row[end * step] == left && row[end * step + step - 1] == left) {
      ++end;
    }
    AppendRun(left, line, end - column, &text);
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
  for (int64_t time = 0; time <= raster_.end_ns; time += tick_ns) {
    const int at = static_cast<int>(static_cast<double>(time) / raster_.end_ns * raster_.columns);
    if (at < from) continue;
    const std::string label = PrintTime(time);
    if (at >= to && to < raster_.columns) break;
    if (at + 1 + static_cast<int>(label.size()) > to + kMarginRight) break;
    absl::StrAppend(&text, std::string(std::max(0, at - column), ' '), "╵", label);
    column = at + 1 + static_cast<int>(label.size());
  }
  return absl::StrCat(Dim(picture_.colors), text, Plain(picture_.colors), "\n");
}

std::string Drawing::Legend() const {
  const Colors colors = picture_.colors;
  std::string text(margin_left_, ' ');
  for (size_t i = 0; i < std::size(kComputations); ++i) {
    if (!kinds_.contains(kComputations[i])) continue;
    const Rgb paint = PaintOf(kComputations[i], 0, 0, 0.5);
    const char* const letter = PrintedKind(kComputations[i]);
    absl::StrAppend(&text, Background(paint, colors), Foreground(TextOn(paint), colors),
                    colored() ? absl::StrCat(" ", letter, " ") : letter, Plain(colors), " ",
                    kKindWords[i], "   ");
  }
  absl::StrAppend(&text, Dim(colors), "·", Plain(colors), " idle   numbers: microbatch",
                  last_microbatch_ >= 10 ? ", or its last digit\n" : "\n");
  const std::string margin = std::string(margin_left_, ' ') + Dim(colors);
  if (chunks_ > 1) {
    absl::StrAppend(&text, margin, colored() ? "dark" : "small letters",
                    ": every second stage of a rank", Plain(colors), "\n");
  }
  if (timeline_.pipes.size() > 1) {
    absl::StrAppend(&text, margin, colored() ? "dark" : "small letters", ": pipe");
    for (size_t p = 1; p < timeline_.pipes.size(); p += 2) {
      absl::StrAppend(&text, p > 1 ? ", '" : " '", timeline_.pipes[p].name, "'");
    }
    absl::StrAppend(&text, Plain(colors), "\n");
  }
  if (rows_ != nullptr) {
    absl::StrAppend(&text, margin, "network: dispatch and combine; above it the other parts",
                    Plain(colors), "\n");
  }
  const int64_t column_ns =
      ThreeDigits(raster_.columns == 0 ? 0 : raster_.end_ns / raster_.columns);
  absl::StrAppend(&text, margin, "one column is ", raster_.exact ? "" : "about ",
                  PrintTime(column_ns), "; peak: most stage activations alive at once",
                  Plain(colors), "\n");
  const std::string reconstructed = PrintReconstruction(timeline_);
  for (const absl::string_view line : absl::StrSplit(reconstructed, "; ", absl::SkipEmpty())) {
    absl::StrAppend(&text, margin, line, Plain(colors), "\n");
  }
  return text;
}

}  // namespace

std::string Draw(const Timeline& timeline, const Picture& picture) {
  if (!picture.lanes) return Drawing(timeline, nullptr, picture).Everything();
  const LaneRows rows = RowsByLane(timeline);
  return Drawing(timeline, &rows, picture).Everything();
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
