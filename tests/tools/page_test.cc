// The HTML page as a text: its columns, and that nothing from files becomes markup.
// tests/page/browser_test.py tests its looks and behaviour.
#include <gtest/gtest.h>

#include "tests/tools/simulated_timeline.h"
#include "tests/tools/tool_run.h"
#include "tools/view/page/columns.h"
#include "tools/view/page/html.h"
#include "tools/view/page/page_data.h"
#include "tools/view/page/page_links.h"

namespace stringline {
namespace {

TEST(PageTest, Base64) {
  const std::pair<const char*, const char*> cases[] = {
      {"", ""},         {"f", "Zg=="},        {"fo", "Zm8="},
      {"foo", "Zm9v"},  {"foob", "Zm9vYg=="}, {"fooba", "Zm9vYmE="},
      {"\xff", "/w=="}, {"\xfb\xff", "+/8="}, {"foobar", "Zm9vYmFy"},
  };
  for (const auto& [bytes, text] : cases) EXPECT_EQ(Base64(bytes), text);
}

TEST(PageTest, ColumnsFoldSignsAndGrowWithTheNumber) {
  ColumnWriter writer;
  writer.Begin("a");
  for (const int64_t number : {0, -1, 1, -64, 64}) writer.Add(number);
  writer.Begin("b");
  writer.Add(INT64_MIN);
  ASSERT_EQ(writer.columns().size(), 2u);
  EXPECT_EQ(writer.columns()[0].count, 5u);
  EXPECT_EQ(writer.columns()[1].begin, 6u);
  EXPECT_EQ(writer.bytes().substr(0, 6), std::string("\0\1\2\x7f\x80\1", 6));
  EXPECT_EQ(writer.bytes().size(), 6u + 10u);
}

TEST(PageTest, JsonCannotEndItsElement) {
  EXPECT_EQ(JsonForMarkup({"</script>", "\xff", "\xc3\xa9"}),
            "[\"\\u003c/script>\",\"\\ufffd\",\"\\u00e9\"]");
}

size_t CountOf(const std::string& text, const std::string& piece) {
  size_t count = 0;
  for (size_t at = text.find(piece); at != std::string::npos; at = text.find(piece, at + 1)) {
    ++count;
  }
  return count;
}

// The page says how much is reconstructed, and has both times of every event.
TEST(PageTest, KeepsWhatWasObserved) {
  Timeline timeline;
  timeline.origin = "measured";
  timeline.schedule = "x";
  timeline.events = {{.stage = StageId(0), .microbatch = MicrobatchId(0), .end_ns = 10'000}};
  timeline.first = {0, 1};
  Analysis analysis;
  analysis.causes.resize(1);
  analysis.first_idle = {0, 0};
  const auto columns = [&] {
    return PageDataOf({nullptr, nullptr, timeline, analysis, nullptr, "x"}).header["columns"];
  };
  EXPECT_EQ(columns()["observed_start"][1], 0);
  timeline.observed = {{2'000, 9'000}};
  EXPECT_EQ(columns()["observed_start"][1], 1);
  const PageData data = PageDataOf({nullptr, nullptr, timeline, analysis, nullptr, "x"});
  EXPECT_EQ(data.header["reconstructed"], "1 of 1 starts reconstructed, by at most 2 us");
}

// Copies have lanes of their own, and stand between a forward and its backward.
TEST(PageTest, CopiesHaveLanesAndLinks) {
  const Timeline timeline = TimelineWithCopies();
  const std::optional<Plan> plan = PlanOf(timeline);
  ASSERT_TRUE(plan);
  const Analysis analysis = Analyze(*plan, timeline);
  const PageTimeline page = {&*plan, nullptr, timeline, analysis, nullptr, "x"};
  const PageLanes lanes = LanesOf(page);
  const PageNeeds needs = NeedsOf(page);
  const auto event = [&](ActionKind kind, int stage, int microbatch) {
    size_t i = 0;
    while (timeline.events[i].kind != kind || timeline.events[i].stage != StageId(stage) ||
           timeline.events[i].microbatch != MicrobatchId(microbatch)) {
      ++i;
    }
    return static_cast<int64_t>(i);
  };
  for (int m = 0; m < 2; ++m) {
    const int64_t forward = event(ActionKind::kForward, 0, m);
    const int64_t away = event(ActionKind::kOffload, 0, m);
    const int64_t back = event(ActionKind::kFetch, 0, m);
    const int64_t backward = event(ActionKind::kBackward, 0, m);
    const auto lane_of = [&](int64_t i) { return lanes.lanes[0][lanes.of[i]]; };
    EXPECT_EQ(lane_of(away).kind, PageLaneKind::kCopies);
    EXPECT_EQ(lane_of(away).name, "to host");
    EXPECT_EQ(lane_of(back).kind, PageLaneKind::kCopies);
    EXPECT_EQ(lane_of(back).name, "from host");
    EXPECT_EQ(needs.own[away], forward);
    EXPECT_EQ(needs.own[back], away);
    EXPECT_EQ(needs.own[backward], back);
    EXPECT_EQ(needs.giver[backward], event(ActionKind::kBackward, 1, m));
    EXPECT_EQ(needs.giver[back], -1);
    // A stage without copies needs its forward.
    EXPECT_EQ(needs.own[event(ActionKind::kBackward, 1, m)], event(ActionKind::kForward, 1, m));
  }
  const auto header = PageDataOf(page).header;
  const auto kind = static_cast<size_t>(ActionKind::kOffload);
  const auto cause = static_cast<size_t>(IdleCause::kCopy);
  EXPECT_EQ(header["kinds"][kind][0], "D");
  EXPECT_EQ(header["causes"].size(), size_t{kIdleCauses});
  EXPECT_EQ(header["causes"][cause], "copy");
  EXPECT_EQ(header["ranks"][0]["causes"][cause], 3'500);
}

TEST(PageTest, NothingFromFilesIsMarkup) {
  Timeline timeline;
  timeline.origin = "</script><b>{{PROGRAM}}";
  timeline.schedule = "\"'><img src=x onerror=y>\xff</title><!--";
  timeline.pipes = {{"<script>", StageId(0), 1, 0, 1}};
  timeline.first = {0, 0};
  Analysis analysis;
  analysis.causes.resize(1);
  analysis.first_idle = {0, 0};
  const PageTimeline page = {nullptr, nullptr, timeline, analysis, nullptr, "</style>"};
  const std::string text = WritePage({page});
  EXPECT_EQ(CountOf(text, "<img"), 0u);
  EXPECT_EQ(CountOf(text, "</title>"), 1u);
  EXPECT_EQ(CountOf(text, "</style>"), 1u);
  EXPECT_EQ(CountOf(text, "<b>"), 0u);
  EXPECT_EQ(CountOf(text, "'use strict'"), 1u);
  EXPECT_EQ(CountOf(text, "<script"), CountOf(text, "</script>"));
  for (const char c : text) ASSERT_TRUE(static_cast<unsigned char>(c) < 0x80);
}

TEST(PageTest, NeedsNoNetwork) {
  const std::string folder = ScratchFolder();
  const Answer answer =
      RunToolIn(SourceFolder(), {"compare", "schedules/1f1b.sched", "schedules/zb_h1.sched", "P=2",
                                 "M=4", "--html", folder + "/page.html"});
  ASSERT_EQ(answer.status, 0) << answer.err;
  const std::string page = ReadText(folder + "/page.html");
  EXPECT_EQ(CountOf(page, "http:") + CountOf(page, "https:"), 0u);
  EXPECT_EQ(CountOf(page, "default-src 'none'"), 1u);
  EXPECT_EQ(CountOf(page, "class=\"columns\""), 2u);
}

TEST(PageTest, NoFileStaysWhereNoneCanBeWritten) {
  const Answer answer = RunToolIn(
      SourceFolder(), {"show", "schedules/1f1b.sched", "P=2", "M=4", "--html", "/proc/x"});
  EXPECT_EQ(answer.status, 2);
  EXPECT_NE(answer.err.find("/proc/x"), std::string::npos) << answer.err;
}

}  // namespace
}  // namespace stringline
