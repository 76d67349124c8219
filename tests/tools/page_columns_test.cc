// The columns of a page, read by the descriptions in page_data.h, without the page's own program:
// each number of the timeline, of its analysis and of its plan comes back.
#include <gtest/gtest.h>

#include <map>

#include "absl/strings/str_cat.h"
#include "schedlang/ask/session.h"
#include "schedlang/ask/step_answers.h"
#include "schedlang/report/memory_curve.h"
#include "tests/tools/tool_run.h"
#include "tools/view/page/page_data.h"
#include "tools/view/page/page_links.h"

namespace stringline {
namespace {

// Numbers in groups of seven bits, the lowest first; even ones stand for n / 2, odd ones for
// -(n + 1) / 2.
std::vector<int64_t> Decoded(const PageData& data, const std::string& name) {
  std::vector<int64_t> numbers;
  const auto& column = data.header["columns"][name];
  size_t at = column[0];
  for (size_t i = 0; i < column[1].get<size_t>(); ++i) {
    uint64_t folded = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(data.bytes.at(at++));
      folded |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    const auto half = static_cast<int64_t>(folded / 2);
    numbers.push_back(folded % 2 == 0 ? half : -half - 1);
  }
  return numbers;
}

std::vector<int64_t> Summed(std::vector<int64_t> numbers) {
  for (size_t i = 1; i < numbers.size(); ++i) numbers[i] += numbers[i - 1];
  return numbers;
}

// A number for each item.
template <typename Items, typename Number>
std::vector<int64_t> Each(const Items& items, Number number) {
  std::vector<int64_t> numbers;
  for (const auto& item : items) numbers.push_back(static_cast<int64_t>(number(item)));
  return numbers;
}

struct Staged {
  Session step;
  Analysis analysis;
  MemoryCurves memory;
  PageTimeline Page() const {
    return {&*step.plan, &step.source, *step.timeline, analysis, &memory, "x"};
  }
};

Staged StagedStep(const std::string& schedule, const std::string& costs, CommLayout layout,
                  int64_t m = 8) {
  auto step = OpenSimulated({.file = schedule, .parameters = {{"P", 4}, {"M", m}}}, {.text = costs},
                            {.layout = layout});
  EXPECT_TRUE(step.ok() && step->timeline) << step.status();
  Staged staged{*std::move(step), {}, {}};
  staged.analysis = AnalysisOf(staged.step);
  staged.memory = MemoryOver(*staged.step.plan, *staged.step.timeline, staged.step.costs->memory);
  return staged;
}

const Staged& StagedStepOf(size_t which) {
  static const std::vector<Staged> steps = [] {
    std::vector<Staged> made;
    made.push_back(StagedStep("zb_h1", "F=18522,I=18086,W=9337,p2p=601", CommLayout::kEdge));
    made.push_back(
        StagedStep("interleaved", "F=10,B=20,p2p=3,unshard=4,reduce=6", CommLayout::kShared));
    made.push_back(StagedStep("chimera", "F=10,B=20,p2p=2", CommLayout::kPair));
    made.push_back(StagedStep(
        "dualpipe_v",
        "F=10,I=10,W=10,F.attn=4,F.dispatch=2,F.experts=5,F.combine=2,B.combine=2,B.experts=6,"
        "B.dispatch=2,B.attn=5,W.experts=4,W.attn=3,layers=2,p2p=2",
        CommLayout::kEdge));
    // Times of seconds in nanoseconds: beyond 2^31.
    made.push_back(StagedStep("1f1b", "F=900ms,B=1800ms,p2p=5ms", CommLayout::kEdge, 20));
    return made;
  }();
  return steps.at(which);
}

class PageColumnsTest : public ::testing::TestWithParam<size_t> {
 protected:
  const Staged& staged = StagedStepOf(GetParam());
  const Timeline& timeline = *staged.step.timeline;
  const Plan& plan = *staged.step.plan;
  const PageData data = PageDataOf(staged.Page());
};

TEST_P(PageColumnsTest, EventsComeBack) {
  EXPECT_EQ(data.header["events"], timeline.events.size());
  EXPECT_EQ(Decoded(data, "kind"), Each(timeline.events, [](const Event& event) {
              return static_cast<int>(event.kind) + (event.joined ? 64 : 0);
            }));
  EXPECT_EQ(Summed(Decoded(data, "stage")),
            Each(timeline.events, [](const Event& event) { return event.stage.value; }));
  EXPECT_EQ(Summed(Decoded(data, "microbatch")),
            Each(timeline.events, [](const Event& event) { return event.microbatch.value; }));
  std::vector<int64_t> start = Decoded(data, "start"), length = Decoded(data, "length");
  ASSERT_EQ(start.size(), timeline.events.size());
  ASSERT_EQ(length.size(), timeline.events.size());
  std::map<int, int64_t> last_length;
  int64_t last_start = 0;
  for (int r = 0; r < timeline.ranks(); ++r) {
    EXPECT_EQ(data.header["ranks"][static_cast<size_t>(r)]["first"], timeline.first[r]);
    int64_t now = 0;
    for (size_t i = timeline.first[r]; i < timeline.first[r + 1]; ++i) {
      const Event& event = timeline.events[i];
      const bool shares = event.joined && IsCompute(event.kind);
      const int64_t from = start[i] + (shares ? last_start : now);
      last_start = from;
      const int64_t lasts = last_length[static_cast<int>(event.kind)] += length[i];
      EXPECT_EQ(from, event.start_ns) << i;
      EXPECT_EQ(from + lasts, event.end_ns) << i;
      if (IsCompute(event.kind)) now = from + lasts;
    }
  }
  EXPECT_EQ(Decoded(data, "lane"),
            Each(LanesOf(staged.Page()).of, [](int32_t lane) { return lane; }));
}

TEST_P(PageColumnsTest, NeedsComeBack) {
  const PageNeeds needs = NeedsOf(staged.Page());
  const std::pair<const char*, const std::vector<int64_t>*> columns[] = {
      {"giver", &needs.giver}, {"own", &needs.own}, {"via", &needs.via}};
  for (const auto& [name, expected] : columns) {
    const std::vector<int64_t> written = Decoded(data, name);
    ASSERT_EQ(written.size(), expected->size()) << name;
    for (size_t i = 0; i < written.size(); ++i) {
      EXPECT_EQ(written[i] == 0 ? -1 : written[i] + static_cast<int64_t>(i), (*expected)[i])
          << name << " " << i;
    }
  }
}

TEST_P(PageColumnsTest, IdleStretchesAndMessagesComeBack) {
  const Analysis& analysis = staged.analysis;
  std::vector<int64_t> counts;
  for (int r = 0; r < timeline.ranks(); ++r) {
    counts.push_back(int64_t{analysis.first_idle[r + 1]} - analysis.first_idle[r]);
  }
  EXPECT_EQ(Decoded(data, "idle_count"), counts);
  const auto idle = [&](auto number) { return Each(analysis.idle, number); };
  EXPECT_EQ(Decoded(data, "idle_cause"),
            idle([](const IdleStretch& s) { return static_cast<int>(s.cause); }));
  EXPECT_EQ(Summed(Decoded(data, "idle_start")),
            idle([](const IdleStretch& s) { return s.start_ns; }));
  EXPECT_EQ(Decoded(data, "idle_length"), idle([](const IdleStretch& s) { return s.length_ns(); }));
  EXPECT_EQ(Summed(Decoded(data, "idle_waiting")),
            idle([](const IdleStretch& s) { return s.waiting; }));
  EXPECT_EQ(Summed(Decoded(data, "idle_for")),
            idle([](const IdleStretch& s) { return s.waits_for; }));
  EXPECT_EQ(Summed(Decoded(data, "critical")),
            Each(analysis.critical, [](auto event) { return event; }));
  const std::vector<int64_t> sends = Summed(Decoded(data, "send"));
  std::vector<int64_t> receives = Decoded(data, "recv");
  ASSERT_EQ(receives.size(), sends.size());
  for (size_t i = 0; i < sends.size(); ++i) receives[i] += sends[i];
  EXPECT_EQ(sends, Each(analysis.messages, [](const MessageEvents& m) { return m.send; }));
  EXPECT_EQ(receives, Each(analysis.messages, [](const MessageEvents& m) { return m.recv; }));
}

TEST_P(PageColumnsTest, PartsAndMemoryComeBack) {
  const std::vector<PartEvent>& parts = timeline.parts;
  const std::vector<int64_t> events = Summed(Decoded(data, "part_event"));
  const std::vector<int64_t> starts = Decoded(data, "part_start");
  const std::vector<int64_t> lengths = Decoded(data, "part_length");
  const std::vector<int64_t> names = Decoded(data, "part_name");
  const std::vector<int64_t> layers = Decoded(data, "part_layer");
  ASSERT_EQ(events.size(), parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    EXPECT_EQ(events[i], static_cast<int64_t>(parts[i].event));
    EXPECT_EQ(names[i], parts[i].part);
    EXPECT_EQ(layers[i], parts[i].layer);
    const int64_t from = timeline.events[parts[i].event].start_ns + starts[i];
    EXPECT_EQ(from, parts[i].start_ns);
    EXPECT_EQ(from + lengths[i], parts[i].end_ns);
  }
  const std::vector<int64_t> counts = Decoded(data, "memory_count");
  const std::vector<int64_t> times = Decoded(data, "memory_time");
  const std::vector<int64_t> amounts = Decoded(data, "memory_amount");
  ASSERT_EQ(counts.size(), staged.memory.ranks.size());
  size_t at = 0;
  for (size_t r = 0; r < counts.size(); ++r) {
    const auto& points = staged.memory.ranks[r].points;
    ASSERT_EQ(counts[r], static_cast<int64_t>(points.size()));
    int64_t time = 0, amount = 0;
    for (const MemoryPoint& point : points) {
      EXPECT_EQ(time += times.at(at), point.time_ns);
      EXPECT_EQ(amount += amounts.at(at), point.amount);
      ++at;
    }
  }
  EXPECT_EQ(at, times.size());
}

TEST_P(PageColumnsTest, PlacesInTheTextComeBack) {
  const std::vector<int64_t> places = Summed(Decoded(data, "place"));
  const std::vector<int64_t> lines = Summed(Decoded(data, "place_line"));
  const std::vector<int64_t> columns = Decoded(data, "place_column");
  const std::vector<int64_t> lengths = Decoded(data, "place_length");
  ASSERT_EQ(places.size(), plan.actions.size());
  for (size_t i = 0; i < places.size(); ++i) {
    const Span span = plan.places.at(plan.actions[i].place);
    const auto place = static_cast<size_t>(places[i]);
    const LineColumn at = staged.step.source.Locate(span.begin);
    EXPECT_EQ(lines.at(place), at.line);
    EXPECT_EQ(columns.at(place), at.column);
    EXPECT_EQ(lengths.at(place), int64_t{span.end} - span.begin);
  }
  EXPECT_EQ(Summed(Decoded(data, "iteration")),
            Each(plan.actions, [](const Action& action) { return action.iteration; }));
  EXPECT_EQ(Summed(Decoded(data, "loop_outer")),
            Each(plan.iterations, [](const auto& loop) { return loop.outer; }));
  EXPECT_EQ(Summed(Decoded(data, "loop_pass")),
            Each(plan.iterations, [](const auto& loop) { return loop.i; }));
}

INSTANTIATE_TEST_SUITE_P(Steps, PageColumnsTest, ::testing::Range<size_t>(0, 5));

}  // namespace
}  // namespace stringline
