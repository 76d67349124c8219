// Imported traces against the truth: written from a known timeline, by hand, and broken.
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/elaborate/elaborate.h"
#include "schedlang/lower/lower.h"
#include "schedlang/sim/simulate.h"
#include "schedlang/text/parse.h"
#include "schedlang/torch/import_step.h"
#include "schedlang/torch/open_trace.h"
#include "schedlang/torch/trace_events.h"
#include "tests/schedlang/elaborated.h"
#include "tests/schedlang/written_trace.h"

namespace stringline {
namespace {

Plan PlanOfLibrary(const std::string& name, int ranks, int microbatches) {
  const Source source(name, ReadTestFile("schedules/" + name + ".sched"));
  Diagnostics diagnostics;
  const auto file = Parse(source, &diagnostics);
  SL_CHECK(file.has_value()) << name;
  const auto plan = Elaborate(*file, "", {{"P", ranks}, {"M", microbatches}}, &diagnostics);
  SL_CHECK(plan.has_value()) << name;
  return Lower(*plan, CommLayout::kEdge);
}

// Whole microseconds; messages occupy their channels for all of their time.
CostModel CostsOf(const Plan& plan, std::mt19937_64& random) {
  CostModel costs;
  const auto draw = [&] { return static_cast<int64_t>(1'000 + random() % 1'000) * 1'000; };
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    costs.forward.push_back(draw());
    costs.input_gradient.push_back(draw());
    costs.weight_gradient.push_back(draw());
    costs.backward.push_back(costs.input_gradient[s] + costs.weight_gradient[s]);
    costs.forward_backward.push_back(2 * draw());
  }
  costs.activation_hops.assign(plan.stages.size(), {0, draw() / 4'000 * 1'000});
  costs.gradient_hops = costs.activation_hops;
  return costs;
}

RankTrace ReadTrace(const std::string& json, const std::string& file = "trace.json") {
  std::istringstream text(json);
  absl::StatusOr<RankTrace> trace = ReadRankTrace(text, file);
  SL_CHECK(trace.ok()) << trace.status();
  return *std::move(trace);
}

std::string Refused(const std::string& json) {
  std::istringstream text(json);
  const absl::StatusOr<RankTrace> trace = ReadRankTrace(text, "r.json");
  return trace.ok() ? "nothing" : std::string(trace.status().message());
}

std::vector<RankTrace> Written(const Plan& plan, const std::vector<Timeline>& steps,
                               const std::vector<WrittenClock>& clocks) {
  std::vector<RankTrace> traces;
  for (int r = 0; r < plan.ranks(); ++r) {
    traces.push_back(
        ReadTrace(WrittenTrace(plan, steps, RankId(r), clocks[r]), absl::StrCat("r", r, ".json")));
  }
  return traces;
}

std::vector<WrittenClock> OtherHosts(int ranks, std::mt19937_64& random) {
  std::vector<WrittenClock> clocks;
  for (int r = 0; r < ranks; ++r) {
    const auto ahead_us = static_cast<int64_t>(random() % 6'000'000) - 3'000'000;
    clocks.push_back({absl::StrCat("host", r), ahead_us * 1'000});
  }
  return clocks;
}

// The part of the printed timeline that both should share.
std::string Told(const Timeline& timeline) {
  std::string text = Print(timeline);
  return text.substr(text.find('\n'));
}

TEST(TraceImport, GivesBackASimulatedStep) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (const char* const name :
       {"gpipe", "1f1b", "interleaved", "zb_h1", "zb_v", "v_half", "dualpipe_v", "hanayo"}) {
    const Plan plan = PlanOfLibrary(name, 4, 8);
    const CostModel costs = CostsOf(plan, random);
    const absl::StatusOr<Timeline> truth = Simulate(plan, costs);
    ASSERT_TRUE(truth.ok()) << name;
    const auto imported =
        ImportStep(Written(plan, {*truth, *truth}, OtherHosts(4, random)), std::nullopt);
    ASSERT_TRUE(imported.ok()) << name << ": " << imported.status();
    EXPECT_EQ(Told(imported->timeline), Told(*truth)) << name;
    EXPECT_EQ(imported->step, 2);
    EXPECT_EQ(imported->steps, (std::vector<int>{1, 2}));
    EXPECT_EQ(imported->hosts, 4);
  }
}

TEST(TraceImport, ClocksAreAsNearAsTheySay) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (int run = 0; run < 20; ++run) {
    const Plan plan = PlanOfLibrary("1f1b", 4, 6);
    Timeline truth = *Simulate(plan, CostsOf(plan, random));
    // Messages arrive a little sooner than their receivers look.
    for (Event& event : truth.events) {
      if (IsMessage(event.kind)) event.start_ns += static_cast<int64_t>(random() % 20) * 1'000;
    }
    const std::vector<WrittenClock> clocks = OtherHosts(4, random);
    const auto imported = ImportStep(Written(plan, {truth}, clocks), std::nullopt);
    ASSERT_TRUE(imported.ok()) << imported.status();
    for (int r = 1; r < 4; ++r) {
      const RankClock& clock = imported->ranks[r].clock;
      ASSERT_TRUE(clock.uncertainty_ns.has_value());
      const int64_t true_ns = clocks[0].ahead_ns - clocks[r].ahead_ns;
      EXPECT_LE(std::abs(clock.offset_ns - true_ns), *clock.uncertainty_ns) << r;
    }
    EXPECT_EQ(imported->clocks_off_ns, 0);
  }
}

TEST(TraceImport, OneHostHasOneClock) {
  const Plan plan = PlanOfLibrary("1f1b", 2, 3);
  std::mt19937_64 random(1);
  const Timeline truth = *Simulate(plan, CostsOf(plan, random));
  const auto same = ImportStep(Written(plan, {truth}, {{"one", 0}, {"one", 70'000}}), std::nullopt);
  ASSERT_TRUE(same.ok());
  EXPECT_EQ(same->ranks[1].clock.offset_ns, 0);
  // Unless messages would arrive before they left.
  const auto two =
      ImportStep(Written(plan, {truth}, {{"one", 0}, {"one", 70'000'000}}), std::nullopt);
  ASSERT_TRUE(two.ok());
  EXPECT_EQ(two->ranks[1].clock.offset_ns, -70'000'000);
}

TEST(Clocks, OneWayTakesTheLeastOffset) {
  // A message that left at 10 arrived at 4, another left at 50 and arrived at 70.
  const AlignedClocks clocks = AlignClocks(3, {{0, 1, -6}, {0, 1, 20}, {1, 2, 5}});
  EXPECT_EQ(clocks.ranks[1].offset_ns, 6);
  EXPECT_FALSE(clocks.ranks[1].uncertainty_ns.has_value());
  EXPECT_EQ(clocks.ranks[2].offset_ns, 1);
  EXPECT_EQ(clocks.broken_ns, 0);
}

TEST(Clocks, ContradictionsAreSaid) {
  const AlignedClocks clocks = AlignClocks(2, {{0, 1, -3'000}, {1, 0, -1'000}});
  EXPECT_EQ(clocks.broken_ns, 2'000);
  EXPECT_EQ(clocks.ranks[1].offset_ns, 1'000);
  // Ranks without any link to the first rank, too.
  EXPECT_GT(AlignClocks(3, {{1, 2, -3}, {2, 1, -1}}).broken_ns, 0);
}

TEST(BusyTimes, AreThoseOfMergedIntervals) {
  using enum DeviceWork;
  const BusyTimes times = BusyTimesOf({{{10, 20}, kComputation},
                                       {{15, 30}, kComputation},
                                       {{25, 45}, kCommunication},
                                       {{40, 50}, kCommunication},
                                       {{60, 70}, kMemory},
                                       {{65, 72}, kOther}});
  EXPECT_EQ(times.total_ns, 62);
  EXPECT_EQ(times.computation_ns, 20);
  EXPECT_EQ(times.communication_ns, 25);
  EXPECT_EQ(times.overlap_ns, 5);
  EXPECT_EQ(times.other_ns, 32);
  EXPECT_EQ(times.idle_ns, 10);
}

TEST(TraceReader, TellsWorkByName) {
  EXPECT_EQ(DeviceWorkOf("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"),
            DeviceWork::kCommunication);
  EXPECT_EQ(DeviceWorkOf("Memset (Device)"), DeviceWork::kMemory);
  EXPECT_EQ(DeviceWorkOf("Event Sync"), DeviceWork::kOther);
  EXPECT_EQ(DeviceWorkOf("ampere_sgemm_128x64_tn"), DeviceWork::kComputation);
}

std::string Recorded(const std::string& category, const std::string& name, const std::string& ts,
                     const std::string& dur) {
  return absl::StrCat(R"({"ph":"X","cat":")", category, R"(","name":")", name,
                      R"(","pid":1,"tid":1,"ts":)", ts, R"(,"dur":)", dur,
                      R"(,"args":{"rank":7,"ts":1}})");
}

std::string Trace(const std::string& events, const std::string& rank = "1") {
  return absl::StrCat(R"({"distributedInfo":{"rank":)", rank,
                      R"(,"world_size":2,"pg_config":[{"rank":9}]},"baseTimeNanoseconds":5,)",
                      R"("host_name":"h","traceEvents":[)", events, "]}");
}

TEST(TraceReader, ReadsTimesDigitByDigit) {
  const RankTrace trace = ReadTrace(
      Trace(absl::StrCat(Recorded("user_annotation", "PP:0F0", "4563746251331.957", "2"), ",",
                         Recorded("user_annotation", "PP:0B0", "4.5637462523e12", "0.25"), ",",
                         Recorded("user_annotation", "PP:0F1", "-1.5", "0.0019"))));
  EXPECT_EQ(trace.rank, 1);
  EXPECT_EQ(trace.processes, 2);
  ASSERT_EQ(trace.actions.size(), 3U);
  EXPECT_EQ(trace.actions[0].start_ns, -1'495);
  EXPECT_EQ(trace.actions[0].end_ns, -1'494);
  EXPECT_EQ(trace.actions[1].start_ns, 4'563'746'251'331'962);
  EXPECT_EQ(trace.actions[1].end_ns, 4'563'746'251'333'962);
  EXPECT_EQ(trace.actions[2].start_ns, 4'563'746'252'300'005);
  EXPECT_EQ(trace.actions[2].end_ns, 4'563'746'252'300'255);
}

TEST(TraceReader, SaysWhatIsWrongWithAFile) {
  const std::string good = Trace(Recorded("user_annotation", "PP:0F0", "1", "2"));
  EXPECT_EQ(Refused(good), "nothing");
  EXPECT_EQ(Refused(good.substr(0, good.size() / 2)).substr(0, 32),
            "r.json: ends in the middle, behi");
  EXPECT_EQ(Refused("").substr(0, 26), "r.json: ends in the middle");
  EXPECT_EQ(Refused("{]"), "r.json: is not JSON from byte 2 on");
  EXPECT_EQ(Refused("[1]"), "r.json: is no trace of torch's profiler: it has no traceEvents");
  EXPECT_EQ(Refused(R"({"traceEvents":[]})").substr(0, 28), "r.json: says no rank (distri");
  // Every proper prefix of a trace ends in a message, and no other way.
  for (size_t end = 0; end < good.size(); ++end) {
    EXPECT_NE(Refused(good.substr(0, end)), "nothing") << end;
  }
}

TEST(TraceReader, UnpacksWhatIsGzipped) {
  namespace fs = std::filesystem;
  const std::string folder = absl::StrCat(testing::TempDir(), "/traces_", getpid());
  fs::create_directories(folder);
  const std::string text = Trace(Recorded("user_annotation", "PP:0F0", "1", "2"), "3");
  const std::string packed = folder + "/b.json.gz";
  gzFile file = gzopen(packed.c_str(), "wb");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  std::ofstream(folder + "/a.json") << text;
  std::ofstream(folder + "/notes.txt") << "none";
  const auto files = TraceFilesOf({folder});
  ASSERT_TRUE(files.ok());
  EXPECT_EQ(*files, (std::vector<std::string>{folder + "/a.json", packed}));
  for (const std::string& path : *files) EXPECT_EQ(OpenRankTrace(path)->rank, 3) << path;
  std::ofstream(packed, std::ios::binary | std::ios::in).seekp(40).write("XXXXXXXX", 8);
  fs::resize_file(packed, fs::file_size(packed) - 12);
  EXPECT_FALSE(OpenRankTrace(packed).ok());
  fs::remove_all(folder);
  EXPECT_EQ(TraceFilesOf({testing::TempDir() + "/nothing"})->size(), 1U);
  EXPECT_FALSE(OpenRankTrace(testing::TempDir() + "/nothing").ok());
}

// A gzipped trace of spaces, some thousand times its size: refused before it is unpacked.
TEST(TraceReader, RefusesWhatUnpacksWithoutEnd) {
  const std::string packed = absl::StrCat(testing::TempDir(), "/bomb_", getpid(), ".json.gz");
  const std::string spaces(1 << 20, ' ');
  gzFile file = gzopen(packed.c_str(), "wb9");
  gzwrite(file, spaces.data(), static_cast<unsigned>(spaces.size()));
  gzclose(file);
  // Packed parts may follow one another.
  std::ifstream written(packed, std::ios::binary);
  const std::string part((std::istreambuf_iterator<char>(written)),
                         std::istreambuf_iterator<char>());
  std::ofstream all(packed, std::ios::binary | std::ios::app);
  for (int i = 1; i < 400; ++i) all << part;
  all.close();
  EXPECT_EQ(OpenRankTrace(packed).status().message(),
            packed +
                ": unpacks to more than 256 MiB, 200 times its size and more, as no trace does; a "
                "file that is not packed has no such limit");
  std::filesystem::remove(packed);
}

// The traces of a step of 1f1b on two ranks, changed; and import's message.
class BrokenTraces : public testing::Test {
 protected:
  BrokenTraces() {
    std::mt19937_64 random(1);
    truth_ = *Simulate(plan_, CostsOf(plan_, random));
    for (int r = 0; r < 2; ++r) {
      texts_[r] = WrittenTrace(plan_, {truth_, truth_}, RankId(r), {"one", 0});
    }
  }
  std::string Said(const std::vector<std::string>& texts, std::optional<int> step = {}) {
    std::vector<RankTrace> traces;
    for (size_t r = 0; r < texts.size(); ++r) {
      traces.push_back(ReadTrace(texts[r], absl::StrCat("r", r, ".json")));
    }
    const auto imported = ImportStep(std::move(traces), step);
    return imported.ok() ? "nothing" : std::string(imported.status().message());
  }
  static std::string With(const std::string& text, const std::string& old, const std::string& now) {
    return absl::StrReplaceAll(text, {{old, now}});
  }

  const Plan plan_ = PlanOfLibrary("1f1b", 2, 3);
  Timeline truth_;
  std::string texts_[2];
};

TEST_F(BrokenTraces, AreRefusedInOneSentence) {
  const std::string &one = texts_[0], &two = texts_[1];
  EXPECT_EQ(Said({one, two}), "nothing");
  EXPECT_EQ(Said({two, one}, 1), "nothing");
  EXPECT_EQ(Said({}), "no trace is given");
  EXPECT_EQ(Said({one, one}), "r1.json: of rank 0, as is r0.json; give one trace a rank");
  EXPECT_EQ(Said({one}),
            "r0.json: no trace has stage 1, which PP:0SEND_F0 is for; 1 of 2 "
            "processes' traces are given: is that of a rank missing?");
  EXPECT_EQ(Said({two}),
            "r0.json: no trace has stage 0, which PP:1RECV_F0 is for; 1 of 2 "
            "processes' traces are given: is that of a rank missing?");
  EXPECT_EQ(Said({one, two}, 3), "r0.json: step 3 is not whole there; whole are: 1, 2");
  EXPECT_EQ(Said({one, With(two, "ProfilerStep#", "ProfilerStep#1")}),
            "r1.json: no step is whole there and in the traces of all ranks before; whole are "
            "there: 11, 12; in r0.json: 1, 2; profile the same steps on every rank");
  EXPECT_EQ(Said({one, two, With(two, "\"rank\": 1", "\"rank\": 3")}),
            "r2.json: stage 1 is on rank 3, and in r1.json on rank 1: these are copies of one "
            "pipeline; give the traces of one of them");
  EXPECT_EQ(Said({one, With(two, "PP:1F1\"", "PP:1F1x\"")}).substr(0, 41),
            "r1.json: the range PP:1F1x is no action: ");
  for (const char* const name :
       {"1F1,1F2", "1F1\\n1F2", "(1F1;1B0)OVERLAP_F_B,1F2", "(1F1;(1B0)", ""}) {
    const std::string said = Said({one, With(two, "PP:1F1\"", absl::StrCat("PP:", name, "\""))});
    EXPECT_NE(said.find("is no action"), std::string::npos) << name << ": " << said;
  }
  EXPECT_EQ(Said({one, With(two, "PP:1F1\"", "PP:9999F1\"")}).substr(0, 32),
            "r0.json: no trace has stage 2; 2");
  EXPECT_EQ(
      Said({one, With(two, "PP:1RECV_F1\"", "RECV_F1\"")}),
      "r1.json: step 2: rank 1 waits forever at 1F1 for the activation of stage 0, microbatch "
      "1; is a range missing from the trace?");
  EXPECT_EQ(Said({With(one, "\"stream\"", "\"s\""), With(two, "\"stream\"", "\"s\"")}),
            "r0.json: nothing was done on a GPU, and no gloo:recv began in PP:0RECV_B0; was the "
            "GPU profiled (ProfilerActivity.CUDA)? Without one only gloo says when messages "
            "arrive");
  EXPECT_EQ(Said({one, With(two, "\"cuda_runtime\"", "\"cpu_op\"")}).substr(0, 60),
            "r1.json: nothing that a GPU did was launched within a range ");
  EXPECT_EQ(Said({one, With(two, "1790857026", "1690857026")}),
            "r1.json: its times are days from those of r0.json; are both of one run?");
}

TEST_F(BrokenTraces, AStepWithoutACounterIsFoundByWhatRepeats) {
  const auto uncounted = [&](int r) { return With(texts_[r], "ProfilerStep#", "other#"); };
  std::vector<RankTrace> traces = {ReadTrace(uncounted(0)), ReadTrace(uncounted(1))};
  const auto imported = ImportStep(traces, std::nullopt);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->steps, (std::vector<int>{0, 1}));
  EXPECT_EQ(Told(imported->timeline), Told(truth_));
}

// On the host an action begins when its inputs are there. Messages that no rank waits for are
// imported with the duration of messages that a rank waits for.
TEST(TraceImport, TakesWaitsFromActionsOfTheHost) {
  const auto range = [](const std::string& name, int at_us, int length_us) {
    return Recorded("user_annotation", name, absl::StrCat(at_us), absl::StrCat(length_us));
  };
  const auto op = [](int at_us, int length_us) {
    return Recorded("cpu_op", "c10d::send", absl::StrCat(at_us), absl::StrCat(length_us));
  };
  const auto joined = [](const std::vector<std::string>& events) {
    return Trace(absl::StrJoin(events, ","), "0");
  };
  // Rank 1 waits for the first activation from 0 on, and finds the second already arrived.
  const std::string zero =
      joined({range("PP:0F0", 0, 100), range("PP:0SEND_F0", 102, 10), op(104, 6),
              range("gloo:send", 109, 900), range("PP:0F1", 120, 100),
              range("PP:0SEND_F1", 222, 10), op(224, 6), range("PP:0RECV_B0", 240, 10),
              range("gloo:recv", 242, 260), range("PP:0RECV_B1", 252, 10),
              range("gloo:recv", 254, 660), range("PP:0B0", 270, 330), range("PP:0B1", 610, 400)});
  const std::string one = absl::StrReplaceAll(
      joined({range("PP:1RECV_F0", 0, 10), range("gloo:recv", 2, 122), range("PP:1F0", 20, 180),
              range("PP:1RECV_F1", 202, 10), range("gloo:recv", 204, 300),
              range("PP:1B0", 220, 180), range("PP:1SEND_B0", 402, 10), op(404, 6),
              range("PP:1F1", 420, 150), range("PP:1B1", 580, 200), range("PP:1SEND_B1", 782, 10),
              op(784, 6)}),
      {{"\"rank\":0,\"world", "\"rank\":1,\"world"}});
  const auto imported = ImportStep({ReadTrace(zero), ReadTrace(one)}, std::nullopt);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(Print(imported->timeline),
            "timeline measured torch P=2 M=2\n"
            "observed\n"
            "rank 0: 0F0@0+100000 0SEND_F0@104000+20000 0F1@120000+100000 "
            "0SEND_F1@224000+98000[504000+0] 0RECV_B0@404000+98000 "
            "0RECV_B1@784000+98000[914000+0] 0B0@502000+98000 0B1@914000+96000\n"
            "rank 1: 1RECV_F0@104000+20000 1F0@124000+76000 "
            "1RECV_F1@224000+98000[504000+0] 1B0@220000+180000 1SEND_B0@404000+98000 "
            "1F1@504000+66000 1B1@580000+200000 1SEND_B1@784000+98000[914000+0]\n");
}

// Traces of torch's own schedules (tests/golden/torch/unnamed), in which the test has put a range
// TRUE:0F0 around each computation, which the import does not know.
class UnnamedTraces : public testing::TestWithParam<std::string> {
 protected:
  struct Truth {
    std::string name;
    TimeSpan span;
  };
  static std::string Text(const std::string& folder, int rank) {
    return ReadTestFile(
        absl::StrCat("tests/golden/torch/unnamed/", folder, "/rank", rank, ".json"));
  }
  // The computations of a step by their ranges.
  static std::vector<Truth> TruthOf(const std::string& text, const std::string& step) {
    std::istringstream json(text);
    TraceHeader header;
    std::vector<Truth> all, found;
    TimeSpan within;
    const auto read = ReadTraceEvents(json, "rank.json", &header, [&](const TraceEvent& event) {
      if (!event.is_span()) return;
      const TimeSpan span{*event.start_ns + header.base_ns,
                          *event.start_ns + *event.length_ns + header.base_ns};
      if (event.name == "ProfilerStep#" + step) within = span;
      if (event.name.substr(0, 5) == "TRUE:") all.push_back({event.name.substr(5), span});
    });
    SL_CHECK(read.ok()) << read;
    for (const Truth& one : all) {
      const bool is_in = one.span.start_ns >= within.start_ns && one.span.end_ns <= within.end_ns;
      if (is_in) found.push_back(one);
    }
    std::sort(found.begin(), found.end(),
              [](const Truth& a, const Truth& b) { return a.span.start_ns < b.span.start_ns; });
    return found;
  }
};

TEST_P(UnnamedTraces, HaveTheTimesOfTheirRanges) {
  const std::string texts[] = {Text(GetParam(), 0), Text(GetParam(), 1)};
  // Autograd's records begin and end a little within the ranges, and the calls of Python hardly.
  const double near_ns = GetParam() == "1f1b_stack" ? 300e3 : 1300e3;
  for (const int step : {1, 2}) {
    const auto imported = ImportStep({ReadTrace(texts[0]), ReadTrace(texts[1])}, step);
    ASSERT_TRUE(imported.ok()) << imported.status();
    EXPECT_EQ(imported->steps, (std::vector<int>{1, 2}));
    const Plan& plan = imported->plan;
    int64_t first_ns = 0;
    for (int r = 0; r < 2; ++r) {
      const std::vector<Truth> truth = TruthOf(texts[r], absl::StrCat(step));
      ASSERT_EQ(truth.size(), 6U);
      if (r == 0) first_ns = truth[0].span.start_ns;
      size_t at = 0;
      for (uint32_t i = plan.first[r]; i < plan.first[r + 1]; ++i) {
        if (!IsCompute(plan.actions[i].kind)) continue;
        const Event& event = imported->timeline.events[i];
        ASSERT_LT(at, truth.size());
        const Truth& expected = truth[at++];
        EXPECT_EQ(Print(plan, plan.actions[i]), expected.name);
        EXPECT_NEAR(static_cast<double>(event.start_ns),
                    static_cast<double>(expected.span.start_ns - first_ns), near_ns)
            << expected.name;
        EXPECT_NEAR(static_cast<double>(event.end_ns - event.start_ns),
                    static_cast<double>(expected.span.end_ns - expected.span.start_ns), near_ns)
            << expected.name;
      }
      EXPECT_EQ(at, truth.size());
    }
  }
}

TEST_P(UnnamedTraces, HaveTheSameStepsWithoutACounter) {
  std::vector<RankTrace> traces;
  for (const int r : {0, 1}) {
    traces.push_back(
        ReadTrace(absl::StrReplaceAll(Text(GetParam(), r), {{"ProfilerStep#", "other#"}})));
  }
  const auto imported = ImportStep(traces, 1);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->steps, (std::vector<int>{0, 1}));
  const auto counted =
      ImportStep({ReadTrace(Text(GetParam(), 0)), ReadTrace(Text(GetParam(), 1))}, 2);
  ASSERT_TRUE(counted.ok());
  EXPECT_EQ(Told(imported->timeline), Told(counted->timeline));
}

TEST_P(UnnamedTraces, SayWhatIsMissing) {
  const std::string zero = Text(GetParam(), 0), one = Text(GetParam(), 1);
  const auto said = [&](const std::string& old, const std::string& now) {
    const auto imported = ImportStep(
        {ReadTrace(absl::StrReplaceAll(zero, {{old, now}}), "r0.json"), ReadTrace(one, "r1.json")},
        std::nullopt);
    return imported.ok() ? "nothing" : std::string(imported.status().message());
  };
  const auto expect = [&](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
    EXPECT_NE(text.find("with_stack=True"), std::string::npos) << text;
    EXPECT_EQ(text.substr(0, 32), "r0.json: holds no range PP:…, ") << text;
  };
  EXPECT_EQ(said("c10d::send", "c10d::send"), "nothing");
  expect(said("c10d::send", "send"), "in step 2 no c10d::send is found behind 0F0");
  expect(said("c10d::recv_", "recv"), "in step 2 no c10d::recv_ is found before 0B0");
  if (GetParam() == "1f1b_stack") {
    expect(said("backward_one_chunk", "backward"), "no backward is recorded");
  } else {
    expect(said("autograd::engine", "engine"), "no backward is recorded");
  }
  EXPECT_EQ(said("TRUE:0F0", "PP:0F0").substr(0, 57),
            "r1.json: holds no range PP:…, and r0.json does; profile");
}

INSTANTIATE_TEST_SUITE_P(OfTorch, UnnamedTraces,
                         testing::Values("1f1b_plain", "1f1b_stack", "gpipe_plain"));

}  // namespace
}  // namespace stringline
