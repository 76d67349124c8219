// The library's schedules, simulated, against the numbers their papers and authors give.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "schedlang/check/check.h"
#include "schedlang/elaborate/elaborate.h"
#include "schedlang/lower/lower.h"
#include "schedlang/plan/check_overlap.h"
#include "schedlang/sim/simulate.h"
#include "schedlang/text/parse.h"
#include "tests/schedlang/elaborated.h"

namespace stringline {
namespace {

// Costs in microseconds: forward, input gradient, weight gradient, latency; and of an F & B.
struct Costs {
  int64_t f, i, w;
  int64_t hop = 0;
  int64_t fb = 0;  // 0: the sum of its parts
  int64_t all() const { return f + i + w; }
};

Plan LibraryPlan(const std::string& name, int p, int m, const std::vector<Parameter>& options) {
  auto source = ReadSource(std::string(STRINGLINE_SOURCE_DIR "/schedules/") + name + ".sched");
  EXPECT_TRUE(source.ok()) << source.status();
  Diagnostics diagnostics;
  const auto file = Parse(*source, &diagnostics);
  EXPECT_TRUE(file) << Render(diagnostics, *source);
  std::vector<Parameter> parameters = {{"P", p}, {"M", m}};
  parameters.insert(parameters.end(), options.begin(), options.end());
  auto plan = Elaborate(*file, "", parameters, &diagnostics);
  EXPECT_TRUE(plan) << Render(diagnostics, *source);
  const Plan lowered = Lower(*plan);
  EXPECT_TRUE(Check(lowered, &diagnostics)) << Render(diagnostics, *source);
  return lowered;
}

// In microseconds.
struct Result {
  int64_t makespan, span, idlest;  // idlest: the longest bubble of a rank
  std::vector<int> peaks;
  int peak() const { return *std::max_element(peaks.begin(), peaks.end()); }
};

Result SimulateLibrary(const std::string& name, int p, int m, const Costs& costs,
                       const std::vector<Parameter>& options = {}) {
  const Plan plan = LibraryPlan(name, p, m, options);
  CostSpec spec{{{"F", {costs.f * 1000}},
                 {"I", {costs.i * 1000}},
                 {"W", {costs.w * 1000}},
                 {"p2p", {costs.hop * 1000}}}};
  if (costs.fb) spec.values["FB"] = {costs.fb * 1000};
  for (const OwnAction& own : plan.rows.actions) spec.values[own.name] = {0};
  const Bubbles bubbles = MeasureBubbles(*Simulate(plan, *ResolveCosts(spec, plan)));
  Result result{bubbles.makespan_ns / 1000, bubbles.span_ns / 1000, 0, {}};
  for (const Bubbles::Rank& rank : bubbles.ranks) {
    result.idlest = std::max(result.idlest, rank.idle_ns / 1000);
    result.peaks.push_back(rank.peak_activations);
  }
  return result;
}

// Zero Bubble (ICLR 2024), table of bubble rates: 1F1B and ZB-H1 count the makespan, ZB-H2 the
// span.
struct ZeroBubbleRow {
  int p, m;
  Costs costs;
  int64_t one_f_one_b, zb_h1, zb_h2;
};

const ZeroBubbleRow kZeroBubble[] = {
    {8, 24, {18522, 18086, 9337, 601}, 1456749, 1310405, 1236632},
    {8, 32, {18513, 18086, 9331, 626}, 1833838, 1678164, 1604083},
    {8, 64, {18546, 18097, 9321, 762}, 3357932, 3154286, 3078371},
    {8, 24, {29718, 29444, 19927, 527}, 2480217, 2187537, 2040670},
    {8, 32, {29802, 29428, 19530, 577}, 3110876, 2814376, 2669588},
    {8, 64, {29935, 29621, 19388, 535}, 5671364, 5348572, 5205366},
    {16, 48, {11347, 11248, 8132, 377}, 1980287, 1714461, 1581171},
    {16, 64, {11307, 11254, 8101, 379}, 2478390, 2202008, 2069123},
    {16, 128, {11325, 11308, 8109, 378}, 4497410, 4175516, 4042541},
    {32, 96, {10419, 10207, 7715, 408}, 3699675, 3171569, 2907108},
    {32, 128, {10408, 10204, 7703, 408}, 4627749, 4075091, 3811002},
    {32, 256, {10402, 10248, 7698, 460}, 8391636, 7715640, 7448482},
};

TEST(Published, ZeroBubbleTable) {
  for (const ZeroBubbleRow& row : kZeroBubble) {
    EXPECT_EQ(SimulateLibrary("1f1b", row.p, row.m, row.costs).makespan, row.one_f_one_b);
    EXPECT_EQ(SimulateLibrary("zb_h1", row.p, row.m, row.costs).makespan, row.zb_h1);
    EXPECT_EQ(SimulateLibrary("zb_h2", row.p, row.m, row.costs).span, row.zb_h2);
  }
}

const int kRanks[] = {2, 4, 8, 16};
const Costs kAnyCosts[] = {{10, 12, 7}, {10, 8, 13}, {5, 5, 5}, {3, 7, 2}};

TEST(Published, GPipeClosedForm) {
  for (int p : kRanks) {
    for (int m : {1, p, 2 * p + 1}) {
      for (Costs c : kAnyCosts) {
        c.hop = 2;
        const Result r = SimulateLibrary("gpipe", p, m, c);
        EXPECT_EQ(r.makespan, (m + p - 1) * c.all() + 2 * (p - 1) * c.hop) << p << " " << m;
        EXPECT_EQ(r.peak(), m);
      }
    }
  }
}

TEST(Published, OneFOneBClosedForm) {
  for (int p : kRanks) {
    for (int m : {p, 2 * p, 4 * p}) {
      for (Costs c : kAnyCosts) {
        c.hop = 1;
        const int64_t latency = c.hop * (2 * (p - 1) * m / p + 2 * (p - 2));
        // The formula holds only while the latency is small against the work.
        for (int64_t* cost : {&c.f, &c.i, &c.w}) *cost *= 100;
        const Result r = SimulateLibrary("1f1b", p, m, c);
        EXPECT_EQ(r.makespan, (m + p - 1) * c.all() + latency) << p << " " << m;
        for (int rank = 0; rank < p; ++rank) EXPECT_EQ(r.peaks[rank], std::min(p - rank, m));
      }
    }
  }
}

TEST(Published, ZbH1ClosedForm) {
  for (int p : kRanks) {
    for (int m : {2 * p, 4 * p}) {
      for (Costs c : kAnyCosts) {
        const int64_t work = m * c.all();
        const Result r = SimulateLibrary("zb_h1", p, m, c);
        EXPECT_EQ(r.makespan, work + (p - 1) * std::max(c.f + c.i - c.w, c.f)) << p << " " << m;
        EXPECT_EQ(r.span, work + (p - 1) * std::max(c.f + c.i - c.w, c.i)) << p << " " << m;
        for (int peak : r.peaks) EXPECT_EQ(peak, p);
        if (c.w > std::min(c.f, c.i)) continue;
        c = {100 * c.f, 100 * c.i, 100 * c.w, 1};
        EXPECT_EQ(SimulateLibrary("zb_h1", p, m, c).makespan,
                  100 * work + (p - 1) * (c.f + c.i - c.w) + 4 * (p - 1) * c.hop)
            << p << " " << m;
      }
    }
  }
}

TEST(Published, ZbH2ClosedForm) {
  for (int p : kRanks) {
    for (int m : {2 * p, 4 * p}) {
      for (const Costs& c : kAnyCosts) {
        const Result r = SimulateLibrary("zb_h2", p, m, c);
        EXPECT_EQ(r.peak(), 2 * p - 1);
        if (c.w <= std::min(c.f, c.i)) {
          EXPECT_EQ(r.span, m * c.all() + (p - 1) * std::max<int64_t>(0, c.f + c.i - 2 * c.w));
        }
      }
    }
  }
}

TEST(Published, ZbVClosedForm) {
  for (int p : kRanks) {
    for (int m : {2 * p - 1, 2 * p, 4 * p}) {
      const Costs c{5, 5, 5};
      const Result r = SimulateLibrary("zb_v", p, m, c);
      EXPECT_EQ(r.span, 2 * m * c.all()) << p << " " << m;
      EXPECT_EQ(r.makespan, 2 * m * c.all() + (p - 1) * c.f) << p << " " << m;
      EXPECT_EQ(r.peak(), 2 * p);
    }
  }
  struct Row {
    int p;
    Costs costs;
    int64_t span_bubble, makespan_bubble;
  };
  const Row rows[] = {{4, {10, 12, 7}, 30, 36},
                      {8, {10, 12, 7}, 70, 84},
                      {4, {10, 8, 13}, 6, 36},
                      {8, {10, 8, 13}, 18, 88}};
  for (const Row& row : rows) {
    const int m = 2 * row.p;
    const Result r = SimulateLibrary("zb_v", row.p, m, row.costs);
    EXPECT_EQ(r.span - 2 * m * row.costs.all(), row.span_bubble) << row.p;
    EXPECT_EQ(r.makespan - 2 * m * row.costs.all(), row.makespan_bubble) << row.p;
  }
}

TEST(Published, DualPipeVBubbleAndPeak) {
  for (int p : kRanks) {
    for (int m : {2 * p, 2 * p + 3, 4 * p}) {
      for (int64_t fb : {3000, 2500, 2000}) {
        const Costs c{1000, 1000, 1000, 0, fb};
        const Result r = SimulateLibrary("dualpipe_v", p, m, c);
        // (P - 1) (FB + B - 3 W) with B the whole backward: the bubble of the idlest rank.
        EXPECT_EQ(r.idlest, (p - 1) * (fb + c.i + c.w - 3 * c.w)) << p << " " << m << " " << fb;
        EXPECT_EQ(r.peak(), 2 * p + 1);
      }
    }
  }
}

TEST(Published, InterleavedAndCombinedAgainstDualPipeV) {
  struct Row {
    int p, m;
    int64_t interleaved, combined, dualpipe_v;
    int interleaved_peak;
  };
  const Row rows[] = {{4, 8, 57000, 51500, 49000, 11},
                      {4, 16, 105000, 91500, 89000, 11},
                      {8, 16, 117000, 105500, 99000, 23},
                      {8, 32, 213000, 185500, 179000, 23}};
  const Costs c{1000, 1000, 1000, 0, 2500};
  for (const Row& row : rows) {
    const Result r = SimulateLibrary("interleaved", row.p, row.m, c);
    EXPECT_EQ(r.makespan, row.interleaved);
    EXPECT_EQ(r.peak(), row.interleaved_peak);
    for (int rank = 0; rank < row.p; ++rank) {
      EXPECT_EQ(r.peaks[rank], 2 * (row.p - 1 - rank) + row.p + 1);
    }
    const Result combined = SimulateLibrary("megatron_combined", row.p, row.m, c);
    EXPECT_EQ(combined.makespan, row.combined);
    EXPECT_EQ(combined.peak(), row.interleaved_peak + 1);
    EXPECT_EQ(SimulateLibrary("dualpipe_v", row.p, row.m, c).makespan, row.dualpipe_v);
  }
}

// The bubbles and peaks of schedules/README.md for two stages a rank and F = I = W.
TEST(Published, TwoStagesARankAtUnitCosts) {
  const Costs c{1, 1, 1};
  for (int p : kRanks) {
    const auto run = [&](const char* name) { return SimulateLibrary(name, p, 4 * p, c); };
    EXPECT_EQ(run("looped_bfs").idlest, (p - 1) * 3);
    EXPECT_EQ(run("looped_bfs").peak(), 2 * 4 * p);
    EXPECT_EQ(run("interleaved").idlest, (p - 1) * 3);
    EXPECT_EQ(run("interleaved").peak(), 3 * p - 1);
    EXPECT_EQ(run("interleaved_zb").idlest, p - 1);
    EXPECT_EQ(run("interleaved_zb").peak(), 2 * p);
    EXPECT_EQ(run("megatron_combined").idlest, (p - 1) * 3);
    EXPECT_EQ(run("megatron_combined").peak(), 3 * p);
    EXPECT_EQ(run("kimi_k2").idlest, (p - 1) * 2);
    EXPECT_EQ(run("kimi_k2").peak(), 3 * p + 1);
  }
}

// The same table's interleaved column, with all dependencies: V chunks a rank, costs / V.
TEST(Published, InterleavedRates) {
  const int kChunks[] = {3, 3, 3, 4, 4, 4, 3, 3, 3, 2, 2, 2};
  const double kRates[] = {.1090, .0847, .0461, .0827, .0644, .0328,
                           .1136, .0878, .0459, .1528, .1192, .0641};
  for (size_t i = 0; i < std::size(kZeroBubble); ++i) {
    const ZeroBubbleRow& row = kZeroBubble[i];
    const int v = kChunks[i];
    // In thousandths, so that the cost of a chunk is nearly a whole number.
    const Costs c{row.costs.f * 1000 / v, row.costs.i * 1000 / v, row.costs.w * 1000 / v,
                  row.costs.hop * 1000};
    const Result r = SimulateLibrary("interleaved", row.p, row.m, c, {{"V", v}});
    const double work = static_cast<double>(row.m) * static_cast<double>(c.all() * v);
    EXPECT_NEAR(1 - work / static_cast<double>(r.makespan), kRates[i], 0.00006) << i;
  }
}

// Zero Bubble (arXiv, first version): costs of a chunk, ZB-V in span.
TEST(Published, ZbVOnMeasuredCosts) {
  struct Row {
    int p, m;
    Costs costs;
    int64_t span;
  };
  const Row rows[] = {{16, 48, {14407, 14380, 9676, 1610}, 3969197},
                      {16, 64, {14412, 14393, 9688, 1621}, 5204741},
                      {24, 72, {6763, 6969, 5251, 755}, 2919856},
                      {32, 96, {9458, 9748, 7288, 879}, 5407444}};
  for (const Row& row : rows) {
    const Result r = SimulateLibrary("zb_v", row.p, row.m, row.costs);
    // The table's order was searched for, ours is the paper's by hand: 0.2 % apart.
    EXPECT_NEAR(static_cast<double>(r.span) / static_cast<double>(row.span), 1, 0.002) << row.p;
  }
}

// Controllable memory (NeurIPS 2024): bubbles at unit costs, and peaks in stage activations.
TEST(Published, VHalfAndVMin) {
  struct Row {
    int p, v_half, v_min, v_min_peak;
  };
  const Row rows[] = {
      {4, 5, 11, 4}, {6, 11, 17, 6}, {8, 17, 27, 8}, {12, 29, 41, 10}, {16, 41, 59, 12}};
  const Costs c{1, 1, 1};
  for (const Row& row : rows) {
    for (int m : {2 * row.p, 3 * row.p + 1, 4 * row.p}) {
      const Result half = SimulateLibrary("v_half", row.p, m, c);
      EXPECT_EQ(half.makespan - 6 * m, row.v_half) << row.p << " " << m;
      EXPECT_EQ(half.span, half.makespan);
      EXPECT_EQ(half.peak(), row.p + 2);
      const Result least = SimulateLibrary("v_min", row.p, m, c);
      EXPECT_GE(least.makespan - 6 * m, row.v_min) << row.p << " " << m;
      EXPECT_LE(least.makespan - 6 * m, row.v_min + 1) << row.p << " " << m;
      EXPECT_EQ(least.peak(), row.v_min_peak);
    }
  }
}

// Chimera (SC 2021) by slots, with Bf the whole backward: the closed form of the concatenated
// units.
TEST(Published, ChimeraBubbleAndPeak) {
  for (int p : {2, 4, 8, 16}) {
    for (int units : {1, 2, 3}) {
      for (const Costs& c : {Costs{1, 1, 1}, Costs{2, 1, 1}, Costs{10, 12, 7}}) {
        const int m = p * units;
        const int64_t whole = c.i + c.w;
        const int64_t bubble =
            (p / 2 - 1) * (c.f + whole) + (p / 2 - 1) * (whole - c.f) * (2 * units - 1);
        const Result r = SimulateLibrary("chimera", p, m, c);
        EXPECT_EQ(r.makespan - m * c.all(), bubble) << p << " " << m;
        EXPECT_LE(r.peak(), p);
        EXPECT_EQ(*std::min_element(r.peaks.begin(), r.peaks.end()), p / 2 + 1) << p << " " << m;
      }
    }
  }
}

// DualPipe's table: (P / 2 - 1) (FB + B - 3 W) and P + 1 activations.
TEST(Published, DualPipeBubbleAndPeak) {
  for (int p : {2, 4, 8, 16}) {
    for (int m : {2 * p, 2 * p + 4, 4 * p}) {
      for (int64_t fb : {3000, 2500, 2000}) {
        const Result r = SimulateLibrary("dualpipe", p, m, {1000, 1000, 1000, 0, fb});
        EXPECT_EQ(r.idlest, (p / 2 - 1) * (fb + 2000 - 3000)) << p << " " << m << " " << fb;
        EXPECT_EQ(r.peak(), p + 1) << p << " " << m;
      }
    }
  }
}

// Hanayo by its rule, at F = 1 and B = 2: the makespans of the greedy order.
TEST(Published, HanayoMakespans) {
  struct Row {
    int p, waves;
    int64_t makespan;
  };
  const Row rows[] = {{4, 1, 36}, {4, 2, 61}, {4, 4, 109}, {8, 1, 76}, {8, 2, 126}, {8, 4, 222}};
  for (const Row& row : rows) {
    const Result r = SimulateLibrary("hanayo", row.p, row.p, {1, 1, 1}, {{"waves", row.waves}});
    EXPECT_EQ(r.makespan, row.makespan) << row.p << " " << row.waves;
  }
}

// Group-interleaved (PipeOffload): 2 (P - 1) idle slots with groups of P.
TEST(Published, GroupInterleaved) {
  for (int p : {2, 4, 5, 8, 16}) {
    const Result r = SimulateLibrary("gis", p, 4 * p, {1, 1, 1});
    EXPECT_EQ(r.makespan - 6 * 4 * p, 2 * (p - 1)) << p;
    EXPECT_EQ(r.peak(), 2 * p);
  }
  EXPECT_EQ(SimulateLibrary("gis", 8, 16, {1, 1, 1}, {{"G", 4}}).peak(), 12);
}

// BitPipe: half of Chimera's bubble, for one unit of P microbatches with F = B and with B = 2 F.
TEST(Published, BitPipeBubbleAndPeak) {
  for (const int p : {2, 4, 6, 8, 16}) {
    const Result equal = SimulateLibrary("bitpipe", p, p, {2, 1, 1});
    EXPECT_EQ(equal.idlest * (4 * p + p - 2), equal.makespan * (p - 2)) << p;
    const Result twice = SimulateLibrary("bitpipe", p, p, {1, 1, 1});
    EXPECT_EQ(twice.idlest * (3 * p + p - 2), twice.makespan * (p - 2)) << p;
    EXPECT_EQ(twice.peak(), 2 * p);
    const Result chimera = SimulateLibrary("chimera", p, p, {2, 2, 2});
    EXPECT_EQ(2 * twice.idlest, chimera.idlest) << p;
  }
}

// Messages cost eager 1F1B and kFkB their latency once, on the way there and back, as long as they
// take no longer than the further microbatches on the way give them; 1F1B pays it in every round.
TEST(Published, FurtherMicrobatchesHideMessages) {
  for (const int p : {2, 4, 8}) {
    const int m = 6 * p;
    for (Costs c : kAnyCosts) {
      for (int64_t* cost : {&c.f, &c.i, &c.w}) *cost *= 100;
      for (const int share : {1, 4, 8}) {
        c.hop = share * (2 * c.all() - c.f - c.i) / 16;
        const Result eager = SimulateLibrary("eager_1f1b", p, m, c);
        EXPECT_EQ(eager.makespan, m * c.all() + (p - 1) * (c.f + c.i + 2 * c.hop)) << p << share;
        for (const int k : {2, 3}) {
          c.hop = share * (k - 1) * c.all() / 16;
          const Result grouped = SimulateLibrary("kfkb", p, m, c, {{"k", k}});
          EXPECT_EQ(grouped.makespan, (m + p - 1) * c.all() + 2 * (p - 1) * c.hop) << p << share;
          EXPECT_EQ(grouped.peak(), k * p);
          EXPECT_GT(SimulateLibrary("1f1b", p, m, c).makespan, grouped.makespan);
        }
      }
      // Longer ones cost more.
      c.hop = 10 + c.all() / 2;
      EXPECT_GT(SimulateLibrary("kfkb", p, m, c, {{"k", 2}}).makespan,
                (m + p - 1) * c.all() + 2 * (p - 1) * c.hop);
    }
  }
}

// Llama 3: a bubble of (P - 1) / (V M) of the work, whatever M is, if each rank has a microbatch;
// with fewer ranks wait for each other, and the step is still one.
TEST(Published, Llama3TakesAnyNumberOfMicrobatches) {
  for (const int p : {2, 4, 8}) {
    for (const int v : {1, 2, 3}) {
      for (int m = p; m <= 4 * p; ++m) {
        for (const int n : {p, p + 1, 2 * p}) {
          const Result r = SimulateLibrary("llama3", p, m, {1, 1, 1}, {{"V", v}, {"N", n}});
          EXPECT_EQ(r.idlest, (p - 1) * 3) << p << " " << m << " " << v << " " << n;
        }
      }
      for (int m = 1; m < p; ++m) {
        const Result r = SimulateLibrary("llama3", p, m, {1, 1, 1}, {{"V", v}});
        EXPECT_EQ(r.makespan, 3 * (v * p + m - 1)) << p << " " << m << " " << v;
      }
    }
  }
}

enum class PaperFigure : uint8_t {
  kShare,     // of the step, in percent, that the idlest rank idles
  kSpan,      // of the time from a rank's start to its end
  kOfWork,    // the idle time of the idlest rank in percent of its work
  kIdle,      // that time, of which a stage's forward takes 1
  kPeak,      // microbatches whose activations a rank holds
  kVersions,  // of the weights
  kFaster,    // than another schedule, of the same model
  kIdleLess,  // than another schedule
};

// F, I and W take equally long, so B = 2 F.
constexpr Costs kThird = {1000, 1000, 1000};

// A row of the papers' table in schedules/README.md.
struct Paper {
  const char* name;
  const char* files;  // the first of them has the figure
  const char* words;
  const char* at;
  PaperFigure figure;
  double published;         // NaN: the paper gives none
  const char* reason = "";  // for what is further away than 5 %
  const char* than = "";
  Costs costs_of_that = kThird;
  Costs costs = kThird;
};

const Paper kPapers[] = {
    {"GPipe (Huang et al. 2019)", "`gpipe`", "bubble (P-1)/(M+P-1)", "P=4 M=8", PaperFigure::kShare,
     300. / 11},
    {"PipeDream (Narayanan et al. 2019)", "`pipedream`",
     "versions: P, with an update for every microbatch", "P=8 M=1", PaperFigure::kVersions, 8},
    {"GEMS (Jain et al. 2020)", "`gems`", "bubble (P-1)/(P+1/2), in Chimera's paper", "P=4 M=64",
     PaperFigure::kShare, 100 * 3 / 4.5},
    {"DAPPLE (Fan et al. 2021)", "`1f1b`", "memory: P microbatches", "P=8 M=32", PaperFigure::kPeak,
     8},
    {"PipeDream-2BW (Narayanan et al. 2021)", "`pipedream_2bw`", "versions: 2", "P=8 M=32",
     PaperFigure::kVersions, 2},
    {"Megatron-LM (Narayanan et al. 2021)", "`interleaved`", "bubble (P-1)/(V M) of the work",
     "P=8 M=32 V=4", PaperFigure::kOfWork, 700. / 128},
    {"Chimera (Li and Hoefler 2021)", "`chimera`", "bubble (P-2)/(3M/2+P-2) for M = P", "P=8 M=8",
     PaperFigure::kShare, 600. / 18},
    {"TeraPipe (Li et al. 2021)", "`terapipe`", "bubble (P-1)/(M K) of the work", "P=8 M=4 K=8",
     PaperFigure::kOfWork, 700. / 32},
    {"GSPMD (Xu et al. 2021)", "`circular`", "V M+P-1 turns: bubble (P-1)/(V M+P-1)", "P=4 M=8 V=2",
     PaperFigure::kShare, 300. / 19},
    {"Out-of-order backprop (Oh et al. 2022)",
     "`ooo_backprop`",
     "1.41 to 1.99 times as fast as GPipe",
     "P=32 M=32 V=32",
     PaperFigure::kFaster,
     1.99,
     "",
     "gpipe",
     {32000, 32000, 32000}},
    {"Breadth-first (Lamy-Poirier 2023)", "`looped_bfs`", "bubble (P-1)/(V M) of the work",
     "P=4 M=8 V=4", PaperFigure::kOfWork, 300. / 32},
    {"Hanayo (Liu et al. 2023)", "`hanayo`", "bubble (2P-2)/(3P waves+P-1) for M = P", "P=4 M=4",
     PaperFigure::kShare, 40,
     "a formula from notes on the paper; a search proves that no order idles less than this"},
    {"BPipe (Kim et al. 2023)", "`bpipe`", "memory: (P+2)/2 microbatches, rounded up", "P=8 M=32",
     PaperFigure::kPeak, 5},
    {"Ada-Grouper (Wang et al. 2023)", "`kfkb`", "memory: k times that of 1F1B", "P=8 M=32 k=2",
     PaperFigure::kPeak, 16},
    {"Eager 1F1B (Zhuang et al. 2023)", "`eager_1f1b`", "memory: 2P-1 microbatches", "P=8 M=32",
     PaperFigure::kPeak, 15},
    {"Sarathi (Agrawal et al. 2023)", "`inference`",
     "6.29 times less bubble than with whole prompts", "P=8 M=4 K=8", PaperFigure::kIdleLess, 6.29,
     "theirs are prompts of unequal lengths, with decodes; for equal slices it is K", "inference"},
    {"Zero bubble (Qi et al. 2024)",
     "`zb_h2`, `zb_h1`, `zb_v`, `interleaved_zb`",
     "bubble in span, in its table, where F=18522 I=18086 W=9337 p2p=601",
     "P=8 M=24",
     PaperFigure::kSpan,
     10.83,
     "",
     "",
     {},
     {18522, 18086, 9337, 601}},
    {"Controllable memory (Qi et al. 2024b)", "`v_half`, `v_min`, `v_adaptive`",
     "memory: (P+2)/2 microbatches", "P=8 M=32", PaperFigure::kPeak, 5},
    {"Its 1F1B-V (Qi et al. 2024b)", "`v_1f1b`", "memory: two thirds of 1F1B's", "P=16 M=64",
     PaperFigure::kPeak, 32. / 3},
    {"2BP (Rae et al. 2024)", "`two_bp`", "1.70 times the throughput", "P=4 M=4",
     PaperFigure::kFaster, 1.70, "measured on four GPUs; the order alone gives this beside 1F1B",
     "1f1b"},
    {"Seq1F1B (Sun et al. 2024)", "`seq1f1b`", "bubble (P-1)/(M K+P-1)", "P=8 M=8 K=4",
     PaperFigure::kShare, 700. / 39},
    {"BitPipe (Wu et al. 2024)", "`bitpipe`", "bubble (P-2)/(3M+P-2) for M = P", "P=8 M=8",
     PaperFigure::kShare, 600. / 30},
    {"Llama 3 (Llama Team 2024)", "`llama3`", "bubble (P-1)/(V M) of the work", "P=4 M=10 V=2 N=5",
     PaperFigure::kOfWork, 300. / 20},
    {"DualPipe (DeepSeek-AI 2024)",
     "`dualpipe`",
     "bubble (P/2-1)(FB+B-3W), in units of F, where FB = 2.5 F",
     "P=8 M=20",
     PaperFigure::kIdle,
     4.5,
     "",
     "",
     {},
     {1000, 1000, 1000, 0, 2500}},
    {"DualPipeV (Qi et al. 2025)",
     "`dualpipe_v`",
     "the same on half of the ranks",
     "P=4 M=20",
     PaperFigure::kIdle,
     4.5,
     "",
     "",
     {},
     {1000, 1000, 1000, 0, 2500}},
    {"Vocabulary parallelism (Yeung et al. 2025)", "`vocab_1f1b`", "memory: P+1 microbatches",
     "P=8 M=32", PaperFigure::kPeak, 9},
    {"Mario (Liu et al. 2025)",
     "`mario`",
     "1.57 times as fast as others that recompute",
     "P=8 M=16",
     PaperFigure::kFaster,
     1.57,
     "a mean of runs on GPUs; the order alone gives this beside 1F1B",
     "1f1b",
     {1000, 2000, 1000}},
    {"PipeOffload (Wan et al. 2025)", "`gis`, `1f1b_offload`", "bubble 2(P-1), in units of F",
     "P=8 M=32", PaperFigure::kIdle, 14},
    {"Kimi K2 (Kimi Team 2025)", "`kimi_k2`", "memory: not said", "P=8 M=32 V=2",
     PaperFigure::kPeak, std::nan(""), "the report gives no figure; `interleaved` holds 11.5"},
    {"Megatron's combined 1F1B (NVIDIA 2025)", "`megatron_combined`",
     "memory: a stage more than interleaved, P(V+1)/V microbatches", "P=8 M=32 V=2",
     PaperFigure::kPeak, 12},
    {"MEPipe (Sun et al. 2025)", "`svpp`", "memory: (V max(P, K)+min(P, K)-1)/(V K) microbatches",
     "P=8 M=16 V=2 K=4", PaperFigure::kPeak, 2.375},
    {"SlimPipe (Li et al. 2025)", "`slimpipe`", "memory: 1+2(P-1)/K microbatches", "P=8 M=4 K=32",
     PaperFigure::kPeak, 1.4375},
};

// The file of the row's figure: what stands between the first two backticks.
std::string FileOf(const Paper& paper) {
  return std::vector<std::string>(absl::StrSplit(paper.files, '`'))[1];
}

double MeasuredFigure(const Paper& paper) {
  std::vector<Parameter> options = ParametersOf(paper.at);
  const int p = static_cast<int>(options[0].value), m = static_cast<int>(options[1].value);
  options.erase(options.begin(), options.begin() + 2);
  const Result r = SimulateLibrary(FileOf(paper), p, m, paper.costs, options);
  const auto that = [&] { return SimulateLibrary(paper.than, p, m, paper.costs_of_that); };
  const Plan plan = LibraryPlan(FileOf(paper), p, m, options);
  const auto stages = plan.stages.size() / std::max<size_t>(1, plan.pipes.size()) / p;
  const auto of = [](int64_t part, int64_t whole) {
    return static_cast<double>(part) / static_cast<double>(whole);
  };
  const int64_t work = r.makespan - r.idlest;
  switch (paper.figure) {
    case PaperFigure::kShare:
      return 100 * of(r.idlest, r.makespan);
    case PaperFigure::kSpan:
      return 100 * of(r.span - work, r.span);
    case PaperFigure::kOfWork:
      return 100 * of(r.idlest, work);
    case PaperFigure::kIdle:
      return of(r.idlest, paper.costs.f);
    case PaperFigure::kPeak:
      return of(r.peak(), static_cast<int64_t>(stages) * plan.slices);
    case PaperFigure::kVersions:
      return plan.versions;
    case PaperFigure::kFaster:
      return of(that().makespan, r.makespan);
    case PaperFigure::kIdleLess:
      return of(that().idlest, r.idlest);
  }
  return 0;
}

std::string FigureText(PaperFigure figure, double value) {
  const bool percent = figure == PaperFigure::kShare || figure == PaperFigure::kSpan ||
                       figure == PaperFigure::kOfWork;
  if (std::isnan(value)) return "–";
  return percent ? absl::StrFormat("%.2f %%", value) : absl::StrFormat("%.3g", value);
}

std::string LineOf(const Paper& paper, double measured) {
  return absl::StrCat("| ", paper.name, " | ", paper.files, " | ", paper.words, " | ", paper.at,
                      " | ", FigureText(paper.figure, paper.published), " | ",
                      FigureText(paper.figure, measured), " | ", paper.reason, " |");
}

TEST(Published, ThePapersFiguresAreWithinFivePercentOrHaveAReason) {
  const auto readme = ReadSource(STRINGLINE_SOURCE_DIR "/schedules/README.md");
  ASSERT_TRUE(readme.ok()) << readme.status();
  std::set<std::string> lines;
  for (const absl::string_view line : absl::StrSplit(readme->text(), '\n')) {
    lines.emplace(line);
  }
  std::string files;
  std::set<std::string> papers;
  for (const Paper& paper : kPapers) {
    const double measured = MeasuredFigure(paper);
    const std::string line = LineOf(paper, measured);
    EXPECT_EQ(lines.count(line), 1u) << line;
    const bool close = std::abs(measured / paper.published - 1) <= 0.05;
    EXPECT_EQ(close, std::string(paper.reason).empty()) << line;
    absl::StrAppend(&files, paper.files);
    papers.insert(paper.name);
  }
  for (const auto& entry :
       std::filesystem::directory_iterator(STRINGLINE_SOURCE_DIR "/schedules")) {
    if (entry.path().extension() != ".sched") continue;
    const std::string name = absl::StrCat("`", entry.path().stem().string(), "`");
    EXPECT_TRUE(absl::StrContains(files, name)) << name;
  }
  EXPECT_GE(papers.size(), 30u);
}

// The lane of a block with these parts, "F.attn B.experts": its parts in every order.
std::vector<std::vector<Overlap::Part>> OrdersOf(std::vector<std::string> words) {
  std::vector<std::vector<Overlap::Part>> orders;
  std::sort(words.begin(), words.end());
  do {
    orders.emplace_back();
    for (const std::string& word : words) {
      const ActionKind of = word[0] == 'F'   ? ActionKind::kForward
                            : word[0] == 'B' ? ActionKind::kBackward
                                             : ActionKind::kWeightGradient;
      orders.back().push_back({of, word.substr(2), {}});
    }
  } while (std::next_permutation(words.begin(), words.end()));
  return orders;
}

// The authors' order of parts is the best of all orders that can run, at the measured costs of an
// example.
TEST(Published, NoOrderOfPartsIsBetterThanTheirs) {
  Plan plan = LibraryPlan("dualpipe_v", 2, 8, {});
  const auto spec =
      ReadCostFile(STRINGLINE_SOURCE_DIR "/examples/07_mixture_of_experts/costs.yaml");
  ASSERT_TRUE(spec.ok()) << spec.status();
  const auto makespan = [&] {
    return MeasureBubbles(*Simulate(plan, *ResolveCosts(*spec, plan))).makespan_ns;
  };
  ASSERT_EQ(plan.overlaps.size(), 1u);
  const int64_t theirs = makespan();
  int can_run = 0, as_good = 0;
  int64_t worst = 0;
  Overlap order = plan.overlaps[0];
  for (auto& compute :
       OrdersOf({"F.attn", "F.experts", "B.attn", "B.experts", "W.attn", "W.experts"})) {
    order.compute = std::move(compute);
    for (auto& network : OrdersOf({"F.dispatch", "F.combine", "B.dispatch", "B.combine"})) {
      order.network = std::move(network);
      FindPlaces(&order);
      Diagnostics diagnostics;
      if (!CheckOverlap(order, {}, &diagnostics)) continue;
      plan.overlaps[0] = order;
      const int64_t found = makespan();
      EXPECT_GE(found, theirs) << Print(order);
      as_good += found == theirs ? 1 : 0;
      worst = std::max(worst, found);
      ++can_run;
    }
  }
  EXPECT_EQ(can_run, 109);
  EXPECT_EQ(as_good, 1);
  EXPECT_GT(worst, theirs * 13 / 10);
}

}  // namespace
}  // namespace stringline
