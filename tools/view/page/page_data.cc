// A column is a pass over the timeline: each number is written as its difference from a guess,
// which the reader can make, too. Good guesses make most numbers one byte (columns.h).
#include "tools/view/page/page_data.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/plan/parts.h"
#include "tools/view/page/columns.h"
#include "tools/view/page/page_links.h"
#include "tools/view/stage_shades.h"
#include "tools/view/words.h"

namespace stringline {
namespace {

constexpr int kJoined = 64;  // added to the kind of a joined event

using PageJson = nlohmann::ordered_json;

// Lines longer than this are not shown: in a plan a line holds a whole rank.
constexpr size_t kLongestLine = 240;

class PageDataWriter {
 public:
  explicit PageDataWriter(const PageTimeline& page)
      : page_(page), timeline_(page.timeline), lanes_(LanesOf(page)) {
    SL_CHECK(page.plan == nullptr || page.plan->actions.size() == timeline_.events.size())
        << "the events are not the plan's";
  }

  PageData Write() {
    WriteTitle();
    WriteNames();
    WriteRanks();
    WriteEvents();
    WriteObserved();
    WriteNeeds();
    WriteIdle();
    WriteMessages();
    WriteParts();
    WriteMemory();
    WritePlaces();
    PageJson columns = PageJson::object();
    for (const ColumnWriter::Column& column : out_.columns()) {
      columns[column.name] = {column.begin, column.count};
    }
    header_["columns"] = std::move(columns);
    return {std::move(header_), out_.bytes()};
  }

 private:
  // A column: `number(i)` for all i.
  template <typename Number>
  void Column(const char* name, size_t count, Number number) {
    out_.Begin(name);
    for (size_t i = 0; i < count; ++i) out_.Add(number(i));
  }
  // The same as differences from the number before.
  template <typename Number>
  void Differences(const char* name, size_t count, Number number) {
    int64_t before = 0;
    Column(name, count, [&](size_t i) {
      const int64_t now = number(i), difference = now - before;
      before = now;
      return difference;
    });
  }

  void WriteTitle() {
    header_["title"] = TitleOf(timeline_);
    header_["origin"] = timeline_.origin;
    header_["reconstructed"] = PrintReconstruction(timeline_);
    header_["label"] = page_.label;
    header_["layout"] = NameOf(timeline_.layout);
    header_["makespan"] = page_.analysis.makespan_ns;
    header_["events"] = timeline_.events.size();
    header_["wired"] = page_.plan != nullptr && !page_.analysis.critical.empty();
    PageJson pipes = PageJson::array();
    for (const Pipe& pipe : timeline_.pipes) {
      pipes.push_back({pipe.name, pipe.first_stage.value, pipe.stages, pipe.first_microbatch});
    }
    header_["pipes"] = std::move(pipes);
    header_["slices"] = timeline_.slices;
    header_["edges"] = PageJson::array();
    for (const Edge& edge : timeline_.edges) {
      header_["edges"].push_back({edge.from.value, edge.to.value});
    }
    const StageShades shades = ShadesOf(timeline_);
    header_["shades"] = shades.of;
    header_["shade_names"] = shades.names;
  }

  void WriteNames() {
    PageJson kinds = PageJson::array(), causes = PageJson::array(), parts = PageJson::array();
    for (int k = 0; k < kActionKinds; ++k) {
      const auto kind = static_cast<ActionKind>(k);
      const bool is_absent = IsOwn(kind) && !HasRow(kind);
      kinds.push_back({is_absent ? "" : PrintedKind(timeline_.rows, kind), MeaningOfKind(kind)});
    }
    for (int c = 0; c < kIdleCauses; ++c) causes.push_back(NameOf(static_cast<IdleCause>(c)));
    for (int p = 0; p < kParts; ++p) {
      parts.push_back({PartName(p), LaneOf(p) == Lane::kNetwork});
    }
    header_["kinds"] = std::move(kinds);
    header_["causes"] = std::move(causes);
    header_["parts"] = std::move(parts);
  }

  bool HasRow(ActionKind kind) const {
    const std::vector<OwnAction>& rows = timeline_.rows.actions;
    return std::any_of(rows.begin(), rows.end(),
                       [kind](const OwnAction& row) { return row.kind == kind; });
  }

  void WriteRanks() {
    const Bubbles bubbles = MeasureBubbles(timeline_);
    header_["bubble"] = bubbles.rate;
    header_["busiest_bubble"] = bubbles.busiest_rate;
    header_["idlest_bubble"] = bubbles.idlest_rate;
    PageJson ranks = PageJson::array();
    for (int r = 0; r < timeline_.ranks(); ++r) {
      PageJson lanes = PageJson::array();
      for (const PageLane& lane : lanes_.lanes[r]) {
        lanes.push_back({static_cast<int>(lane.kind), lane.name});
      }
      const Bubbles::Rank& rank = bubbles.ranks[r];
      ranks.push_back({{"first", timeline_.first[r]},
                       {"busy", rank.busy_ns},
                       {"idle", rank.idle_ns},
                       {"peak", static_cast<double>(rank.peak_activations) / timeline_.slices},
                       {"causes", page_.analysis.causes[r]},
                       {"lanes", std::move(lanes)}});
    }
    header_["ranks"] = std::move(ranks);
  }

  void WriteEvents() {
    const std::vector<Event>& events = timeline_.events;
    const size_t n = events.size();
    Column("kind", n, [&](size_t i) {
      return static_cast<int64_t>(events[i].kind) + (events[i].joined ? kJoined : 0);
    });
    Column("lane", n, [&](size_t i) { return lanes_.of[i]; });
    Differences("stage", n, [&](size_t i) { return events[i].stage.value; });
    Differences("microbatch", n, [&](size_t i) { return events[i].microbatch.value; });
    const bool named = std::any_of(events.begin(), events.end(),
                                   [](const Event& event) { return event.other >= 0; });
    Column("other", named ? n : 0, [&](size_t i) { return events[i].other; });
    out_.Begin("start");
    for (int r = 0; r < timeline_.ranks(); ++r) {
      int64_t now_ns = 0;
      for (const Event& event : timeline_.of(RankId(r))) {
        out_.Add(event.start_ns -
                 (event.joined && IsCompute(event.kind) ? last_start_ns_ : now_ns));
        last_start_ns_ = event.start_ns;
        if (IsCompute(event.kind)) now_ns = event.end_ns;
      }
    }
    std::array<int64_t, kActionKinds> lengths = {};
    Column("length", n, [&](size_t i) {
      int64_t& before = lengths[static_cast<int>(events[i].kind)];
      const int64_t now = events[i].end_ns - events[i].start_ns, difference = now - before;
      before = now;
      return difference;
    });
  }

  void WriteObserved() {
    const std::vector<ObservedTimes>& observed = timeline_.observed;
    const std::vector<Event>& events = timeline_.events;
    Column("observed_start", observed.size(),
           [&](size_t i) { return observed[i].start_ns - events[i].start_ns; });
    Column("observed_end", observed.size(),
           [&](size_t i) { return observed[i].end_ns - events[i].end_ns; });
  }

  void WriteNeeds() {
    if (page_.plan == nullptr) return;
    const PageNeeds needs = NeedsOf(page_);
    const auto column = [&](const char* name, const std::vector<int64_t>& of) {
      Column(name, of.size(), [&](size_t i) { return of[i] < 0 ? 0 : of[i] - int64_t(i); });
    };
    column("giver", needs.giver);
    column("own", needs.own);
    column("via", needs.via);
  }

  void WriteIdle() {
    const Analysis& analysis = page_.analysis;
    const std::vector<IdleStretch>& idle = analysis.idle;
    Column("idle_count", static_cast<size_t>(timeline_.ranks()),
           [&](size_t r) { return int64_t{analysis.first_idle[r + 1]} - analysis.first_idle[r]; });
    Column("idle_cause", idle.size(), [&](size_t i) { return static_cast<int>(idle[i].cause); });
    Differences("idle_start", idle.size(), [&](size_t i) { return idle[i].start_ns; });
    Column("idle_length", idle.size(), [&](size_t i) { return idle[i].length_ns(); });
    Differences("idle_waiting", idle.size(), [&](size_t i) { return idle[i].waiting; });
    Differences("idle_for", idle.size(), [&](size_t i) { return idle[i].waits_for; });
  }

  void WriteMessages() {
    const Analysis& analysis = page_.analysis;
    const std::vector<MessageEvents>& messages = analysis.messages;
    Differences("critical", analysis.critical.size(),
                [&](size_t i) { return analysis.critical[i]; });
    Differences("send", messages.size(), [&](size_t i) { return messages[i].send; });
    Column("recv", messages.size(),
           [&](size_t i) { return int64_t{messages[i].recv} - messages[i].send; });
  }

  void WriteParts() {
    const std::vector<PartEvent>& parts = timeline_.parts;
    Differences("part_event", parts.size(), [&](size_t i) { return parts[i].event; });
    Column("part_name", parts.size(), [&](size_t i) { return parts[i].part; });
    Column("part_layer", parts.size(), [&](size_t i) { return parts[i].layer; });
    Column("part_start", parts.size(),
           [&](size_t i) { return parts[i].start_ns - timeline_.events[parts[i].event].start_ns; });
    Column("part_length", parts.size(),
           [&](size_t i) { return parts[i].end_ns - parts[i].start_ns; });
  }

  void WriteMemory() {
    if (page_.memory == nullptr) return;
    const std::vector<MemoryCurve>& curves = page_.memory->ranks;
    PageJson peaks = PageJson::array();
    for (const MemoryCurve& curve : curves) {
      PageJson classes = PageJson::object();
      for (int c = 0; c < kMemoryClasses; ++c) {
        if (curve.at_peak[c] != 0) {
          classes[NameOf(timeline_.rows, static_cast<MemoryClass>(c))] = curve.at_peak[c];
        }
      }
      peaks.push_back({curve.peak, curve.peak_ns, std::move(classes)});
    }
    header_["memory"] = {{"bytes", page_.memory->in_bytes}, {"peaks", std::move(peaks)}};
    Column("memory_count", curves.size(),
           [&](size_t r) { return static_cast<int64_t>(curves[r].points.size()); });
    out_.Begin("memory_time");
    for (const MemoryCurve& curve : curves) {
      int64_t before = 0;
      for (const MemoryPoint& point : curve.points) {
        out_.Add(point.time_ns - before);
        before = point.time_ns;
      }
    }
    out_.Begin("memory_amount");
    for (const MemoryCurve& curve : curves) {
      int64_t before = 0;
      for (const MemoryPoint& point : curve.points) {
        out_.Add(point.amount - before);
        before = point.amount;
      }
    }
  }

  // The places of the actions: a table of lines and columns, and the lines' texts.
  void WritePlaces() {
    if (page_.plan == nullptr || page_.source == nullptr || page_.plan->places.empty()) return;
    const Plan& plan = *page_.plan;
    header_["file"] = page_.source->PathAt(plan.places.front().begin);  // all are in one file
    std::map<int, std::string> lines;
    std::vector<LineColumn> at;
    for (const Span& span : plan.places) {
      at.push_back(page_.source->Locate(span.begin));
      const absl::string_view text = page_.source->LineAt(span.begin);
      if (text.size() <= kLongestLine) lines.try_emplace(at.back().line, std::string(text));
    }
    PageJson texts = PageJson::array();
    for (auto& [line, text] : lines) texts.push_back({line, std::move(text)});
    header_["lines"] = std::move(texts);
    Differences("place_line", at.size(), [&](size_t i) { return at[i].line; });
    Column("place_column", at.size(), [&](size_t i) { return at[i].column; });
    Column("place_length", at.size(),
           [&](size_t i) { return int64_t{plan.places[i].end} - int64_t{plan.places[i].begin}; });
    Differences("place", plan.actions.size(), [&](size_t i) { return plan.actions[i].place; });
    Differences("iteration", plan.actions.size(),
                [&](size_t i) { return plan.actions[i].iteration; });
    Differences("loop_outer", plan.iterations.size(),
                [&](size_t i) { return plan.iterations[i].outer; });
    Differences("loop_pass", plan.iterations.size(),
                [&](size_t i) { return plan.iterations[i].i; });
  }

  const PageTimeline& page_;
  const Timeline& timeline_;
  const PageLanes lanes_;
  ColumnWriter out_;
  PageJson header_ = PageJson::object();
  int64_t last_start_ns_ = 0;
};

}  // namespace

PageData PageDataOf(const PageTimeline& page) { return PageDataWriter(page).Write(); }

std::string JsonForMarkup(const nlohmann::ordered_json& json) {
  const std::string text =
      json.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    if (c == '<') {
      safe += "\\u003c";  // only strings contain '<'
    } else {
      safe.push_back(c);
    }
  }
  return safe;
}

}  // namespace stringline
