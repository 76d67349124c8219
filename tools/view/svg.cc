// Draws from the top down: each part gets its top and returns its bottom. All timelines share a
// scale of time, and parts of a group share their row's height. The legend explains only shapes
// noted while drawing. A folded picture repeats the same for each of its bands.
#include "tools/view/svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/types/span.h"
#include "tools/view/fold.h"
#include "tools/view/lane_rows.h"
#include "tools/view/stage_shades.h"
#include "tools/view/svg_bands.h"
#include "tools/view/words.h"

namespace stringline {
namespace {

// By kind F B I W R UPDATE. The second fill is for dark shades (stage_shades.h).
struct Look {
  const char* fills[2];
  const char* text;
  const char* meaning;
  bool hatched = false;
  bool round = false;
};
constexpr Look kColorLooks[] = {
    {{"#73baea", "#50a4db"}, "#0b2239", "forward"},
    {{"#fdde93", "#f6c45a"}, "#2c1800", "backward"},
    {{"#d35061", "#ba3e4f"}, "#ffffff", "input gradient"},
    {{"#206137", "#154a28"}, "#ffffff", "weight gradient", true},
    {{"#7a55bf", "#643da4"}, "#ffffff", "forward again"},
    {{"#5a0f52", "#3f0038"}, "#ffffff", "optimizer's step"},
};
// For print without colour: from light to dark B F R I W UPDATE, with lines around the boxes.
constexpr Look kGreyLooks[] = {
    {{"#d0d0d0", "#b9b9b9"}, "#000000", "forward"},
    {{"#ffffff", "#e6e6e6"}, "#000000", "backward"},
    {{"#6d6d6d", "#595959"}, "#ffffff", "input gradient"},
    {{"#3d3d3d", "#2b2b2b"}, "#ffffff", "weight gradient", true},
    {{"#a0a0a0", "#8b8b8b"}, "#000000", "forward again"},
    {{"#191919", "#000000"}, "#ffffff", "optimizer's step"},
};
// A schedule's own actions, which bear their names.
constexpr Look kOwnLooks[] = {
    {{"#2cb3a5", "#1f9486"}, "#04211d", ""}, {{"#f0913c", "#d57824"}, "#2b1300", ""},
    {{"#ee9fcb", "#d781b2"}, "#320a20", ""}, {{"#7c8496", "#646c7e"}, "#ffffff", ""},
    {{"#c1da4f", "#a5be34"}, "#1c2300", ""}, {{"#86623d", "#6d4b28"}, "#ffffff", ""},
};
constexpr Look kGreyOwn = {{"#e9e9e9", "#c6c6c6"}, "#000000", ""};
// The looks of copies to the host, and from the host: round boxes.
constexpr Look kColorCopies[] = {
    {{"#e0e6c0", "#cdd2aa"}, "#1d1f05", "", false, true},
    {{"#858217", "#6d6a00"}, "#ffffff", "", false, true},
};
constexpr Look kGreyCopies[] = {
    {{"#f4f4f4", "#dadada"}, "#000000", "", false, true},
    {{"#7c7c7c", "#646464"}, "#ffffff", "", false, true},
};
const Look& LookOf(ActionKind kind, bool grey) {
  if (IsOwn(kind) && !IsCopy(kind)) {
    return grey ? kGreyOwn : kOwnLooks[NumberOnLane(kind)];
  }
  if (!IsCopy(kind)) return (grey ? kGreyLooks : kColorLooks)[static_cast<size_t>(kind)];
  return (grey ? kGreyCopies : kColorCopies)[CopiesOut(kind) ? 0 : 1];
}
constexpr double kLastSlice = 0.28;  // the white over the last slice of a microbatch
constexpr double kGapShare = 0.22, kLabels = 46, kAfter = 10, kTitle = 20, kAxis = 26, kLegend = 24,
                 kLegendLine = 16, kBetween = 14, kThin = 2, kLeast = 0.1, kNumber = 9,
                 kLeastNumber = 4.5, kDigit = 0.58, kLaneShare = 0.6, kLaneName = 7, kMark = 1.6;
constexpr int64_t kFoldedBox = 9;  // points of the shortest action where bands are folded
constexpr size_t kMostOpen = 8;
// The fills of collectives: gathering parameters, and the others.
constexpr const char* kCollectiveFills[] = {"#a8a8a8", "#707070"};
constexpr const char* kHiddenFill = "#ececec";  // for a hidden microbatch

std::string XmlText(std::string text) {
  // XML has no place for control characters.
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20) c = '?';
  }
  return absl::StrReplaceAll(
      text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"'", "&#39;"}, {"\"", "&quot;"}});
}

// The next of 1, 2 and 5 times a power of ten.
int64_t NiceTick(int64_t range_ns, int ticks) {
  const double raw = std::max(1.0, static_cast<double>(range_ns) / ticks);
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
    if (raw <= factor * power) return static_cast<int64_t>(factor * power);
  }
  return static_cast<int64_t>(raw);
}

class SvgPicture {
 public:
  SvgPicture(const std::vector<const Timeline*>& timelines, const SvgStyle& style)
      : timelines_(timelines), style_(style) {
    for (const Timeline* timeline : timelines) {
      for (const Event& event : timeline->events) end_ns_ = std::max(end_ns_, event.end_ns);
      int ranks = 0;
      for (int r = 0; r < timeline->ranks(); ++r) ranks += style.part.ShowsRank(r) ? 1 : 0;
      row_ = std::min(row_, ranks <= 8 ? 22.0 : ranks <= 24 ? 14.0 : 9.0);
    }
    end_ns_ = style.part.LengthIn(end_ns_);
    for (const Timeline* timeline : timelines) shade_names_.Add(ShadesOf(*timeline));
  }

  std::string Draw() {
    double y = 0;
    for (const ShownPart& band : Bands()) {
      band_ = band;
      for (const Timeline* timeline : timelines_) {
        if (y > 0) y += kBetween;
        y = DrawTimeline(*timeline, y);
      }
      DrawAxis(y);
      y += kAxis;
    }
    if (style_.legend) y = DrawLegend(y);
    return absl::StrFormat(
        "<svg xmlns='http://www.w3.org/2000/svg' width='%.1fpt' height='%.1fpt' "
        "viewBox='0 0 %.1f %.1f' font-family='Helvetica, Arial, sans-serif' font-size='9'>\n"
        "<title>%s</title>\n<defs><pattern id='w' width='4' height='4' "
        "patternUnits='userSpaceOnUse' patternTransform='rotate(45)'><path d='M0 0V4' "
        "stroke='%s' stroke-width='1'/></pattern></defs>\n<rect width='%.1f' height='%.1f' "
        "fill='#ffffff'/>\n%s</svg>\n",
        style_.width, y, style_.width, y, XmlText(Titles()), style_.grey ? "#9a9a9a" : "#4f9168",
        style_.width, y, out_);
  }

 private:
  const Look& LookOfKind(int kind) const {
    return LookOf(static_cast<ActionKind>(kind), style_.grey);
  }
  const char* Edge() const {
    return style_.grey ? " stroke='#000000' stroke-width='0.4'"
                       : " stroke='#ffffff' stroke-width='0.5'";
  }

  std::string Titles() const {
    std::string titles;
    for (const Timeline* timeline : timelines_) {
      const std::string shown = WordsOf(style_.part, *timeline);
      absl::StrAppend(&titles, titles.empty() ? "" : "; ", TitleOf(*timeline),
                      shown.empty() ? "" : ", ", shown);
    }
    return titles;
  }

  double PlotWidth() const { return style_.width - kLabels - kAfter; }

  // The x of a time counted from the band's beginning.
  double X(int64_t ns) const {
    const double share =
        scale_ns_ == 0 ? 0 : static_cast<double>(ns) / static_cast<double>(scale_ns_);
    return kLabels + PlotWidth() * share;
  }
  // The time shown by the band; the last band may be shorter than the others.
  int64_t BandLength() const { return band_.to_ns - band_.from_ns; }

  // The parts of the step in bands below each other; from here on a band is as wide as the picture.
  std::vector<ShownPart> Bands() {
    int64_t folds = 1;
    for (const Timeline* timeline : timelines_) {
      if (!style_.fold) break;
      const Timeline shown = Crop(*timeline, 0, timeline->ranks() - 1, style_.part);
      folds = std::max(folds,
                       FoldsNeeded(shown, end_ns_, static_cast<int64_t>(PlotWidth()), kFoldedBox));
    }
    scale_ns_ = (end_ns_ + folds - 1) / folds;
    std::vector<ShownPart> bands;
    int64_t from_ns = 0;
    do {
      ShownPart band = style_.part;
      band.from_ns = style_.part.from_ns + from_ns;
      band.to_ns = style_.part.from_ns + std::min(end_ns_, from_ns + scale_ns_);
      bands.push_back(band);
      from_ns += scale_ns_;
    } while (from_ns < end_ns_);
    return bands;
  }

  double DrawTimeline(const Timeline& timeline, double y) {
    if (style_.title && band_.from_ns == style_.part.from_ns) {
      const Bubbles bubbles = MeasureBubbles(timeline);
      absl::StrAppendFormat(&out_,
                            "<text x='%.1f' y='%.1f'><tspan font-weight='bold'>%s</tspan><tspan "
                            "dx='8'>%s, %s%s%s%s</tspan></text>\n",
                            kLabels, y + 12, XmlText(TitleOf(timeline)),
                            PrintTime(bubbles.makespan_ns), PrintBubble(bubbles),
                            timeline.origin == "simulated" ? ""
                            : timeline.origin == "flight"  ? ", flight record"
                                                           : ", measured",
                            style_.part.IsWhole() ? "" : "; ", WordsOf(style_.part, timeline));
      y += kTitle;
    }
    if (style_.lanes) return DrawLanes(timeline, y);
    const int first = static_cast<int>(style_.part.first_rank);
    const int last =
        style_.part.last_rank < 0 ? timeline.ranks() - 1 : static_cast<int>(style_.part.last_rank);
    const Timeline shown = Crop(timeline, first, last, band_);
    const StageShades shades = ShadesOf(timeline);
    for (int r = 0; r < shown.ranks(); ++r) {
      DrawRow(shown, {r, LaneKind::kCompute, shades.of}, absl::StrCat("rank ", first + r), y, row_);
      y += row_ * (1 + kGapShare);
    }
    return y;
  }

  double DrawLanes(const Timeline& timeline, double y) {
    const LaneRows rows = RowsByLane(timeline);
    const Timeline shown = Crop(rows.timeline, 0, rows.timeline.ranks() - 1, band_);
    const StageShades shades = ShadesOf(timeline);
    bool is_first = true;
    for (int r = 0; r < shown.ranks(); ++r) {
      if (!style_.part.ShowsRank(rows.ranks[r])) continue;
      const LaneKind kind = rows.kinds[r];
      lanes_.insert(kind);
      if (!is_first) y += row_ * (kind == LaneKind::kCompute ? 2 * kGapShare : kGapShare / 2);
      is_first = false;
      const double height = kind == LaneKind::kCompute ? row_ : row_ * kLaneShare;
      DrawRow(shown, {r, kind, shades.of}, rows.names[r], y, height);
      y += height;
    }
    return y + row_ * 2 * kGapShare;
  }

  struct Row {
    int index;  // in its timeline
    LaneKind kind;
    const std::vector<int>& shades;  // by stage
  };

  void DrawRow(const Timeline& timeline, const Row& row, const std::string& name, double y,
               double height) {
    const double size = row.kind == LaneKind::kCompute ? kNumber : kLaneName;
    absl::StrAppendFormat(&out_, "<text x='%.1f' y='%.1f' text-anchor='end'%s>%s</text>\n",
                          kLabels - 6, y + height / 2 + size / 3,
                          size < kNumber ? absl::StrFormat(" font-size='%g'", size) : std::string(),
                          name);
    absl::StrAppendFormat(&out_,
                          "<path d='M%.2f %.2fH%.2f' stroke='#c9c9c9' stroke-width='0.5'/>\n",
                          kLabels, y + height / 2, X(BandLength()));
    const auto events = timeline.of(RankId(row.index));
    if (IsThin(events)) {
      DrawThin(timeline, row, y, height);
    } else {
      boxes_ = true;
      DrawBoxes(timeline, row, y, height);
    }
  }

  void DrawBoxes(const Timeline& timeline, const Row& row, double y, double row_height) {
    const auto events = timeline.of(RankId(row.index));
    for (size_t i = 0; i < events.size();) {
      size_t end = i + 1;
      while (end < events.size() && events[end].joined) ++end;
      if (IsCompute(events[i].kind)) {
        const double height = row_height / static_cast<double>(end - i);
        for (size_t k = i; k < end; ++k) {
          DrawBox(timeline, row, events[k], y + height * static_cast<double>(k - i), height);
        }
      }
      i = end;
    }
  }

  std::string NumberOf(const Timeline& timeline, const Row& row, const Event& event) const {
    const bool is_stage = row.kind == LaneKind::kCollectives;
    return is_stage ? absl::StrCat(event.microbatch.value) : PrintNumber(timeline, event);
  }
  bool IsShown(const Timeline& timeline, const Row& row, const Event& event) const {
    return row.kind == LaneKind::kCollectives ||
           style_.part.ShowsMicrobatch(MicrobatchOfStep(timeline, event));
  }

  // True if the row's boxes are too thin to be told apart.
  bool IsThin(absl::Span<const Event> events) const {
    int64_t boxes = 0, busy_ns = 0;
    for (const Event& event : events) {
      if (!IsCompute(event.kind)) continue;
      ++boxes;
      busy_ns += event.end_ns - event.start_ns;
    }
    return boxes > 0 && X(busy_ns) - X(0) < kThin * static_cast<double>(boxes);
  }

  void DrawThin(const Timeline& timeline, const Row& row, double y, double height) {
    bands_ = true;
    std::array<const char*, kComputeKinds> fills;
    for (size_t k = 0; k < fills.size(); ++k) {
      const auto kind = static_cast<ActionKind>(k);
      const bool is_gather = kind == ActionKind::kForward;
      const bool is_dark = style_.grey || IsOfCopies(row.kind);
      fills[k] = row.kind == LaneKind::kCollectives
                     ? kCollectiveFills[is_gather ? 0 : 1]
                     : SvgFill(DrawnKind(row.kind, kind), is_dark ? 1 : 0, style_.grey);
    }
    std::vector<Event> events;
    for (const Event& event : timeline.of(RankId(row.index))) {
      if (!IsCompute(event.kind) || !IsShown(timeline, row, event)) continue;
      if (!HasOwnColors(row.kind)) used_[static_cast<size_t>(event.kind)] = true;
      events.push_back(event);
    }
    const double width = X(BandLength()) - kLabels;
    const auto shares =
        SharesOfColumns(events, BandLength(), std::max(1, static_cast<int>(width / kBandColumn)));
    absl::StrAppend(&out_, DrawBands(shares, fills, style_.grey ? "#ffffff" : "#f1f1f1", kLabels, y,
                                     width, height));
  }

  void DrawBox(const Timeline& timeline, const Row& row, const Event& event, double y,
               double height) {
    const Look& look = LookOf(DrawnKind(row.kind, event.kind), style_.grey);
    const double x = X(event.start_ns), width = X(event.end_ns) - x;
    const double drawn = std::max(width, kLeast);
    const char* text_fill = look.text;
    if (!IsShown(timeline, row, event)) {
      hides_ = true;
      return Rect(kHiddenFill, x, y, drawn, height);
    }
    if (row.kind == LaneKind::kCollectives) {
      const bool is_gather = event.kind == ActionKind::kForward;
      Rect(kCollectiveFills[is_gather ? 0 : 1], x, y, drawn, height);
      text_fill = is_gather ? "#000000" : "#ffffff";
    } else {
      if (!HasOwnColors(row.kind)) used_[static_cast<size_t>(event.kind)] = true;
      Box(look, row.shades[static_cast<size_t>(event.stage.value)], x, y, drawn, height);
      if (const int slice = SliceOf(timeline, event); slice > 0) {
        Lighten(kLastSlice * slice / (timeline.slices - 1), x, y, drawn, height);
      }
    }
    if (event.unfinished) Dashes(x, y, drawn, height);
    const ActionKind drawn_kind = DrawnKind(row.kind, event.kind);
    std::string number = absl::StrCat(NumberOf(timeline, row, event), event.unfinished ? "?" : "");
    // As large as fits, down to the least legible size.
    const auto size_of = [&](const std::string& text) {
      return std::min({kNumber, height * 0.9, (width - 1) / kDigit / text.size()});
    };
    // The name of an own action stands before its number, where there is room.
    if (IsOwn(drawn_kind)) {
      const std::string named = PrintedKind(timeline.rows, drawn_kind) + number;
      if (size_of(named) >= kLeastNumber) number = named;
    }
    const double size = size_of(number);
    if (size < kLeastNumber) return;
    numbers_ = numbers_ || row.kind != LaneKind::kCollectives;
    const std::string smaller =
        size < kNumber ? absl::StrFormat(" font-size='%.1f'", size) : std::string();
    absl::StrAppendFormat(&out_,
                          "<text x='%.2f' y='%.2f' text-anchor='middle' fill='%s'%s>%s</text>\n",
                          x + width / 2, y + height / 2 + 0.355 * size, text_fill, smaller, number);
  }

  void Rect(const char* fill, double x, double y, double width, double height, bool round = false) {
    absl::StrAppendFormat(
        &out_, "<rect x='%.2f' y='%.2f' width='%.2f' height='%.2f' fill='%s'%s%s/>\n", x, y, width,
        height, fill, width > 1.5 ? Edge() : "", round ? " rx='3'" : "");
  }

  // Later slices of a microbatch are lighter.
  void Lighten(double by, double x, double y, double width, double height) {
    absl::StrAppendFormat(&out_,
                          "<rect x='%.2f' y='%.2f' width='%.2f' height='%.2f' fill='#ffffff' "
                          "fill-opacity='%.2f'/>\n",
                          x, y, width, height, by);
  }

  // Around an event that had not ended when the record was made.
  void Dashes(double x, double y, double width, double height) {
    absl::StrAppendFormat(&out_,
                          "<rect x='%.2f' y='%.2f' width='%.2f' height='%.2f' fill='none' "
                          "stroke='#000000' stroke-width='1' stroke-dasharray='3 2'/>\n",
                          x, y, width, height);
  }

  void Box(const Look& look, int shade, double x, double y, double width, double height) {
    Rect(look.fills[IsDark(shade) ? 1 : 0], x, y, width, height, look.round);
    if (look.hatched && width > 6) {
      absl::StrAppendFormat(&out_,
                            "<rect x='%.2f' y='%.2f' width='%.2f' height='%.2f' fill='url(#w)'/>\n",
                            x, y, width, height);
    }
    if (!IsMarked(shade)) return;
    const double mark = std::min(kMark, height / 4);
    const double inset = look.round ? std::min(2.0, width / 4) : 0;
    absl::StrAppendFormat(
        &out_, "<rect x='%.2f' y='%.2f' width='%.2f' height='%.2f' fill='%s' class='mark'/>\n",
        x + inset, y + height - mark - inset / 2, width - 2 * inset, mark, look.text);
  }

  void DrawAxis(double y) {
    absl::StrAppendFormat(&out_,
                          "<path d='M%.1f %.1fH%.1f' stroke='#444444' stroke-width='0.6'/>\n",
                          kLabels, y + 1, X(BandLength()));
    const int64_t tick_ns = NiceTick(scale_ns_, std::max(2, static_cast<int>(style_.width / 90)));
    const int64_t from_ns = band_.from_ns;
    for (int64_t time = (from_ns + tick_ns - 1) / tick_ns * tick_ns; time <= band_.to_ns;
         time += tick_ns) {
      const int64_t t = time - from_ns;
      absl::StrAppendFormat(
          &out_,
          "<path d='M%.2f %.1fv4' stroke='#444444' stroke-width='0.6'/>\n<text x='%.2f' y='%.1f' "
          "text-anchor='%s'>%s</text>\n",
          X(t), y + 1, X(t), y + 14,
          t == 0                     ? "start"
          : X(t) + 18 > style_.width ? "end"
                                     : "middle",
          PrintTime(time));
    }
  }

  bool IsFlight() const {
    return std::any_of(timelines_.begin(), timelines_.end(),
                       [](const Timeline* timeline) { return timeline->origin == "flight"; });
  }

  bool HasSlices() const {
    return std::any_of(timelines_.begin(), timelines_.end(),
                       [](const Timeline* timeline) { return timeline->slices > 1; });
  }

  // The meaning of the rows below a rank's computation, and of light boxes.
  std::vector<std::string> Notes() const {
    std::vector<std::string> notes;
    const int64_t column_ns =
        static_cast<int64_t>(static_cast<double>(scale_ns_) * kBandColumn / PlotWidth());
    if (bands_) {
      notes.push_back(absl::StrCat("heights: shares of time, in columns of ", PrintTime(column_ns),
                                   style_.grey ? "; white: idle" : "; light grey: idle",
                                   style_.part.CutsMicrobatches() ? ", or not shown" : ""));
    }
    const bool updates = used_[static_cast<size_t>(ActionKind::kUpdate)];
    if (numbers_) {
      notes.push_back(absl::StrCat("numbers: microbatch", HasSlices() ? ", and slice" : "",
                                   updates ? ", or the optimizer's step" : ""));
    }
    if (hides_) notes.push_back("light grey: other microbatches");
    if (lanes_.contains(LaneKind::kActivations) || lanes_.contains(LaneKind::kGradients)) {
      notes.push_back(IsFlight() ? "activations, gradients: messages that the rank waits for"
                                 : "activations, gradients: messages on their way to the rank");
    }
    if (lanes_.contains(LaneKind::kCollectives)) {
      notes.push_back("collectives: light gathers parameters, dark sums gradients, by stage");
    }
    if (lanes_.contains(LaneKind::kOwn)) {
      notes.push_back("own: the schedule's own actions on the network");
    }
    if (lanes_.contains(LaneKind::kToHost) || lanes_.contains(LaneKind::kFromHost)) {
      const bool own = std::any_of(timelines_.begin(), timelines_.end(),
                                   [](const Timeline* t) { return t->rows.HasCopies(); });
      notes.push_back(own ? "copies out, copies in: copies from and to the rank's device"
                          : "to host, from host: copies to and from the host");
    }
    for (const Timeline* timeline : timelines_) {
      const std::vector<std::string> open = PrintUnfinished(*timeline, kMostOpen);
      if (!open.empty()) notes.push_back("dashed: had not ended");
      notes.insert(notes.end(), open.begin(), open.end());
    }
    return notes;
  }

  // For the legend; of own actions their names, those on the network with the same look, too.
  std::string MeaningOf(ActionKind kind) const {
    if (!IsOwn(kind)) return LookOfKind(static_cast<int>(kind)).meaning;
    std::set<std::string> names;
    for (const Timeline* timeline : timelines_) {
      for (const OwnAction& row : timeline->rows.actions) {
        const bool on_network = DrawnKind(LaneKind::kOwn, kind) == row.kind;
        if (row.kind == kind || on_network) names.insert(row.name);
      }
    }
    return absl::StrJoin(names, ", ");
  }

  // Returns the legend's bottom.
  double DrawLegend(double y) {
    double x = kLabels;
    const auto wrap = [&](size_t characters) {
      if (x == kLabels || x + 20 + 4.9 * static_cast<double>(characters) <= style_.width) return;
      x = kLabels;
      y += kLegendLine;
    };
    const auto entry = [&](int kind, int shade, const std::string& text) {
      wrap(text.size());
      Box(LookOfKind(kind), shade, x, y + 4, 14, 10);
      absl::StrAppendFormat(&out_, "<text x='%.1f' y='%.1f'>%s</text>\n", x + 18, y + 12, text);
      x += 30 + 4.9 * static_cast<double>(text.size());
    };
    for (int kind = 0; kind < kComputeKinds; ++kind) {
      const std::string meaning = MeaningOf(static_cast<ActionKind>(kind));
      if (used_[static_cast<size_t>(kind)] && !meaning.empty()) entry(kind, 0, meaning);
    }
    const auto first = std::find(used_.begin(), used_.end(), true);
    for (int shade = 0; shade < kShades && first != used_.end() && boxes_; ++shade) {
      const std::string name = shade_names_.Of(shade);
      if (!name.empty()) entry(static_cast<int>(first - used_.begin()), shade, XmlText(name));
    }
    for (const std::string& note : Notes()) {
      wrap(note.size());
      absl::StrAppendFormat(&out_, "<text x='%.1f' y='%.1f' fill='#444444'>%s</text>\n", x, y + 12,
                            note);
      x += 12 + 4.9 * static_cast<double>(note.size());
    }
    return y + kLegend;
  }

  const std::vector<const Timeline*>& timelines_;
  const SvgStyle& style_;
  int64_t end_ns_ = 0;    // the shown length of time
  int64_t scale_ns_ = 0;  // per band
  ShownPart band_;        // the band being drawn
  double row_ = 22;       // the height of a rank
  std::string out_;
  std::array<bool, kComputeKinds> used_ = {};
  ShadeNames shade_names_;
  bool boxes_ = false;    // a row is drawn box by box
  bool numbers_ = false;  // a box bears a microbatch
  bool bands_ = false;    // a row has too many boxes
  bool hides_ = false;    // a box is of a hidden microbatch
  std::set<LaneKind> lanes_;
};

}  // namespace

const char* SvgFill(ActionKind kind, int shade, bool grey) {
  return LookOf(kind, grey).fills[IsDark(shade) ? 1 : 0];
}

std::string DrawSvg(const std::vector<const Timeline*>& timelines, const SvgStyle& style) {
  return SvgPicture(timelines, style).Draw();
}

}  // namespace stringline
