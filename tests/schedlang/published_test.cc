// The library's schedules, simulated, against the numbers their papers and authors give.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "schedlang/check.h"
#include "schedlang/elaborate.h"
#include "schedlang/lower.h"
#include "schedlang/parse.h"
#include "schedlang/sim/simulate.h"

namespace stringline {
namespace {

// Costs in microseconds: forward, input gradient, weight gradient, latency; and of an F & B.
struct Costs {
  int64_t f, i, w;
  int64_t hop = 0;
  int64_t fb = 0;  // 0: the sum of its parts
  int64_t all() const { return f + i + w; }
};

Plan LibraryPlan(const std::string& name, int p, int m) {
  auto source = ReadSource(std::string(STRINGLINE_SOURCE_DIR "/schedules/") + name + ".sched");
  EXPECT_TRUE(source.ok()) << source.status();
  Diagnostics diagnostics;
  const auto file = Parse(*source, &diagnostics);
  EXPECT_TRUE(file) << Render(diagnostics, *source);
  auto plan = Elaborate(*file, "", {{"P", p}, {"M", m}}, &diagnostics);
  EXPECT_TRUE(plan) << Render(diagnostics, *source);
  const Plan lowered = Lower(*plan);
  EXPECT_TRUE(Check(lowered, &diagnostics)) << Render(diagnostics, *source);
  return lowered;
}

// In microseconds.
struct Result {
  int64_t makespan, span, idlest;  // idlest: the bubble of the rank that idles longest
  std::vector<int> peaks;
  int peak() const { return *std::max_element(peaks.begin(), peaks.end()); }
};

Result SimulateLibrary(const std::string& name, int p, int m, const Costs& costs) {
  const Plan plan = LibraryPlan(name, p, m);
  CostSpec spec{{{"F", {costs.f * 1000}},
                 {"I", {costs.i * 1000}},
                 {"W", {costs.w * 1000}},
                 {"p2p", {costs.hop * 1000}}}};
  if (costs.fb) spec.values["FB"] = {costs.fb * 1000};
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
        // Latency counts so only while it is small against the work, as the formula's fit says.
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

// The bubbles and peaks that schedules/README.md gives for two stages a rank and F = I = W.
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

}  // namespace
}  // namespace stringline
