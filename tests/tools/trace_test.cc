// Traces and pictures agree with the timeline: Perfetto's bytes are decoded by an independent
// decoder, Chrome's JSON by a JSON reader, SVG as balanced XML.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "schedlang/plan/timeline.h"
#include "tests/tools/simulated_timeline.h"
#include "tests/tools/tool_run.h"
#include "tools/view/svg_bands.h"
#include "tools/view/traced.h"

namespace stringline {
namespace {

// A field of a protobuf message: a number, or bytes.
struct WireField {
  uint64_t number = 0;
  std::string bytes;
};
using WireMessage = std::multimap<int, WireField>;

uint64_t ReadVarint(const std::string& bytes, size_t* at) {
  uint64_t value = 0;
  for (int shift = 0; *at < bytes.size(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes[(*at)++]);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) break;
  }
  return value;
}

WireMessage Decode(const std::string& bytes) {
  WireMessage message;
  for (size_t at = 0; at < bytes.size();) {
    const uint64_t tag = ReadVarint(bytes, &at);
    WireField field;
    if ((tag & 7) == 0) {
      field.number = ReadVarint(bytes, &at);
    } else if ((tag & 7) == 1) {
      for (int k = 0; k < 8; ++k) {
        field.number |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[at++])) << (8 * k);
      }
    } else {
      EXPECT_EQ(tag & 7, 2u) << "at " << at;
      const uint64_t length = ReadVarint(bytes, &at);
      EXPECT_LE(at + length, bytes.size());
      field.bytes = bytes.substr(at, length);
      at += length;
    }
    message.emplace(static_cast<int>(tag >> 3), std::move(field));
  }
  return message;
}

uint64_t Number(const WireMessage& message, int field) {
  const auto found = message.find(field);
  return found == message.end() ? 0 : found->second.number;
}
std::string Bytes(const WireMessage& message, int field) {
  const auto found = message.find(field);
  return found == message.end() ? "" : found->second.bytes;
}

// Process, track, name, start and length of a slice.
using SliceRow = std::tuple<std::string, std::string, std::string, int64_t, int64_t>;

struct DecodedTrace {
  std::multiset<SliceRow> slices;
  size_t flows = 0;        // beginnings
  size_t ended_flows = 0;  // ends at the same place as a beginning
  size_t counters = 0;
  size_t sources = 0;
};

DecodedTrace DecodePerfetto(const std::string& bytes) {
  DecodedTrace decoded;
  std::map<uint64_t, std::string> processes, names;
  std::map<uint64_t, std::pair<uint64_t, std::string>> tracks;  // parent, name
  std::map<uint64_t, std::vector<std::pair<std::string, int64_t>>> open;
  std::set<uint64_t> flows, ended;
  for (const auto& [field, packet_field] : Decode(bytes)) {
    EXPECT_EQ(field, 1);
    const WireMessage packet = Decode(packet_field.bytes);
    const WireMessage interned = Decode(Bytes(packet, 12));
    for (auto [it, end] = interned.equal_range(2); it != end; ++it) {
      const WireMessage entry = Decode(it->second.bytes);
      names[Number(entry, 1)] = Bytes(entry, 2);
    }
    if (packet.count(60) > 0) {
      const WireMessage track = Decode(Bytes(packet, 60));
      const uint64_t uuid = Number(track, 1);
      if (track.count(3) > 0) processes[uuid] = Bytes(Decode(Bytes(track, 3)), 6);
      tracks[uuid] = {Number(track, 5), Bytes(track, 2)};
      decoded.counters += track.count(8);
    }
    if (packet.count(11) == 0) continue;
    const auto time = static_cast<int64_t>(Number(packet, 8));
    const WireMessage event = Decode(Bytes(packet, 11));
    const uint64_t track = Number(event, 11);
    if (Number(event, 9) == 1) {
      open[track].emplace_back(names[Number(event, 10)], time);
      for (auto [it, end] = event.equal_range(47); it != end; ++it) flows.insert(it->second.number);
      for (auto [it, end] = event.equal_range(48); it != end; ++it) ended.insert(it->second.number);
      for (auto [it, end] = event.equal_range(4); it != end; ++it) {
        decoded.sources += Bytes(Decode(it->second.bytes), 6).find(".sched:") != std::string::npos;
      }
    } else if (Number(event, 9) == 2) {
      EXPECT_FALSE(open[track].empty());
      if (open[track].empty()) continue;
      const auto [name, start] = open[track].back();
      open[track].pop_back();
      decoded.slices.insert(
          {processes[tracks[track].first], tracks[track].second, name, start, time - start});
    }
  }
  for (const auto& [track, slices] : open) EXPECT_TRUE(slices.empty());
  decoded.flows = flows.size();
  for (const uint64_t flow : ended) decoded.ended_flows += flows.count(flow);
  return decoded;
}

// The rows of `show --json`: rank, action, start and length in nanoseconds.
std::multiset<std::tuple<std::string, std::string, int64_t, int64_t>> Shown(
    const std::string& arguments) {
  std::multiset<std::tuple<std::string, std::string, int64_t, int64_t>> rows;
  const auto json =
      nlohmann::json::parse(RunToolIn(SourceFolder(), Words(arguments + " --json")).out);
  int rank = 0;
  for (const auto& events : json["ranks"]) {
    for (const auto& event : events) {
      const auto start = int64_t{std::llround(event["start_us"].get<double>() * 1e3)};
      const auto end = int64_t{std::llround(event["end_us"].get<double>() * 1e3)};
      rows.insert(
          {absl::StrCat("rank ", rank), event["action"].get<std::string>(), start, end - start});
    }
    ++rank;
  }
  return rows;
}

constexpr const char* kSteps[] = {
    "show schedules/1f1b.sched P=4 M=8 --cost F=10,I=12,W=7,p2p=3",
    "show schedules/dualpipe_v.sched P=4 M=8 --cost F=10,I=12,W=7,p2p=30 --layout pair",
    "show schedules/chimera.sched P=4 M=8 --cost F=10,I=12,W=7,p2p=3,message=1MB,bandwidth=100GB/s",
    "show schedules/dualpipe.sched P=4 M=8 --layout shared",
};

TEST(TraceTest, PerfettoHasEveryEvent) {
  for (const char* const step : kSteps) {
    const std::string path = ScratchFolder() + "/t.pftrace";
    ASSERT_EQ(RunToolIn(SourceFolder(), Words(absl::StrCat(step, " --perfetto ", path))).status, 0);
    const DecodedTrace decoded = DecodePerfetto(ReadText(path));
    std::multiset<std::tuple<std::string, std::string, int64_t, int64_t>> found;
    size_t messages = 0;
    for (const auto& [process, track, name, start, length] : decoded.slices) {
      found.insert({process, name, start, length});
      messages += name.find("SEND") != std::string::npos;
    }
    EXPECT_EQ(found, Shown(step)) << step;
    EXPECT_EQ(decoded.flows, messages) << step;
    EXPECT_EQ(decoded.ended_flows, messages) << step;
    EXPECT_EQ(decoded.counters, 8u) << step;
    EXPECT_EQ(decoded.sources, decoded.slices.size()) << step;
  }
}

TEST(TraceTest, PerfettoHasPartsOnTheirLanes) {
  const std::string path = ScratchFolder() + "/p.pftrace", recorded = path + ".timeline";
  const std::string step =
      "schedules/dualpipe_v.sched P=2 M=4 --cost layers=2,"
      "F.attn=3,F.dispatch=1,F.experts=4,F.combine=1,B.attn=3,B.dispatch=1,B.experts=4,B.combine=1,"
      "W.attn=2,W.experts=3";
  const auto run = [](const std::string& words) {
    return RunToolIn(SourceFolder(), Words(words)).status;
  };
  ASSERT_EQ(run("show " + step + " --perfetto " + path), 0);
  ASSERT_EQ(run("sim " + step + " --timeline " + recorded), 0);
  // Every rank's parts, and no others: those of its groups and of its computations alone.
  const std::string text = ReadText(recorded);
  const auto parts =
      std::count(text.begin() + static_cast<std::ptrdiff_t>(text.find("\nparts")), text.end(), '@');
  int network = 0, compute = 0;
  for (const auto& [process, track, name, start, length] : DecodePerfetto(ReadText(path)).slices) {
    if (name.find('.') == std::string::npos) continue;
    const bool sends =
        name.find("dispatch") != std::string::npos || name.find("combine") != std::string::npos;
    EXPECT_EQ(track, sends ? "network" : "compute") << name;
    ++(sends ? network : compute);
  }
  EXPECT_GT(network, 0);
  EXPECT_EQ(network + compute, parts);
  // Two layers: an F or an I has 4 and 4, a B 8 and 4, a W 4.
  const Source source(recorded, text);
  Diagnostics diagnostics;
  int expected = 0;
  const auto timeline = ReadTimeline(source, &diagnostics);
  ASSERT_TRUE(timeline);
  for (const Event& event : timeline->events) {
    expected += IsCompute(event.kind) && event.kind != ActionKind::kWeightGradient ? 4 : 0;
  }
  EXPECT_EQ(network, expected);
  // The same from the recorded timeline alone.
  const size_t slices = DecodePerfetto(ReadText(path)).slices.size();
  ASSERT_EQ(run("show " + recorded + " --perfetto " + path), 0);
  EXPECT_EQ(DecodePerfetto(ReadText(path)).slices.size(), slices);
}

// Copies each way have a track of their own, in both forms.
TEST(TraceTest, CopiesHaveTracks) {
  const std::string path = ScratchFolder() + "/copies.timeline";
  WriteText(path, Print(TimelineWithCopies()));
  const std::multiset<SliceRow> expected = {{"rank 0", "to host", "0D0", 1'000, 1'500},
                                            {"rank 0", "to host", "0D1", 2'500, 1'500},
                                            {"rank 0", "from host", "0U0", 2'500, 2'500},
                                            {"rank 0", "from host", "0U1", 5'000, 2'500}};
  const std::string show = absl::StrCat("show ", path);
  const Answer perfetto = RunToolIn(SourceFolder(), Words(show + " --perfetto " + path + ".pf"));
  ASSERT_EQ(perfetto.status, 0) << perfetto.err;
  std::multiset<SliceRow> found;
  for (const SliceRow& slice : DecodePerfetto(ReadText(path + ".pf")).slices) {
    if (std::get<1>(slice).find("host") != std::string::npos) found.insert(slice);
  }
  EXPECT_EQ(found, expected);
  const Answer chrome = RunToolIn(SourceFolder(), Words(show + " --chrome " + path + ".json"));
  ASSERT_EQ(chrome.status, 0) << chrome.err;
  std::map<std::pair<int, int>, std::string> tracks;
  found.clear();
  const auto trace = nlohmann::json::parse(ReadText(path + ".json"));
  for (const auto& event : trace["traceEvents"]) {
    const std::pair<int, int> at = {event["pid"], event.value("tid", -1)};
    if (event["name"] == "thread_name") tracks[at] = event["args"]["name"];
    if (event["ph"] != "X" || tracks[at].find("host") == std::string::npos) continue;
    const double start = event["ts"], length = event["dur"];
    found.insert({absl::StrCat("rank ", at.first), tracks[at], event["name"],
                  int64_t{std::llround(start * 1e3)}, int64_t{std::llround(length * 1e3)}});
  }
  EXPECT_EQ(found, expected);
}

// The most microbatches in flight on rank 0 of a timeline with this list.
int64_t MostInFlight(const std::string& lines) {
  Diagnostics findings;
  const auto timeline =
      ReadTimeline(Source("x", absl::StrCat("timeline simulated s P=1 M=2\n", lines)), &findings);
  EXPECT_TRUE(timeline.has_value()) << lines;
  return timeline ? MicrobatchesInFlight(*timeline, RankId(0)).peak : -1;
}

TEST(TraceTest, MicrobatchesInFlightAreWholeOnes) {
  EXPECT_EQ(MostInFlight("rank 0: 0F0@0+1 0B0@1+1 0F1@2+1 0B1@3+1\n"), 1);
  EXPECT_EQ(MostInFlight("rank 0: 0F0@0+1 0F1@1+1 0B0@2+1 0B1@3+1\n"), 2);
  EXPECT_EQ(MostInFlight("slices 2\nrank 0: 0F0.0@0+1 0F0.1@1+1 0F1.0@2+1 0F1.1@3+1 0B0.1@4+1 "
                         "0B0.0@5+1 0B1.1@6+1 0B1.0@7+1\n"),
            2);
  // The number of an UPDATE is its step.
  EXPECT_EQ(MostInFlight("rank 0: 0F0@0+1 0B0@1+1 0F1@2+1 0B1@3+1 0UPDATE0@4+1\n"), 1);
  EXPECT_EQ(MostInFlight("pipe a M=1 stages=1\npipe b M=1 stages=1\n"
                         "rank 0: a[0]F0@0+1 b[0]F0@1+1 a[0]B0@2+1 b[0]B0@3+1\n"),
            2);
}

TEST(TraceTest, ChromeHasEveryEvent) {
  for (const char* const step : kSteps) {
    const std::string path = ScratchFolder() + "/t.json";
    ASSERT_EQ(RunToolIn(SourceFolder(), Words(absl::StrCat(step, " --chrome ", path))).status, 0);
    const auto json = nlohmann::json::parse(ReadText(path));
    std::multiset<std::tuple<std::string, std::string, int64_t, int64_t>> found;
    std::map<int, int> flows;
    // By process and thread, the ends of open slices: they must nest.
    std::map<std::pair<int, int>, std::vector<double>> open;
    for (const auto& event : json["traceEvents"]) {
      const std::string phase = event["ph"];
      if (phase == "s") ++flows[event["id"]];
      if (phase == "f") --flows[event["id"]];
      if (phase != "X") continue;
      const double start = event["ts"], length = event["dur"];
      found.insert({absl::StrCat("rank ", event["pid"].get<int>()), event["name"],
                    int64_t{std::llround(start * 1e3)}, int64_t{std::llround(length * 1e3)}});
      auto& ends = open[{event["pid"], event["tid"]}];
      while (!ends.empty() && ends.back() <= start + 1e-6) ends.pop_back();
      EXPECT_TRUE(ends.empty() || start + length <= ends.back() + 1e-6) << step;
      ends.push_back(start + length);
    }
    EXPECT_EQ(found, Shown(step)) << step;
    EXPECT_FALSE(flows.empty());
    for (const auto& [id, balance] : flows) EXPECT_EQ(balance, 0) << step;
  }
}

// Every tag closed, in order; no bare '&' or '<'.
void ExpectBalancedXml(const std::string& text) {
  std::vector<std::string> open;
  for (size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at + 1)) {
    const size_t end = text.find('>', at);
    ASSERT_NE(end, std::string::npos);
    const std::string tag = text.substr(at + 1, end - at - 1);
    ASSERT_EQ(tag.find('<'), std::string::npos) << tag;
    if (tag[0] == '/') {
      ASSERT_FALSE(open.empty());
      ASSERT_EQ(tag.substr(1), open.back());
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(tag.substr(0, tag.find(' ')));
    }
  }
  EXPECT_TRUE(open.empty());
}

size_t CountOf(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(TraceTest, SvgIsXmlWithABoxForEveryComputation) {
  const std::string path = ScratchFolder() + "/t.svg";
  ASSERT_EQ(
      RunToolIn(SourceFolder(), Words("show schedules/1f1b.sched P=4 M=8 --svg " + path)).status,
      0);
  const std::string svg = ReadText(path);
  ExpectBalancedXml(svg);
  EXPECT_EQ(CountOf(svg, "<rect x="), 64u + 2u);                          // and two of the legend
  EXPECT_EQ(CountOf(svg, "text-anchor='middle' fill='#0b2239'>7<"), 4u);  // F of microbatch 7
}

TEST(TraceTest, SvgWithLanesHasABoxForEveryPart) {
  const std::string path = ScratchFolder() + "/lanes.svg";
  const std::string recorded = "tests/golden/report/moe.timeline";
  ASSERT_EQ(RunToolIn(SourceFolder(), Words("show " + recorded + " --lanes --svg " + path)).status,
            0);
  const std::string svg = ReadText(path), text = ReadText(SourceFolder() + "/" + recorded);
  ExpectBalancedXml(svg);
  EXPECT_EQ(CountOf(svg, ">network<"), 2u);
  // 1B1 is the only computation without parts. Three boxes of the legend, and the hatching of every
  // W.
  const size_t parts = CountOf(text, ":F.") + CountOf(text, ":B.") + CountOf(text, ":W.");
  const size_t messages = CountOf(text, "RECV_");
  EXPECT_GT(messages, 0u);
  EXPECT_EQ(CountOf(svg, "<rect x="), parts + 1u + messages + 3u + CountOf(svg, "fill='url(#w)'"));
  EXPECT_EQ(CountOf(svg, "fill='url(#w)'"), CountOf(text, ":W.") + 1u);
}

// The pictures in the documents equal the tool's present output.
TEST(TraceTest, ThePicturesOfTheDocumentsAreFresh) {
  const char* const pictures[][2] = {
      {"/examples/06_where_the_time_goes/dualpipe_v.svg", "P=4 M=8 --cost F=10,I=10,W=10,FB=20"},
      {"/examples/07_mixture_of_experts/overlap.svg",
       "P=2 M=4 --costs examples/07_mixture_of_experts/costs.yaml --lanes"}};
  for (const auto& [file, options] : pictures) {
    const std::string kept = SourceFolder() + file;
    const std::string fresh = UpdatesGolden() ? kept : ScratchFolder() + "/fresh.svg";
    const std::string command = std::string("show schedules/dualpipe_v.sched ") + options;
    ASSERT_EQ(RunToolIn(SourceFolder(), Words(command + " --svg " + fresh)).status, 0) << file;
    EXPECT_EQ(ReadText(fresh), ReadText(kept)) << file;
  }
}

// Rows of boxes too narrow to tell apart become bands.
TEST(TraceTest, SvgStaysSmallForManyActions) {
  const std::string path = ScratchFolder() + "/large.svg";
  for (const char* const words :
       {"1f1b P=8 M=4000 --width 500", "zb_v P=64 M=512", "dualpipe_v P=64 M=512"}) {
    const std::string command = std::string("show ") + words + " --svg " + path;
    ASSERT_EQ(RunToolIn(SourceFolder(), Words(command)).status, 0) << words;
    const std::string svg = ReadText(path);
    ExpectBalancedXml(svg);
    EXPECT_LT(svg.size(), 1'000'000u) << words;
    EXPECT_NE(svg.find("heights: shares of time"), std::string::npos) << words;
  }
}

// Pipes have their shade and their name, and microbatches are numbered through the step.
TEST(TraceTest, SvgTellsPipesApart) {
  const std::string path = ScratchFolder() + "/pipes.svg";
  ASSERT_EQ(RunToolIn(SourceFolder(), Words("show chimera P=4 M=8 --svg " + path)).status, 0);
  const std::string svg = ReadText(path);
  EXPECT_NE(svg.find(">pipe down<"), std::string::npos);
  EXPECT_NE(svg.find(">pipe up<"), std::string::npos);
  // Each microbatch on the four stages of its pipe, forward and backward. The axis has a 0.
  for (int m = 0; m < 8; ++m) {
    EXPECT_EQ(CountOf(svg, absl::StrCat(">", m, "</text>")), m == 0 ? 9u : 8u) << m;
  }
  EXPECT_EQ(CountOf(svg, ">8</text>"), 0u);
}

// The first or the second timeline has pipes, and the other none.
TEST(TraceTest, SvgNamesThePipesOfEitherTimeline) {
  const std::string path = ScratchFolder() + "/both.svg";
  for (const char* const sides : {"1f1b chimera", "chimera 1f1b"}) {
    const std::string command = std::string("compare ") + sides + " P=4 M=8 --svg " + path;
    ASSERT_EQ(RunToolIn(SourceFolder(), Words(command)).status, 0) << sides;
    const std::string svg = ReadText(path);
    EXPECT_EQ(CountOf(svg, ">pipe down<"), 1u) << sides;
    EXPECT_EQ(CountOf(svg, ">pipe up<"), 1u) << sides;
    EXPECT_EQ(CountOf(svg, "every second stage"), 0u) << sides;
  }
}

TEST(TraceTest, SvgWithoutTitleAndColor) {
  const std::string path = ScratchFolder() + "/grey.svg";
  const auto draw = [&path](const std::string& options) {
    const std::string command = "show zb_h1 P=4 M=8 --svg " + path + options;
    EXPECT_EQ(RunToolIn(SourceFolder(), Words(command)).status, 0) << options;
    return ReadText(path);
  };
  const std::string usual = draw(""), grey = draw(" --palette grey --no-title");
  EXPECT_EQ(CountOf(usual, "font-weight='bold'"), 1u);
  EXPECT_EQ(CountOf(grey, "font-weight='bold'"), 0u);
  // Every fill and stroke has red, green and blue alike.
  for (size_t at = grey.find("'#"); at != std::string::npos; at = grey.find("'#", at + 1)) {
    const std::string color = grey.substr(at + 2, 6);
    EXPECT_TRUE(color.substr(0, 2) == color.substr(2, 2) && color.substr(2, 2) == color.substr(4))
        << color;
  }
  EXPECT_EQ(CountOf(usual, "<rect "), CountOf(grey, "<rect "));
}

// Numbers become smaller before they are left out.
TEST(TraceTest, SvgNumbersAreAsLongAsTheyCanBeRead) {
  const std::string path = ScratchFolder() + "/small.svg";
  for (const auto& [words, numbers] : {std::pair("1f1b P=4 M=8", 64u), {"1f1b P=4 M=24", 192u}}) {
    const std::string command = std::string("show ") + words + " --svg " + path;
    ASSERT_EQ(RunToolIn(SourceFolder(), Words(command)).status, 0);
    EXPECT_EQ(CountOf(ReadText(path), "text-anchor='middle' fill='#"), numbers) << words;
  }
}

// Ten columns of 10 ns.
TEST(TraceTest, BandsAreSharesOfTime) {
  const auto source = Source("x.timeline",
                             "timeline simulated x P=1 M=3\n"
                             "rank 0: 0F0@0+5 0SEND_F0@5+3 0F1@10+15 0F2@30+20&0B0@30+20\n");
  Diagnostics findings;
  const auto timeline = ReadTimeline(source, &findings);
  ASSERT_TRUE(timeline);
  const auto shares = SharesOfColumns(timeline->of(RankId(0)), 100, 10);
  const double forward[] = {0.5, 1, 0.5, 0.5, 0.5, 0, 0, 0, 0, 0};
  const double backward[] = {0, 0, 0, 0.5, 0.5, 0, 0, 0, 0, 0};
  for (size_t c = 0; c < 10; ++c) {
    EXPECT_NEAR(shares[c][0], forward[c], 1e-9) << c;
    EXPECT_NEAR(shares[c][1], backward[c], 1e-9) << c;
  }
}

TEST(TraceTest, NamesAreEscaped) {
  // A timeline's schedule may be called anything.
  const std::string folder = ScratchFolder();
  WriteText(folder + "/x.timeline",
            "timeline measured <a&\"b'\\ P=1 M=1\nrank 0: 0F0@0+1000 0B0@1000+2000\n");
  for (const char* const option : {"--svg x.svg", "--chrome x.json", "--perfetto x.pftrace"}) {
    ASSERT_EQ(RunToolIn(folder, Words(absl::StrCat("show x.timeline ", option))).status, 0);
  }
  ExpectBalancedXml(ReadText(folder + "/x.svg"));
  EXPECT_TRUE(nlohmann::json::accept(ReadText(folder + "/x.json")));
  EXPECT_EQ(DecodePerfetto(ReadText(folder + "/x.pftrace")).slices.size(), 2u);
}

TEST(TraceTest, TwoStepsStandSideBySide) {
  const std::string path = ScratchFolder() + "/two.pftrace";
  ASSERT_EQ(
      RunToolIn(SourceFolder(), Words("compare schedules/1f1b.sched schedules/zb_h1.sched P=2 "
                                      "M=3 --perfetto " +
                                      path))
          .status,
      0);
  std::set<std::string> processes;
  for (const auto& slice : DecodePerfetto(ReadText(path)).slices)
    processes.insert(std::get<0>(slice));
  EXPECT_EQ(processes,
            (std::set<std::string>{
                "rank 0: one_f_one_b P=2 M=3, simulated", "rank 0: zb_h1 P=2 M=3, simulated",
                "rank 1: one_f_one_b P=2 M=3, simulated", "rank 1: zb_h1 P=2 M=3, simulated"}));
}

}  // namespace
}  // namespace stringline
