// Orders written as files: whole texts of a few, and for all of the library and for random orders a
// round trip: the text gives the orders back.
#include "schedlang/write/write_schedule.h"

#include <gtest/gtest.h>

#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "schedlang/check/check.h"
#include "schedlang/elaborate/elaborate.h"
#include "schedlang/lower/lower.h"
#include "schedlang/search/problem_of.h"
#include "schedlang/text/format.h"
#include "schedlang/text/uses.h"
#include "tests/schedlang/elaborated.h"
#include "tests/schedlang/random_plan.h"

namespace stringline::search {
namespace {

// The plan of a text, not lowered; nothing where the text refuses P and M.
std::optional<Plan> PlanOfSchedText(const std::string& text, int p, int m) {
  Source source("x.sched", text);
  Diagnostics diagnostics;
  const auto file = ParseWithUses(&source, UsedFrom("schedules"), &diagnostics);
  EXPECT_TRUE(file.has_value()) << Render(diagnostics, source);
  if (!file) return std::nullopt;
  auto plan = Elaborate(*file, "", {{"P", p}, {"M", m}}, &diagnostics);
  EXPECT_TRUE(plan || RefusalIn(diagnostics) != nullptr) << Render(diagnostics, source);
  return plan;
}

std::optional<Plan> LibraryPlan(const std::string& name, int p, int m) {
  return PlanOfSchedText(ReadTestFile(absl::StrCat("schedules/", name, ".sched")), p, m);
}

WriteOptions OptionsFor(const Plan& plan) {
  WriteOptions options{.name = "found"};
  if (!plan.costs.empty()) options.costs = {plan.costs};
  return options;
}

WrittenSchedule Write(const Plan& plan) {
  const auto written = WriteSchedule(plan, OptionsFor(plan));
  EXPECT_TRUE(written.ok()) << written.status();
  return written.ok() ? *written : WrittenSchedule{};
}

// The lines of a plan's text form with its stages, split and orders.
std::string OrdersOf(Plan plan) {
  plan.schedule = "found";
  plan.parameters = {};
  plan.costs = {};
  return Print(plan);
}

bool Passes(const Plan& plan) {
  Diagnostics diagnostics;
  return Check(Lower(plan), &diagnostics);
}

void ExpectGivesBack(const Plan& plan, const WrittenSchedule& written) {
  Diagnostics diagnostics;
  EXPECT_EQ(Format(Source("x.sched", written.text), &diagnostics), written.text);
  const auto again = PlanOfSchedText(written.text, plan.ranks(), plan.microbatches);
  ASSERT_TRUE(again.has_value()) << written.text;
  EXPECT_EQ(OrdersOf(*again), OrdersOf(plan)) << written.text;
  for (absl::string_view rest = written.text; !rest.empty();) {
    const size_t end = rest.find('\n');
    EXPECT_LE(end, 100u) << rest.substr(0, end);
    rest.remove_prefix(end + 1);
  }
}

// --- whole texts ---------------------------------------------------------------------------------

TEST(WriteScheduleTest, OneFOneBIsAsShortAsAPersonWritesIt) {
  const WrittenSchedule written = Write(*LibraryPlan("1f1b", 4, 8));
  EXPECT_EQ(written.form, WrittenForm::kPhases);
  EXPECT_EQ(written.text, R"(schedule found(P, M) {
  require P == 4      "found for 4 ranks";
  require M >= P - 1  "holds for M = 3, 4, 5, ...";
  stages P on line;

  rank r {
    let warmup = P - 1 - r;

    repeat warmup      { F r }
    repeat M - warmup  { F r; B r }
    repeat warmup      { B r }
  }
}
)");
}

// Every kind of split is in the text, and read back from the text.
TEST(WriteScheduleTest, SplitsAreWritten) {
  for (const char* const split :
       {"", "split balanced;", "split [3, 4, 2];", "split \"Et|tt|tL\";"}) {
    const auto plan =
        PlanOfSchedText(absl::StrCat("schedule found(P, M) { stages P on line; ", split,
                                     " rank r { repeat M { F r }  repeat M { B r } } }"),
                        3, 5);
    ASSERT_TRUE(plan) << split;
    const WrittenSchedule written = Write(*plan);
    ExpectGivesBack(*plan, written);
    EXPECT_EQ(absl::StrContains(written.text, "split"), split[0] != '\0') << written.text;
    EXPECT_TRUE(absl::StrContains(written.text, split)) << written.text;
    const auto again = PlanOfSchedText(written.text, 3, 5);
    ASSERT_TRUE(again);
    EXPECT_EQ(Print(again->split), Print(plan->split)) << written.text;
  }
}

TEST(WriteScheduleTest, GPipe) {
  WriteOptions options{.name = "best",
                       .header = {"Found by `stringline search`.", "", "Bound: 12."}};
  const auto written = WriteSchedule(*LibraryPlan("gpipe", 3, 5), options);
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(written->text, R"(# Found by `stringline search`.
#
# Bound: 12.
schedule best(P, M) {
  require P == 3  "found for 3 ranks";
  stages P on line;

  rank r {
    repeat M { F r }
    repeat M { B r }
  }
}
)");
}

TEST(WriteScheduleTest, ZeroBubble) {
  EXPECT_EQ(Write(*LibraryPlan("zb_h1", 4, 12)).text, R"(schedule found(P, M) {
  require P == 4      "found for 4 ranks";
  require M >= P - 1  "holds for M = 3, 4, 5, ...";
  stages P on line;

  rank r {
    let warmup = P - 1 - r;

    repeat warmup     { F r }
    repeat r          { F r; I r }
    repeat M - P + 1  { F r; I r; W }
    repeat warmup     { I r; W }
    repeat r          { W }
  }
}
)");
}

TEST(WriteScheduleTest, InterleavedHasOrders) {
  const WrittenSchedule written = Write(*LibraryPlan("interleaved", 4, 16));
  EXPECT_EQ(written.step, 4);
  EXPECT_EQ(written.text, R"(schedule found(P, M) {
  require P == 4                     "found for 4 ranks";
  require M % 4 == 0 and M >= 2 * P  "holds for M = 8, 12, 16, ...";
  stages 2 * P on loop;

  rank r {
    order forward   { repeat M / 4 { repeat 4 { F r }  repeat 4 { F P + r } } }
    order backward  { repeat M / 4 { repeat 4 { B P + r }  repeat 4 { B r } } }
    let warmup = 2 * (P - r) + 2;

    repeat warmup          { forward }
    repeat 2 * M - warmup  { forward; backward }
    repeat warmup          { backward }
  }
}
)");
}

TEST(WriteScheduleTest, ATimetableIsFoundAgain) {
  const auto plan = PlanOfSchedText(R"(schedule found(P, M) {
  stages 2 * P on v;
  rank r timetable {
    repeat M as m {
      at 6 * m + r             : F r;
      at 6 * m + 2 * P - 1 - r : F 2 * P - 1 - r;
      at 6 * m + 2 * P + r     : I 2 * P - 1 - r;
      at 6 * m + 4 * P - 1 - r : I r;
    }
    fill W;
  }
})",
                                    4, 12);
  EXPECT_EQ(Write(*plan).text, R"(schedule found(P, M) {
  require P == 4  "found for 4 ranks";
  stages 2 * P on v;

  rank r timetable {
    let down = r;
    let up   = 2 * P - 1 - r;
    repeat M as m {
      at 6 * m + r             : F down;
      at 6 * m + 2 * P - 1 - r : F up;
      at 6 * m + 2 * P + r     : I up;
      at 6 * m + 4 * P - 1 - r : I down;
    }
    fill W;
  }
}
)");
}

TEST(WriteScheduleTest, RanksWithLongWaysHaveSlotsOfTheirOwn) {
  const auto plan = PlanOfSchedText(R"(schedule found(P, M) {
  stages 2 * P on v;
  split "Ett|tt|tt|t||tL";
  rank r timetable {
    repeat M as m {
      at 6 * m + (r == 0 ? 0 : r == 1 ? 3 : 5)    : F r;
      at 6 * m + (r == 0 ? 20 : r == 1 ? 13 : 10) : F 2 * P - 1 - r;
      at 6 * m + (r == 0 ? 33 : r == 1 ? 38 : 44) : I 2 * P - 1 - r;
      at 6 * m + (r == 0 ? 71 : r == 1 ? 58 : 51) : I r;
      at 6 * m + (r == 0 ? 76 : r == 1 ? 65 : 60) : W 2 * P - 1 - r;
      at 6 * m + (r == 0 ? 79 : r == 1 ? 66 : 67) : W r;
    }
  }
})",
                                    3, 24);
  EXPECT_EQ(Write(*plan).text, R"(schedule found(P, M) {
  require P == 3  "found for 3 ranks";
  stages 2 * P on v;
  split "Ett|tt|tt|t||tL";

  rank r timetable {
    let down = r;
    let up   = 2 * P - 1 - r;
    repeat M as m {
      if r == 0 {
        at 6 * m      : F down;
        at 6 * m + 20 : F up;
        at 6 * m + 33 : I up;
        at 6 * m + 71 : I down;
        at 6 * m + 76 : W up;
        at 6 * m + 79 : W down;
      } else if r == 1 {
        at 6 * m      : F down;
        at 6 * m + 10 : F up;
        at 6 * m + 35 : I up;
        at 6 * m + 55 : I down;
        at 6 * m + 62 : W up;
        at 6 * m + 63 : W down;
      } else {
        at 6 * m      : F down;
        at 6 * m + 5  : F up;
        at 6 * m + 39 : I up;
        at 6 * m + 46 : I down;
        at 6 * m + 55 : W up;
        at 6 * m + 62 : W down;
      }
    }
  }
}
)");
}

TEST(WriteScheduleTest, ARuleIsFoundAgain) {
  EXPECT_EQ(Write(*LibraryPlan("hanayo", 4, 12)).text, R"(schedule found(P, M) {
  require P == 4  "found for 4 ranks";
  stages 2 * P on v;

  rank r greedy {
    prefer B, F;
  }
}
)");
  const auto plan = PlanOfSchedText(R"(schedule found(P, M) {
  stages 2 * P on v;
  rank r greedy {
    hold at most P + 2 - r / 2;
    prefer W, I, F;
    costs F 5, I 7, W 3, p2p 1;
  }
})",
                                    4, 10);
  EXPECT_EQ(Write(*plan).text, R"(schedule found(P, M) {
  require P == 4  "found for 4 ranks";
  stages 2 * P on v;

  rank r greedy {
    hold at most r < 2 ? 6 : 5;
    prefer W, I, F;
    costs F 5, I 7, W 3, p2p 1;
  }
}
)");
}

TEST(WriteScheduleTest, TwoPipesHaveAFormForEveryRank) {
  const WrittenSchedule written = Write(*LibraryPlan("chimera", 4, 12));
  EXPECT_EQ(written.form, WrittenForm::kRankPhases);
  EXPECT_EQ(written.text, R"(schedule found(P, M) {
  require P == 4      "found for 4 ranks";
  require M % 4 == 0  "holds for M = 4, 8, 12, ...";
  pipe down { stages P on line;          microbatches M / 2; }
  pipe up   { stages P on reversed line; microbatches M / 2; }

  rank r {
    let s = P - 1 - r;

    if r == 0 {
      F down[r]; F down[r];
      repeat 2            { F up[s]; B up[s] }
      repeat (M - 4) / 4  { repeat 2 { B down[r]; F down[r] }  repeat 2 { F up[s]; B up[s] } }
      B down[r]; B down[r];
    } else if r == 1 {
      repeat M / 4 { repeat 2 { F down[r]; F up[s] }  repeat 2 { B up[s]; B down[r] } }
    } else if r == 2 {
      repeat M / 4 { repeat 2 { F up[s]; F down[r] }  repeat 2 { B down[r]; B up[s] } }
    } else {
      F up[s]; F up[s];
      repeat 2            { F down[r]; B down[r] }
      repeat (M - 4) / 4  { repeat 2 { B up[s]; F up[s] }  repeat 2 { F down[r]; B down[r] } }
      B up[s]; B up[s];
    }
  }
}
)");
}

TEST(WriteScheduleTest, WhatNeverRepeatsIsAList) {
  const auto plan = PlanOfSchedText(R"(schedule found(P, M) {
  stages 3 on s -> s == 1 ? 0 : 1;
  split [3, 4, 2];
  rank r {
    if r == 0 { F 1; F 1; B 1; I 1; W } else { F 0; F 0; F 2; B 2; F 2 & B 0; I 2; I 0; W 2; W 0 }
  }
})",
                                    2, 2);
  const WrittenSchedule written = Write(*plan);
  EXPECT_EQ(written.form, WrittenForm::kList);
  EXPECT_EQ(written.text, R"(schedule found(P, M) {
  require P == 2  "found for 2 ranks";
  require M == 2  "found for 2 microbatches";
  stages 3 on s -> s == 0 ? 1 : s - 1;
  split [3, 4, 2];

  rank r {
    if r == 0 {
      F 1; F 1; B 1; I 1; W;
    } else {
      F 0; F 0; F 2; B 2; F 2 & B 0; I 2; I 0; W; W;
    }
  }
}
)");
}

// --- the library ---------------------------------------------------------------------------------

const char* const kLibrary[] = {"1f1b",
                                "1f1b_offload",
                                "mario",
                                "gpipe",
                                "zb_h1",
                                "zb_h2",
                                "zb_v",
                                "v_half",
                                "v_min",
                                "interleaved",
                                "gis",
                                "hanayo",
                                "dualpipe_v",
                                "interleaved_zb",
                                "kimi_k2",
                                "looped_bfs",
                                "chimera",
                                "dualpipe",
                                "megatron_combined",
                                "gems",
                                "eager_1f1b",
                                "kfkb",
                                "llama3",
                                "circular",
                                "ooo_backprop",
                                "bitpipe",
                                "two_bp"};

TEST(WriteScheduleTest, TheLibraryIsGivenBack) {
  int cases = 0;
  for (const char* const name : kLibrary) {
    for (const auto& [p, m] : std::vector<std::pair<int, int>>{{1, 1},
                                                               {1, 4},
                                                               {2, 2},
                                                               {2, 5},
                                                               {2, 8},
                                                               {3, 4},
                                                               {3, 9},
                                                               {4, 8},
                                                               {4, 16},
                                                               {5, 11},
                                                               {6, 24},
                                                               {8, 32}}) {
      SCOPED_TRACE(absl::StrCat(name, " P=", p, " M=", m));
      const auto plan = LibraryPlan(name, p, m);
      if (!plan) continue;
      ++cases;
      const WrittenSchedule written = Write(*plan);
      ExpectGivesBack(*plan, written);
      if (written.step == 0) continue;
      for (int64_t other = written.least; other < written.least + 6 * written.step;
           other += written.step) {
        const auto others = PlanOfSchedText(written.text, p, static_cast<int>(other));
        ASSERT_TRUE(others.has_value()) << other << written.text;
        EXPECT_TRUE(Passes(*others)) << other << written.text;
      }
    }
  }
  EXPECT_GT(cases, 130);
}

TEST(WriteScheduleTest, WhatGrowsIsTheScheduleItself) {
  for (const auto& [name, p] : std::vector<std::pair<const char*, int>>{{"1f1b", 5},
                                                                        {"1f1b_offload", 5},
                                                                        {"mario", 4},
                                                                        {"gpipe", 3},
                                                                        {"zb_h1", 6},
                                                                        {"zb_h2", 4},
                                                                        {"zb_v", 4},
                                                                        {"looped_bfs", 3},
                                                                        {"gis", 3},
                                                                        {"interleaved_zb", 3},
                                                                        {"dualpipe_v", 3},
                                                                        {"hanayo", 3}}) {
    SCOPED_TRACE(name);
    const WrittenSchedule written = Write(*LibraryPlan(name, p, 6 * p));
    ASSERT_GT(written.step, 0) << written.text;
    for (const int m : {3 * p, 9 * p, 12 * p}) {
      ASSERT_EQ((m - 6 * p) % written.step, 0);
      const auto plan = PlanOfSchedText(written.text, p, m);
      ASSERT_TRUE(plan.has_value()) << written.text;
      EXPECT_EQ(OrdersOf(*plan), OrdersOf(*LibraryPlan(name, p, m)));
    }
  }
}

TEST(WriteScheduleTest, OtherMicrobatchesAreKept) {
  const Plan plan = *LibraryPlan("1f1b", 3, 6);
  WriteOptions options{.name = "found", .others = {*LibraryPlan("1f1b", 3, 9)}};
  EXPECT_GT(WriteSchedule(plan, options)->step, 0);
  options.others = {*LibraryPlan("gpipe", 3, 9)};  // found for another M, and no relation
  const WrittenSchedule written = *WriteSchedule(plan, options);
  EXPECT_EQ(written.step, 0);
  EXPECT_EQ(PlanOfSchedText(written.text, 3, 9), std::nullopt);
  ExpectGivesBack(plan, written);
}

TEST(WriteScheduleTest, MoreMicrobatchesKeepToTheLimits) {
  WriteOptions options{.name = "found"};
  options.limits.activations = 6;
  EXPECT_EQ(WriteSchedule(*LibraryPlan("gpipe", 2, 6), options)->step, 0);  // holds M
  EXPECT_EQ(WriteSchedule(*LibraryPlan("1f1b", 2, 6), options)->step, 1);   // holds P
}

TEST(WriteScheduleTest, NamesOfPipesAreTaken) {
  const auto plan = PlanOfSchedText(R"(schedule found(P, M) {
  pipe down { stages P on line;          microbatches M / 2; }
  pipe s    { stages P on reversed line; microbatches M / 2; }
  rank r { repeat M / 2 { F down[r]; F s[P - 1 - r] } repeat M / 2 { B s[P - 1 - r]; B down[r] } }
})",
                                    2, 4);
  const WrittenSchedule written = Write(*plan);
  EXPECT_EQ(written.form, WrittenForm::kPhases);
  ExpectGivesBack(*plan, written);
}

TEST(WriteScheduleTest, LargeOnes) {
  for (const char* const name : {"zb_h2", "v_min", "kimi_k2"}) {
    const Plan plan = *LibraryPlan(name, 32, 256);
    ExpectGivesBack(plan, Write(plan));
  }
}

// --- random orders -------------------------------------------------------------------------------

TEST(WriteScheduleTest, RandomOrdersAreGivenBack) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937_64 random(seed);
  for (int i = 0; i < 400 && !testing::Test::HasFailure(); ++i) {
    const Plan plan = RandomRightPlan(random, 1 + i % 7, 1 + i % 5, /*copies=*/true);
    const auto written = WriteSchedule(plan, {.name = "found"});
    ASSERT_TRUE(written.ok()) << written.status() << Print(plan);
    ExpectGivesBack(plan, *written);
  }
}

// As an optimiser numbers them, without groups.
TEST(WriteScheduleTest, RandomOrdersOfLayoutsAreGivenBack) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937_64 random(seed);
  const char* const layouts[] = {"P on line",          "2 * P on v",
                                 "3 * P on loop",      "3 * P on wave",
                                 "P on reversed line", "2 * P on reversed loop",
                                 "5 on s -> s / 2",    "6 on s -> (s * s) % P"};
  for (int i = 0; i < 300 && !testing::Test::HasFailure(); ++i) {
    const int m = 1 + static_cast<int>(Below(random, 6));
    const Plan stages =
        *PlanOfSchedText(absl::StrCat("schedule s(P, M) { stages ", layouts[Below(random, 8)],
                                      "; rank r greedy { prefer B, F; } }"),
                         3, m);
    Words words(3);
    // By stage: how many F, then I or B, then W are done; the last ones of a B at once.
    std::vector<std::array<int, 3>> done(stages.stages.size());
    for (size_t left = 2 * stages.stages.size() * static_cast<size_t>(m); left > 0;) {
      const size_t s = Below(random, stages.stages.size());
      const Stage& stage = stages.stages[s];
      auto& [forward, back, weight] = done[s];
      auto& word = words[static_cast<size_t>(stage.rank.value)];
      const auto put = [&](ActionKind kind) {
        word.push_back({LetterOf(kind, static_cast<int>(s))});
      };
      if (Below(random, 3) == 0 && weight < back) {
        put(ActionKind::kWeightGradient);
        ++weight;
        continue;
      }
      const StageId before = stages.graph.Before(StageId(static_cast<int32_t>(s)));
      const StageId behind = stages.graph.Behind(StageId(static_cast<int32_t>(s)));
      const bool has_input =
          !before.valid() || done[static_cast<size_t>(before.value)][0] > forward;
      const bool has_gradient =
          behind.valid() ? done[static_cast<size_t>(behind.value)][1] > back : forward > back;
      if (Below(random, 2) == 0 && forward < m && has_input) {
        put(ActionKind::kForward);
        ++forward;
        --left;
      } else if (back < forward && has_gradient) {
        const bool whole = back == weight && Below(random, 2) == 0;
        put(whole ? ActionKind::kBackward : ActionKind::kInputGradient);
        ++back;
        weight += whole ? 1 : 0;
        --left;
      }
    }
    for (size_t s = 0; s < done.size(); ++s) {
      for (; done[s][2] < done[s][1]; ++done[s][2]) {
        words[static_cast<size_t>(stages.stages[s].rank.value)].push_back(
            {LetterOf(ActionKind::kWeightGradient, static_cast<int>(s))});
      }
    }
    Plan plan = PlanOf(stages, words);
    plan.costs = {};
    ASSERT_TRUE(Passes(plan)) << Print(plan);
    ExpectGivesBack(plan, Write(plan));
  }
}

TEST(WriteScheduleTest, WhatCannotBeWritten) {
  const Plan plan = *LibraryPlan("1f1b", 2, 2);
  EXPECT_FALSE(WriteSchedule(plan, {.name = "no name"}).ok());
  EXPECT_FALSE(WriteSchedule(Lower(plan), {.name = "found"}).ok());
}

}  // namespace
}  // namespace stringline::search
