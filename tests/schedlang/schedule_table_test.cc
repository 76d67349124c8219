// The formulas of the table of schedules/README.md, over a grid of costs, P and M.
//
// A row here holds the words of the table's cells beside their formulas, so both change together.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "schedlang/elaborate/elaborate.h"
#include "schedlang/lower/lower.h"
#include "schedlang/sim/simulate.h"
#include "schedlang/text/parse.h"

namespace stringline {
namespace {

// A step with the costs of a stage, in nanoseconds.
struct TableCase {
  int p, m;
  int64_t f, i, w, fb;
  int v = 2;
  int64_t b() const { return i + w; }
  bool equal() const { return f == i && i == w; }
  bool w_is_shortest() const { return w <= std::min(f, i); }
  bool is_even() const { return p % 2 == 0; }
};

std::string PrintCase(const TableCase& c) {
  return absl::StrCat("P=", c.p, " M=", c.m, " V=", c.v, " F=", c.f, " I=", c.i, " W=", c.w,
                      " FB=", c.fb);
}

enum class TableBubble : uint8_t {
  kIdlest,  // of the rank that is idle longest
  kSpan,    // between a rank's own start and end, beyond the most work
};

using TableHolds = bool (*)(const TableCase&);
using TableFormula = int64_t (*)(const TableCase&);

struct TableRow {
  const char* file;
  const char* bubble;
  TableBubble of;
  TableHolds bubble_holds;
  TableFormula bubble_is;
  const char* memory;
  TableHolds memory_holds;
  TableFormula memory_is;
  bool pairs = false;   // the costs of an F & B differ from F + B
  bool chunks = false;  // it has a V
  bool copies = false;  // its D and U take as long as the shorter of F and B
  int slices = 1;       // its K: costs of a case are then a slice's
};

bool HoldsAlways(const TableCase&) { return true; }
bool AreEqual(const TableCase& c) { return c.equal(); }
bool IsWhole(const TableCase& c) { return c.m % c.p == 0; }
bool NoSaving(const TableCase& c) { return c.fb == c.f + c.b(); }
int64_t ClassicBubble(const TableCase& c) { return (c.p - 1) * (c.f + c.b()); }

// The bubbles and memories that the table gives for single P.
using AtRanks = std::map<int, std::pair<int, int>>;
const AtRanks kVMin = {{4, {11, 4}}, {6, {18, 6}}, {8, {27, 8}}, {12, {42, 10}}, {16, {59, 12}}};
const AtRanks kVWhole = {
    {4, {18, 6}}, {6, {32, 10}}, {8, {43, 12}}, {12, {68, 18}}, {16, {90, 22}}};
const AtRanks kVAdaptive = {
    {4, {7, 8}}, {6, {9, 10}}, {8, {13, 12}}, {12, {21, 18}}, {16, {33, 24}}};

// -1 for any other P.
int64_t BubbleAt(const AtRanks& said, int p) {
  const auto row = said.find(p);
  return row == said.end() ? -1 : row->second.first;
}
int64_t MemoryAt(const AtRanks& said, int p) {
  const auto row = said.find(p);
  return row == said.end() ? -1 : row->second.second;
}

constexpr int kSlices = 4;

const TableRow kTable[] = {
    {"gpipe", "(P-1)(F+B)", TableBubble::kIdlest, HoldsAlways, ClassicBubble, "M", HoldsAlways,
     [](const TableCase& c) -> int64_t { return c.m; }},
    {"1f1b", "(P-1)(F+B)", TableBubble::kIdlest, HoldsAlways, ClassicBubble, "P", HoldsAlways,
     [](const TableCase& c) -> int64_t { return c.p; }},
    {"1f1b_offload", "(P-1)(F+B), if D and U take at most F and B", TableBubble::kIdlest,
     HoldsAlways, ClassicBubble, "3, from P = 3 on", [](const TableCase& c) { return c.p >= 3; },
     [](const TableCase&) -> int64_t { return 3; }, false, false, true},
    {"mario", "(P-1)(F+B)-2F, and on the last rank M F more, if P > 1 and F <= B",
     TableBubble::kIdlest, [](const TableCase& c) { return c.p > 1 && c.f <= c.b(); },
     [](const TableCase& c) { return ClassicBubble(c) - 2 * c.f + c.m * c.f; },
     "P, of which all but one are only what entered", HoldsAlways,
     [](const TableCase& c) -> int64_t { return c.p; }},
    {"bpipe", "(P-1)(F+B), if EVICT and LOAD take no time", TableBubble::kIdlest, HoldsAlways,
     ClassicBubble, "P/2+1, rounded up, if P > 1", [](const TableCase& c) { return c.p > 1; },
     [](const TableCase& c) -> int64_t { return (c.p + 3) / 2; }},
    {"vocab_1f1b", "(P-1)(F+B), if F = I = W, P is at most 5 and the shares take no time",
     TableBubble::kIdlest, [](const TableCase& c) { return c.equal() && c.p <= 5; }, ClassicBubble,
     "P+1", HoldsAlways, [](const TableCase& c) -> int64_t { return c.p + 1; }},
    {"pipedream_2bw", "(P-1)(F+B), once for all steps", TableBubble::kIdlest, HoldsAlways,
     ClassicBubble, "P, and weights twice", HoldsAlways,
     [](const TableCase& c) -> int64_t { return c.p; }},
    {"pipedream", "(P-1)(F+B), once for all steps", TableBubble::kIdlest, HoldsAlways,
     ClassicBubble, "P, and weights (P-1)/M times, rounded up, and once", HoldsAlways,
     [](const TableCase& c) -> int64_t { return c.p; }},
    {"eager_1f1b", "(P-1)(F+I)", TableBubble::kIdlest, HoldsAlways,
     [](const TableCase& c) { return (c.p - 1) * (c.f + c.i); }, "2P-1", HoldsAlways,
     [](const TableCase& c) -> int64_t { return 2 * c.p - 1; }},
    {"kfkb", "(P-1)(F+B)", TableBubble::kIdlest, HoldsAlways, ClassicBubble, "k P", HoldsAlways,
     [](const TableCase& c) -> int64_t { return 2 * c.p; }},
    {"two_bp", "(P-1)(F+I-W), if W is the shortest", TableBubble::kIdlest,
     [](const TableCase& c) { return c.w_is_shortest(); },
     [](const TableCase& c) { return (c.p - 1) * (c.f + c.i - c.w); }, "M", HoldsAlways,
     [](const TableCase& c) -> int64_t { return c.m; }},
    {"ooo_backprop", "(P-1)(F+I), of stages V times smaller", TableBubble::kIdlest, HoldsAlways,
     [](const TableCase& c) { return (c.p - 1) * (c.f + c.i); }, "V M", HoldsAlways,
     [](const TableCase& c) -> int64_t { return c.v * c.m; }, false, true},
    {"circular", "(P-1)(F+B), of stages V times smaller", TableBubble::kIdlest, HoldsAlways,
     ClassicBubble, "V M", HoldsAlways, [](const TableCase& c) -> int64_t { return c.v * c.m; },
     false, true},
    {"llama3", "(P-1)(F+B), of stages V times smaller", TableBubble::kIdlest, HoldsAlways,
     ClassicBubble, "P(V+1)-1, if P divides M", IsWhole,
     [](const TableCase& c) -> int64_t { return c.p * (c.v + 1) - 1; }, false, true},
    {"bitpipe", "(P/2-1)(F+B), if F = B and P divides M", TableBubble::kIdlest,
     [](const TableCase& c) { return c.f == c.b() && c.is_even() && IsWhole(c); },
     [](const TableCase& c) { return (c.p / 2 - 1) * (c.f + c.b()); }, "2P", HoldsAlways,
     [](const TableCase& c) -> int64_t { return 2 * c.p; }},
    {"gems", "(P-1)(F+B)+(M-1)(P-1) max(F, B)", TableBubble::kIdlest, HoldsAlways,
     [](const TableCase& c) {
       return ClassicBubble(c) + (c.m - 1) * (c.p - 1) * std::max(c.f, c.b());
     },
     "1", HoldsAlways, [](const TableCase&) -> int64_t { return 1; }},
    {"terapipe", "(P-1)(F+B)/K", TableBubble::kIdlest, HoldsAlways, ClassicBubble, "M", HoldsAlways,
     [](const TableCase& c) -> int64_t { return c.m * kSlices; }, false, false, false, kSlices},
    {"seq1f1b", "(P-1)(F+B)/K", TableBubble::kIdlest, HoldsAlways, ClassicBubble, "(P+K-1)/K",
     HoldsAlways, [](const TableCase& c) -> int64_t { return c.p + kSlices - 1; }, false, false,
     false, kSlices},
    {"svpp", "(P-1)(F+B)/K, of stages V times smaller", TableBubble::kIdlest, HoldsAlways,
     ClassicBubble, "(V max(P, K) + min(P, K) - 1)/K", HoldsAlways,
     [](const TableCase& c) -> int64_t {
       return c.v * std::max(c.p, kSlices) + std::min(c.p, kSlices) - 1;
     },
     false, true, false, kSlices},
    {"slimpipe", "(P-1)(F+B)/K, of stages V times smaller", TableBubble::kIdlest, HoldsAlways,
     ClassicBubble, "V+2(P-1)/K", HoldsAlways,
     [](const TableCase& c) -> int64_t { return c.v * kSlices + 2 * (c.p - 1); }, false, true,
     false, kSlices},
    {"inference", "(P-1)F/K", TableBubble::kIdlest, HoldsAlways,
     [](const TableCase& c) { return (c.p - 1) * c.f; }, "0", HoldsAlways,
     [](const TableCase&) -> int64_t { return 0; }, false, false, false, kSlices},
    {"looped_bfs", "(P-1)(F+B), of stages V times smaller", TableBubble::kIdlest, HoldsAlways,
     ClassicBubble, "V M", HoldsAlways, [](const TableCase& c) -> int64_t { return c.v * c.m; },
     false, true},
    {"interleaved", "(P-1)(F+B), of stages V times smaller", TableBubble::kIdlest, HoldsAlways,
     ClassicBubble, "P(V+1)-1", HoldsAlways,
     [](const TableCase& c) -> int64_t { return c.p * (c.v + 1) - 1; }, false, true},
    {"interleaved_zb", "(P-1)F, if F = I = W and V = 2", TableBubble::kIdlest,
     [](const TableCase& c) { return c.equal() && c.v == 2; },
     [](const TableCase& c) { return (c.p - 1) * c.f; }, "V P, if P divides M", IsWhole,
     [](const TableCase& c) -> int64_t { return c.v * c.p; }, false, true},
    {"megatron_combined", "that of `interleaved`, if FB = F+B", TableBubble::kIdlest, NoSaving,
     ClassicBubble, "P(V+1)", HoldsAlways,
     [](const TableCase& c) -> int64_t { return c.p * (c.v + 1); }, true, true},
    {"kimi_k2", "2(P-1)F, if F = I = W, lag = 1 and V = 2", TableBubble::kIdlest,
     [](const TableCase& c) { return c.equal() && c.v == 2; },
     [](const TableCase& c) { return 2 * (c.p - 1) * c.f; }, "P(V+1)+1, for lag = 1", HoldsAlways,
     [](const TableCase& c) -> int64_t { return c.p * (c.v + 1) + 1; }, false, true},
    {"gis", "2(P-1)F, if F = I = W, V = 2 and G = P", TableBubble::kIdlest,
     [](const TableCase& c) { return c.equal() && c.v == 2; },
     [](const TableCase& c) { return 2 * (c.p - 1) * c.f; }, "P+(V-1)G", HoldsAlways,
     [](const TableCase& c) -> int64_t { return c.p + (c.v - 1) * c.p; }, false, true},
    {"zb_h1", "(P-1)(F+I-W), if W is the shortest", TableBubble::kIdlest,
     [](const TableCase& c) { return c.w_is_shortest(); },
     [](const TableCase& c) { return (c.p - 1) * (c.f + c.i - c.w); }, "P", HoldsAlways,
     [](const TableCase& c) -> int64_t { return c.p; }},
    {"zb_h2", "span (P-1)(F+I-2W), if W is the shortest", TableBubble::kSpan,
     [](const TableCase& c) { return c.w_is_shortest(); },
     [](const TableCase& c) { return (c.p - 1) * (c.f + c.i - 2 * c.w); }, "2P-1", HoldsAlways,
     [](const TableCase& c) -> int64_t { return 2 * c.p - 1; }},
    {"zb_v", "span 0, else (P-1)F, if F = I = W", TableBubble::kSpan, AreEqual,
     [](const TableCase&) -> int64_t { return 0; }, "2P", HoldsAlways,
     [](const TableCase& c) -> int64_t { return 2 * c.p; }},
    {"zb_v", "span 0, else (P-1)F, if F = I = W", TableBubble::kIdlest, AreEqual,
     [](const TableCase& c) { return (c.p - 1) * c.f; }, "2P", HoldsAlways,
     [](const TableCase& c) -> int64_t { return 2 * c.p; }},
    {"dualpipe_v", "(P-1)(FB+B-3W), if F = I = W and B <= FB <= F+B", TableBubble::kIdlest,
     AreEqual, [](const TableCase& c) { return (c.p - 1) * (c.fb + c.b() - 3 * c.w); }, "2P+1",
     HoldsAlways, [](const TableCase& c) -> int64_t { return 2 * c.p + 1; }, true},
    {"v_half", "3P-7 F, if F = I = W and P is even, from 4 on", TableBubble::kIdlest,
     [](const TableCase& c) { return c.equal() && c.is_even() && c.p >= 4; },
     [](const TableCase& c) { return (3 * c.p - 7) * c.f; }, "P+2, if P is even",
     [](const TableCase& c) { return c.is_even(); },
     [](const TableCase& c) -> int64_t { return c.p + 2; }},
    {"v_min", "11, 18, 27, 42, 59 F for P = 4, 6, 8, 12, 16, if F = I = W", TableBubble::kIdlest,
     [](const TableCase& c) { return c.equal() && BubbleAt(kVMin, c.p) >= 0; },
     [](const TableCase& c) { return BubbleAt(kVMin, c.p) * c.f; }, "4, 6, 8, 10, 12 for these",
     [](const TableCase& c) { return MemoryAt(kVMin, c.p) >= 0; },
     [](const TableCase& c) { return MemoryAt(kVMin, c.p); }},
    {"v_adaptive", "7, 9, 13, 21, 33 F for these P, if F = I = W and wide = P/2",
     TableBubble::kIdlest,
     [](const TableCase& c) { return c.equal() && BubbleAt(kVAdaptive, c.p) >= 0; },
     [](const TableCase& c) { return BubbleAt(kVAdaptive, c.p) * c.f; },
     "8, 10, 12, 18, 24 for these",
     [](const TableCase& c) { return MemoryAt(kVAdaptive, c.p) >= 0; },
     [](const TableCase& c) { return MemoryAt(kVAdaptive, c.p); }},
    {"v_1f1b", "18, 32, 43, 68, 90 F for these P, if B = 2F", TableBubble::kIdlest,
     [](const TableCase& c) { return c.b() == 2 * c.f && BubbleAt(kVWhole, c.p) >= 0; },
     [](const TableCase& c) { return BubbleAt(kVWhole, c.p) * c.f; }, "6, 10, 12, 18, 22 for these",
     [](const TableCase& c) { return MemoryAt(kVWhole, c.p) >= 0; },
     [](const TableCase& c) { return MemoryAt(kVWhole, c.p); }},
    {"hanayo", "2(P-1)B, if B = 2F, waves = 1 and M = P", TableBubble::kIdlest,
     [](const TableCase& c) { return c.b() == 2 * c.f && c.m == c.p; },
     [](const TableCase& c) { return 2 * (c.p - 1) * c.b(); }, "2 waves M at most", HoldsAlways,
     nullptr},
    {"chimera", "(P/2-1)(F+B), if F = B and P divides M", TableBubble::kIdlest,
     [](const TableCase& c) { return c.f == c.b() && c.is_even() && IsWhole(c); },
     [](const TableCase& c) { return (c.p / 2 - 1) * (c.f + c.b()); }, "P", HoldsAlways,
     [](const TableCase& c) -> int64_t { return c.p; }},
    {"dualpipe", "(P/2-1)(FB+B-3W), if F = I = W and B <= FB <= F+B", TableBubble::kIdlest,
     AreEqual, [](const TableCase& c) { return (c.p / 2 - 1) * (c.fb + c.b() - 3 * c.w); }, "P+1",
     HoldsAlways, [](const TableCase& c) -> int64_t { return c.p + 1; }, true},
};

// The cells of a row of the table: file, stages, for what, bubble, memory.
std::map<std::string, std::vector<std::string>> CellsOfReadme() {
  std::map<std::string, std::vector<std::string>> rows;
  const absl::StatusOr<Source> readme = ReadSource(STRINGLINE_SOURCE_DIR "/schedules/README.md");
  EXPECT_TRUE(readme.ok()) << readme.status();
  for (const absl::string_view line : absl::StrSplit(readme->text(), '\n')) {
    if (!absl::StartsWith(line, "| `")) continue;
    const absl::string_view inside = absl::StripSuffix(absl::StripPrefix(line, "| "), " |");
    std::vector<std::string> cells = absl::StrSplit(inside, " | ");
    const std::string file = cells[0].substr(1, cells[0].find(".sched") - 1);
    rows[file] = std::move(cells);
  }
  return rows;
}

// Nothing if the schedule refuses this P and M.
std::optional<Bubbles> TableStep(const TableRow& row, const TableCase& c) {
  const auto source =
      ReadSource(absl::StrCat(STRINGLINE_SOURCE_DIR "/schedules/", row.file, ".sched"));
  EXPECT_TRUE(source.ok()) << source.status();
  Diagnostics diagnostics;
  const auto file = Parse(*source, &diagnostics);
  std::vector<Parameter> parameters = {{"P", c.p}, {"M", c.m}};
  if (row.chunks) parameters.push_back({"V", c.v});
  if (row.slices > 1) parameters.push_back({"K", row.slices});
  const auto plan = Elaborate(*file, "", parameters, &diagnostics);
  if (!plan) return std::nullopt;
  const Plan lowered = Lower(*plan);
  CostSpec spec{
      {{"F", {c.f}}, {"I", {c.i}}, {"W", {c.w}}, {"B", {c.b()}}, {"FB", {c.fb}}, {"p2p", {0}}}};
  for (auto& [key, values] : spec.values) values[0] *= row.slices;
  // Own actions take no time.
  for (const OwnAction& own : plan->rows.actions) spec.values[own.name] = {0};
  if (row.copies) spec.values["D"] = spec.values["U"] = {std::min(c.f, c.b())};
  return MeasureBubbles(*Simulate(lowered, *ResolveCosts(spec, lowered)));
}

std::vector<TableCase> GridOf(const TableRow& row) {
  const int64_t costs[][3] = {{10, 10, 10}, {10, 12, 7}, {10, 8, 13},  {4, 15, 10}, {3, 7, 2},
                              {7, 3, 2},    {2, 3, 7},   {20, 10, 10}, {10, 3, 7},  {10, 5, 15}};
  std::vector<TableCase> grid;
  for (const int p : {1, 2, 3, 4, 5, 6, 8, 12, 16}) {
    for (const int m : {p, 2 * p, 2 * p + 1, 2 * p + 2, 3 * p, 4 * p}) {
      if (p > 8 && m != 2 * p && m != 3 * p) continue;
      // The table's formulas hold for at least 2 P microbatches; hanayo's needs P.
      if ((m < 2 * p) != (std::string(row.file) == "hanayo")) continue;
      for (const auto& [f, i, w] : costs) {
        for (const int v : {2, 3}) {
          if (v > 2 && !row.chunks) continue;
          const int64_t all = f + i + w;
          grid.push_back({p, m, f, i, w, all, v});
          for (const int64_t fb : {i + w, all * 8 / 10}) {
            if (row.pairs) grid.push_back({p, m, f, i, w, fb, v});
          }
        }
      }
    }
  }
  return grid;
}

TEST(ScheduleTable, EveryFormulaHoldsWhereTheTableSaysSo) {
  for (const TableRow& row : kTable) {
    int bubbles = 0, memories = 0;
    for (const TableCase& c : GridOf(row)) {
      const bool judges_bubble = row.bubble_holds(c);
      const bool judges_memory = row.memory_is != nullptr && row.memory_holds(c);
      if (!judges_bubble && !judges_memory) continue;
      const std::optional<Bubbles> step = TableStep(row, c);
      if (!step) continue;
      int64_t idlest = 0, most_work = 0;
      int peak = 0;
      for (const Bubbles::Rank& rank : step->ranks) {
        idlest = std::max(idlest, rank.idle_ns);
        most_work = std::max(most_work, rank.busy_ns);
        peak = std::max(peak, rank.peak_activations);
      }
      const int64_t bubble = row.of == TableBubble::kIdlest ? idlest : step->span_ns - most_work;
      if (judges_bubble) {
        EXPECT_EQ(bubble, row.bubble_is(c)) << row.file << " " << PrintCase(c);
      }
      if (judges_memory) {
        EXPECT_EQ(peak, row.memory_is(c)) << row.file << " " << PrintCase(c);
      }
      if (row.memory_is == nullptr) {
        EXPECT_LE(peak, 2 * c.m) << row.file << " " << PrintCase(c);
      }
      bubbles += judges_bubble ? 1 : 0;
      memories += judges_memory ? 1 : 0;
    }
    EXPECT_GE(bubbles, 4) << row.file;
    if (row.memory_is != nullptr) {
      EXPECT_GE(memories, 4) << row.file;
    }
  }
}

Plan LoweredAt(const std::string& name, int p, int m) {
  const auto source = ReadSource(absl::StrCat(STRINGLINE_SOURCE_DIR "/schedules/", name, ".sched"));
  Diagnostics diagnostics;
  const auto file = Parse(*source, &diagnostics);
  return Lower(*Elaborate(*file, "", {{"P", p}, {"M", m}}, &diagnostics));
}

// The output layer takes a quarter of a stage on every rank. Cut over all ranks it costs its share,
// and 1F1B's bubble beside; on the last rank alone every other rank waits for it.
TEST(ScheduleTable, ASharedVocabularyCostsItsShare) {
  for (const int p : {2, 4, 8, 16}) {
    const int m = 4 * p;
    const Plan shared = LoweredAt("vocab_1f1b", p, m);
    CostSpec spec{{{"F", {4}}, {"B", {8}}, {"S", {1}}, {"T", {1}}}};
    for (const char* const free : {"IN", "SUM", "CAST", "GRAD", "BACK", "OUT"}) {
      spec.values[free] = {0};
    }
    const int64_t takes_ns = MakespanOf(*Simulate(shared, *ResolveCosts(spec, shared)));
    EXPECT_NEAR(takes_ns, (p - 1) * 12 + m * 14, 0.01 * m * 14) << p;
    const Plan alone = LoweredAt("1f1b", p, m);
    CostSpec last{{{"F", std::vector<int64_t>(p, 4)}, {"B", std::vector<int64_t>(p, 8)}}};
    last.values["F"].back() += p;
    last.values["B"].back() += p;
    const int64_t alone_ns = MakespanOf(*Simulate(alone, *ResolveCosts(last, alone)));
    EXPECT_GE(alone_ns, m * (12 + 2 * p)) << p;
    EXPECT_GT(alone_ns, takes_ns * (p >= 4 ? 12 : 10) / 10) << p;
  }
}

TEST(ScheduleTable, HasTheseWords) {
  std::map<std::string, std::vector<std::string>> readme = CellsOfReadme();
  std::map<std::string, int> judged;
  for (const TableRow& row : kTable) {
    ++judged[row.file];
    const std::vector<std::string>& cells = readme[row.file];
    ASSERT_EQ(cells.size(), 5u) << row.file;
    EXPECT_EQ(cells[3], row.bubble) << row.file;
    EXPECT_EQ(cells[4], row.memory) << row.file;
  }
  for (const auto& [file, cells] : readme) EXPECT_GE(judged[file], 1) << file;
}

}  // namespace
}  // namespace stringline
