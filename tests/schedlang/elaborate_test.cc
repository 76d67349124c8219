// Small schedules and the plans they elaborate to, or the findings.
#include "schedlang/elaborate/elaborate.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "schedlang/text/parse.h"
#include "tests/schedlang/elaborated.h"

namespace stringline {
namespace {

struct ElaborateCase {
  const char* body;  // the rank block's, or the schedule's
  const char* parameters;
  const char* expected;  // the plan without its header, or the rendered findings
};

// The text without its first line, the plan's header.
std::string WithoutHeader(const std::string& text) {
  return text.rfind("plan ", 0) == 0 ? text.substr(text.find('\n') + 1) : text;
}

// A rank block on a V: rank r holds the stages r and 2 P - 1 - r.
std::string ElaborateRank(const ElaborateCase& c) {
  return WithoutHeader(Elaborated(
      absl::StrCat("schedule s(P, M) {\nstages 2 * P on v;\nrank r {\n", c.body, "\n}\n}\n"),
      ParametersOf(c.parameters)));
}

// A schedule's own statements.
std::string ElaborateSchedule(const ElaborateCase& c) {
  return WithoutHeader(
      Elaborated(absl::StrCat("schedule s(P, M, V = 2, G = P + V) {\n", c.body, "\n}\n"),
                 ParametersOf(c.parameters)));
}

const ElaborateCase kRanks[] = {
    // Microbatches: F counts for itself, B and I share a counter, W follows I
    {"F r; F r @ 3; F r; F r; B r; I r; B r @ 3; W r; B r", "P=1 M=4",
     "stages 0 0\n"
     "rank 0: 0F0 0F3 0F1 0F2 0B0 0I1 0B3 0W1 0B2\n"},
    {"F 0 @ 1; F 0; F 0; F 0 @ 3", "P=1 M=4",
     "stages 0 0\n"
     "rank 0: 0F1 0F0 0F2 0F3\n"},
    {"repeat M { F 0; F 1; I 1; I 0 } W; W; W; W", "P=1 M=2",
     "stages 0 0\n"
     "rank 0: 0F0 1F0 1I0 0I0 0F1 1F1 1I1 0I1 1W0 0W0 1W1 0W1\n"},
    {"repeat M { F 0; I 0 } W 0 @ 2; W 0; W; W", "P=1 M=4",
     "stages 0 0\n"
     "rank 0: 0F0 0I0 0F1 0I1 0F2 0I2 0F3 0I3 0W2 0W0 0W1 0W3\n"},
    {"repeat M { F 0; I 0; F 1; I 1 } W 1; W; W 1; W", "P=1 M=2",
     "stages 0 0\n"
     "rank 0: 0F0 0I0 1F0 1I0 0F1 0I1 1F1 1I1 1W0 0W0 1W1 0W1\n"},
    {"I 0 @ 2; I 0; W; W", "P=1 M=3",
     "stages 0 0\n"
     "rank 0: 0I2 0I0 0W2 0W0\n"},
    // Groups: numbered left to right; W finds an I of an earlier group
    {"F 0 & F 0; F 1 & B 1 & I 1; W & F 1", "P=1 M=2",
     "stages 0 0\n"
     "rank 0: 0F0&0F1 1F0&1B0&1I1 1W1&1F1\n"},
    {"I 0; I 0 & W 0; W", "P=1 M=2",
     "stages 0 0\n"
     "rank 0: 0I0 0I1&0W0 0W1\n"},
    {"F 0 & F 0 @ 0", "P=1 M=2",
     "x.sched:4:7: error: 0F0 is done a second time\n"
     "    4 | F 0 & F 0 @ 0\n"
     "      |       ^~~~~~~  (rank 0, P=1 M=2)\n"
     "note: 0F0 did it here first\n"
     "    4 | F 0 & F 0 @ 0\n"
     "      | ^~~  (P=1 M=2)\n"},
    {"I 0 & W 0", "P=1 M=2",
     "x.sched:4:7: error: a W of stage 0, which has nothing deferred\n"
     "    4 | I 0 & W 0\n"
     "      |       ^~~  (rank 0, P=1 M=2)\n"
     "note: 0I0 shares its '&', and defers only after it\n"
     "    4 | I 0 & W 0\n"
     "      | ^~~\n"},
    {"F 0 & I 0 & W", "P=1 M=2",
     "x.sched:4:13: error: a bare W, but nothing is deferred on this rank\n"
     "    4 | F 0 & I 0 & W\n"
     "      |             ^  (rank 0, P=1 M=2)\n"
     "note: 0I0 shares its '&', and defers only after it\n"
     "    4 | F 0 & I 0 & W\n"
     "      |       ^~~\n"},
    {"I 0; W 0 @ 0; W 0 @ 0", "P=1 M=2",
     "x.sched:4:15: error: 0W0 is not deferred\n"
     "    4 | I 0; W 0 @ 0; W 0 @ 0\n"
     "      |               ^~~~~~~  (rank 0, P=1 M=2)\n"
     "note: 0W0 did it here first\n"
     "    4 | I 0; W 0 @ 0; W 0 @ 0\n"
     "      |      ^~~~~~~  (P=1 M=2)\n"},
    {"B 0; W 0 @ 0", "P=1 M=2",
     "x.sched:4:6: error: 0W0 is not deferred\n"
     "    4 | B 0; W 0 @ 0\n"
     "      |      ^~~~~~~  (rank 0, P=1 M=2)\n"
     "note: 0B0 did it here first\n"
     "    4 | B 0; W 0 @ 0\n"
     "      | ^~~  (P=1 M=2)\n"},
    // Orders
    {"order f { repeat M { F 0 } } order b { B 0; B 0 @ 0 } f; b & f; b", "P=1 M=2",
     "x.sched:4:65: error: 0B0 is done a second time\n"
     "    4 | order f { repeat M { F 0 } } order b { B 0; B 0 @ 0 } f; b & f; b\n"
     "      |                                                                 ^  (rank 0, P=1 "
     "M=2)\n"
     "note: the order wrote it down here\n"
     "    4 | order f { repeat M { F 0 } } order b { B 0; B 0 @ 0 } f; b & f; b\n"
     "      |                                             ^~~~~~~\n"
     "note: 0B0 did it here first\n"
     "    4 | order f { repeat M { F 0 } } order b { B 0; B 0 @ 0 } f; b & f; b\n"
     "      |                                                          ^  (P=1 M=2)\n"},
    {"order g { F 0 & B 0; W } I 1; g & F 1; g", "P=1 M=2",
     "stages 0 0\n"
     "rank 0: 1I0 0F0&0B0&1F0 1W0\n"},
    {"order f { F 0 } F 0; f", "P=1 M=1",
     "x.sched:4:22: error: 0F1 is past the last microbatch, 0F0\n"
     "    4 | order f { F 0 } F 0; f\n"
     "      |                      ^  (rank 0, P=1 M=1)\n"
     "note: the order wrote it down here\n"
     "    4 | order f { F 0 } F 0; f\n"
     "      |           ^~~\n"},
    {"order f { } f", "P=1 M=1",
     "x.sched:4:13: error: order 'f' is empty\n"
     "    4 | order f { } f\n"
     "      |             ^  (rank 0, P=1 M=1)\n"},
    {"order f { if M > 1 { let x = 0; repeat 2 { F x } } else { F 1 } } f; f", "P=1 M=2",
     "stages 0 0\n"
     "rank 0: 0F0 0F1\n"},
    // Blocks
    {"repeat 3 as i { if i == 1 { F 0 } else if i == 2 { F 1 } else { B 1 } }", "P=1 M=2",
     "stages 0 0\n"
     "rank 0: 1B0 0F0 1F0\n"},
    {"repeat M as i { repeat i + 1 as j { F j @ i } }", "P=1 M=2",
     "stages 0 0\n"
     "rank 0: 0F0 0F1 1F1\n"},
    {"repeat 0 { F 7 }", "P=2 M=1",
     "stages 0 1 1 0\n"
     "rank 0:\n"
     "rank 1:\n"},
    {"require r == 0 \"only rank 0\"; F r", "P=3 M=1",
     "x.sched:4:9: error: only rank 0, with r = 1 (and 1 more like this)\n"
     "    4 | require r == 0 \"only rank 0\"; F r\n"
     "      |         ^~~~~~  (rank 1, P=3 M=1)\n"},
    {"let twice(x) = 2 * x; repeat twice(twice(1)) / 2 { F r }", "P=1 M=2",
     "stages 0 0\n"
     "rank 0: 0F0 0F1\n"},
    {"F 0; let x = 1 / (r - 1); F 0", "P=3 M=2",
     "x.sched:4:18: error: the divisor in 1 / -1 is negative, with r = 0\n"
     "    4 | F 0; let x = 1 / (r - 1); F 0\n"
     "      |                  ^~~~~~~  (rank 0, P=3 M=2)\n"
     "x.sched:4:3: error: stage 0 lives on rank 0, not on rank 1 (and 1 more like this)\n"
     "    4 | F 0; let x = 1 / (r - 1); F 0\n"
     "      |   ^  (rank 1, P=3 M=2)\n"},
    {"repeat M { F r } repeat M + 1 { B r }", "P=3 M=1",
     "x.sched:4:33: error: 0B1 is past the last microbatch, 0B0 (and 2 more like this)\n"
     "    4 | repeat M { F r } repeat M + 1 { B r }\n"
     "      |                                 ^~~  (rank 0, iteration 1, P=3 M=1)\n"},
    {"F r @ 0 - 1", "P=1 M=2",
     "x.sched:4:1: error: 0F-1 is before the first microbatch, 0F0\n"
     "    4 | F r @ 0 - 1\n"
     "      | ^~~~~~~~~~~  (rank 0, P=1 M=2)\n"},
};

TEST(Elaborate, RankBlocks) {
  for (const ElaborateCase& c : kRanks) EXPECT_EQ(ElaborateRank(c), c.expected) << c.body;
}

const ElaborateCase kSchedules[] = {
    // Stages
    {"stages P on line; rank r { F r }", "P=3 M=1",
     "stages 0 1 2\n"
     "rank 0: 0F0\n"
     "rank 1: 1F0\n"
     "rank 2: 2F0\n"},
    {"stages P on reversed line; rank r { F P - 1 - r }", "P=3 M=1",
     "stages 2 1 0\n"
     "rank 0: 2F0\n"
     "rank 1: 1F0\n"
     "rank 2: 0F0\n"},
    {"stages V * P on loop; rank r { F r; F P + r }", "P=2 M=1",
     "stages 0 1 0 1\n"
     "rank 0: 0F0 2F0\n"
     "rank 1: 1F0 3F0\n"},
    {"stages 3 * P on wave; rank r { F r }", "P=2 M=1",
     "stages 0 1 1 0 0 1\n"
     "rank 0: 0F0\n"
     "rank 1: 1F0\n"},
    {"stages 2 * P on reversed v; rank r { F P - 1 - r }", "P=2 M=1",
     "stages 1 0 0 1\n"
     "rank 0: 1F0\n"
     "rank 1: 0F0\n"},
    {"stages G on s -> s % P; rank r { F r }", "P=2 M=1",
     "stages 0 1 0 1\n"
     "rank 0: 0F0\n"
     "rank 1: 1F0\n"},
    {"stages 3 on s -> s; rank r { }", "P=2 M=1",
     "x.sched:2:18: error: stage 2 is put on rank 2, but the ranks are 0 .. 1\n"
     "    2 | stages 3 on s -> s; rank r { }\n"
     "      |                  ^  (P=2 M=1 V=2 G=4)\n"},
    {"stages 3 on s -> 0 - s; rank r { }", "P=2 M=1",
     "x.sched:2:18: error: stage 1 is put on rank -1, but the ranks are 0 .. 1\n"
     "    2 | stages 3 on s -> 0 - s; rank r { }\n"
     "      |                  ^~~~~  (P=2 M=1 V=2 G=4)\n"},
    {"stages 3 on loop; rank r { }", "P=2 M=1",
     "x.sched:2:13: error: there are 3 stages for 2 ranks, and 'loop' puts the same number of "
     "stages on every rank\n"
     "    2 | stages 3 on loop; rank r { }\n"
     "      |             ^~~~  (P=2 M=1 V=2 G=4)\n"},
    {"stages P - 2 on loop; rank r { }", "P=2 M=1",
     "x.sched:2:8: error: there are 0 stages, with P = 2\n"
     "    2 | stages P - 2 on loop; rank r { }\n"
     "      |        ^~~~~  (P=2 M=1 V=2 G=4)\n"},
    {"stages 9999999 on loop; rank r { }", "P=3 M=1",
     "x.sched:2:8: error: there are 9999999 stages, more than 1048576\n"
     "    2 | stages 9999999 on loop; rank r { }\n"
     "      |        ^~~~~~~  (P=3 M=1 V=2 G=5)\n"},
    {"stages P on s -> 7 / s; rank r { }", "P=2 M=1",
     "x.sched:2:22: error: the divisor in 7 / 0 is zero, with s = 0\n"
     "    2 | stages P on s -> 7 / s; rank r { }\n"
     "      |                      ^  (P=2 M=1 V=2 G=4)\n"},
    // Options
    {"stages V on s -> 0; rank r { if r == 0 { F G } }", "P=2 M=1 V=9",
     "x.sched:2:44: error: stage 11 does not exist: the stages are 0 .. 8, with G = 11\n"
     "    2 | stages V on s -> 0; rank r { if r == 0 { F G } }\n"
     "      |                                            ^  (rank 0, P=2 M=1 V=9 G=11)\n"},
    {"stages V on s -> 0; rank r { if r == 0 { F G } }", "P=2 M=1 G=1",
     "stages 0 0\n"
     "rank 0: 1F0\n"
     "rank 1:\n"},
    {"stages P on line; rank r { }", "P=2 Q=3 P=1",
     "x.sched:1:10: error: schedule 's' has no parameter 'Q'; it has P, M, V, G\n"
     "    1 | schedule s(P, M, V = 2, G = P + V) {\n"
     "      |          ^\n"
     "x.sched:1:12: error: 'P' is given twice\n"
     "    1 | schedule s(P, M, V = 2, G = P + V) {\n"
     "      |            ^\n"
     "x.sched:1:15: error: no value is given for 'M'\n"
     "    1 | schedule s(P, M, V = 2, G = P + V) {\n"
     "      |               ^\n"},
    // Padding
    {"stages P on line; pad microbatches to 4; rank r { repeat 4 { F r } repeat 3 { F r @ 3 } }",
     "P=1 M=2",
     "x.sched:2:79: error: 0F3 is done a second time\n"
     "    2 | stages P on line; pad microbatches to 4; rank r { repeat 4 { F r } repeat 3 { F r @ "
     "3 } }\n"
     "      |                                                                               "
     "^~~~~~~  (rank 0, iteration 0, P=1 M=2 V=2 G=3)\n"},
    {"stages P on line; pad microbatches to 4; rank r { repeat 4 { F r } repeat 4 { I r } repeat 4 "
     "{ W } }",
     "P=1 M=2",
     "stages 0\n"
     "rank 0: 0F0 0F1 0I0 0I1 0W0 0W1\n"},
    {"stages P on line; pad microbatches to 3; rank r { F r; repeat 2 { F r & B r } B r }",
     "P=1 M=2",
     "stages 0\n"
     "rank 0: 0F0 0F1&0B0 0B1\n"},
    {"stages P on line; pad microbatches to 3; rank r { repeat 3 { F r @ 2 & B r } }", "P=1 M=2",
     "x.sched:2:62: error: 0F2 is done a second time\n"
     "    2 | stages P on line; pad microbatches to 3; rank r { repeat 3 { F r @ 2 & B r } }\n"
     "      |                                                              ^~~~~~~  (rank 0, "
     "iteration 1, P=1 M=2 V=2 G=3)\n"},
    {"stages P on line; pad microbatches to 3; rank r { F r @ 2 & B r; F r; repeat 3 { F r } }",
     "P=1 M=2",
     "x.sched:2:82: error: 0F3 is past the last microbatch, 0F2\n"
     "    2 | stages P on line; pad microbatches to 3; rank r { F r @ 2 & B r; F r; repeat 3 { F r "
     "} }\n"
     "      |                                                                                  ^~~ "
     " (rank 0, iteration 1, P=1 M=2 V=2 G=3)\n"},
    // Hints at the meant word
    {"stages P on zigzag; rank r { }", "P=1 M=1",
     "x.sched:2:13: error: there is no layout 'zigzag'; there are line, loop, v, wave\n"
     "    2 | stages P on zigzag; rank r { }\n"
     "      |             ^~~~~~\n"},
    {"stages P on line; rank r greedy { prefer F; }", "P=1 M=2",
     "x.sched:2:42: error: rank 0 performs 2 actions, and then nothing it may do is left before "
     "all "
     "is done: it prefers neither B nor I\n"
     "    2 | stages P on line; rank r greedy { prefer F; }\n"
     "      |                                          ^  (P=1 M=2 V=2 G=3)\n"},
    // Several findings at once
    {"let x = a + b; stages P on lne; rank r { F c; repeat b { F d } }", "P=1 M=2",
     "x.sched:2:9: error: nothing above is called 'a'\n"
     "    2 | let x = a + b; stages P on lne; rank r { F c; repeat b { F d } }\n"
     "      |         ^\n"
     "x.sched:2:13: error: nothing above is called 'b'\n"
     "    2 | let x = a + b; stages P on lne; rank r { F c; repeat b { F d } }\n"
     "      |             ^\n"
     "x.sched:2:28: error: there is no layout 'lne'; did you mean 'line'?\n"
     "    2 | let x = a + b; stages P on lne; rank r { F c; repeat b { F d } }\n"
     "      |                            ^~~\n"
     "x.sched:2:44: error: nothing above is called 'c'\n"
     "    2 | let x = a + b; stages P on lne; rank r { F c; repeat b { F d } }\n"
     "      |                                            ^\n"
     "x.sched:2:60: error: nothing above is called 'd'\n"
     "    2 | let x = a + b; stages P on lne; rank r { F c; repeat b { F d } }\n"
     "      |                                                            ^\n"},
    {"stages P on line; rank r { if r == 0 { F r + 1 } else if r == 1 { W r } else { F r; F r } }",
     "P=3 M=1",
     "x.sched:2:42: error: stage 1 lives on rank 1, not on rank 0, with r = 0\n"
     "    2 | stages P on line; rank r { if r == 0 { F r + 1 } else if r == 1 { W r } else { F r; "
     "F r } }\n"
     "      |                                          ^~~~~  (rank 0, P=3 M=1 V=2 G=5)\n"
     "x.sched:2:67: error: a W of stage 1, which has nothing deferred\n"
     "    2 | stages P on line; rank r { if r == 0 { F r + 1 } else if r == 1 { W r } else { F r; "
     "F r } }\n"
     "      |                                                                   ^~~  (rank 1, P=3 "
     "M=1 V=2 G=5)\n"
     "x.sched:2:85: error: 2F1 is past the last microbatch, 2F0\n"
     "    2 | stages P on line; rank r { if r == 0 { F r + 1 } else if r == 1 { W r } else { F r; "
     "F r } }\n"
     "      |                                                                                     "
     "^~~  (rank 2, P=3 M=1 V=2 G=5)\n"},
};

TEST(Elaborate, Schedules) {
  for (const ElaborateCase& c : kSchedules) EXPECT_EQ(ElaborateSchedule(c), c.expected) << c.body;
}

TEST(Elaborate, SchedulesOfAFileByName) {
  const std::string text =
      "schedule a(P, M) { stages P on line; rank r { F r } }\n"
      "schedule b(P, M) { stages P on line; rank r { B r } }\n";
  EXPECT_EQ(Elaborated(text, ParametersOf("P=1 M=1"), {}, "a"),
            "plan a P=1 M=1\nstages 0\nrank 0: 0F0\n");
  EXPECT_EQ(Elaborated(text, ParametersOf("P=1 M=1"), {}, "b"),
            "plan b P=1 M=1\nstages 0\nrank 0: 0B0\n");
  EXPECT_EQ(Elaborated(text, ParametersOf("P=1 M=1")),
            Elaborated(text, ParametersOf("P=1 M=1"), {}, "b"));
}

TEST(Elaborate, ParametersAreInTheOrderDeclared) {
  const std::string text =
      "schedule s(P, M, V = M + 1, G = P * V) { stages P on line; rank r { } }";
  EXPECT_EQ(Elaborated(text, ParametersOf("M=3 P=2")),
            "plan s P=2 M=3 V=4 G=8\nstages 0 1\nrank 0:\nrank 1:\n");
  EXPECT_EQ(Elaborated(text, ParametersOf("G=1 M=3 P=2 V=-1")),
            "plan s P=2 M=3 V=-1 G=1\nstages 0 1\nrank 0:\nrank 1:\n");
}

// The origins of a plan's actions: spans in the source and iterations.
TEST(Elaborate, ActionsBearTheirPlacesAndIterations) {
  const Source source("x.sched",
                      "schedule s(P, M) { stages P on line; rank r { order f { F r @ 0; F r @ 1 }\n"
                      "  repeat 2 as i { repeat 1 { } repeat i { f & B r } } f } }");
  Diagnostics diagnostics;
  const std::optional<ast::File> file = Parse(source, &diagnostics);
  ASSERT_TRUE(file) << Render(diagnostics, source);
  const std::optional<Plan> plan = Elaborate(*file, "", ParametersOf("P=1 M=2"), &diagnostics);
  ASSERT_TRUE(plan) << Render(diagnostics, source);
  std::string out;
  for (const Action& action : plan->actions) {
    const Span span = SpanOf(*plan, action);
    absl::StrAppend(&out, Print(*plan, action), " '",
                    source.text().substr(span.begin, span.end - span.begin), "' ",
                    source.Locate(span.begin).line, ":", source.Locate(span.begin).column, " (",
                    WhereOf(*plan, action), ")\n");
  }
  EXPECT_EQ(out,
            "0F0 'f' 2:43 (iteration 1.0, P=1 M=2)\n"
            "0B0 'B r' 2:47 (iteration 1.0, P=1 M=2)\n"
            "0F1 'f' 2:55 (P=1 M=2)\n");
  // Passes in which nothing is performed leave no trace.
  EXPECT_EQ(plan->iterations.size(), 2u);
}

TEST(Elaborate, StopsAtItsLimits) {
  const ElaborateLimits limits{.actions = 10, .steps = 100, .steps_per_action = 0, .ranks = 8};
  const auto stopped = [&](const std::string& body, const std::string& parameters) {
    const std::string text = Elaborated(
        absl::StrCat("schedule s(P, M) { let f(x) = x; stages P on line; rank r { ", body, " } }"),
        ParametersOf(parameters), limits);
    return text.substr(0, text.find('\n'));
  };
  EXPECT_EQ(stopped("repeat M { F r; B r }", "P=1 M=5"), "plan s P=1 M=5");
  EXPECT_EQ(stopped("repeat M { F r; I r } W", "P=1 M=5"),
            "x.sched:1:83: error: elaboration is stopped here: more than 10 actions");
  EXPECT_EQ(stopped("order g { repeat 11 { F r } }", "P=1 M=5"),
            "x.sched:1:83: error: elaboration is stopped here: more than 10 actions");
  EXPECT_EQ(
      stopped("", "P=1 M=6"),
      "x.sched:1:10: error: 1 stage and 6 microbatches take at least 12 actions, more than 10; on "
      "so many stages a step has at most 5 microbatches");
  EXPECT_EQ(
      stopped("", "P=3 M=2"),
      "x.sched:1:10: error: 3 stages and 2 microbatches take at least 12 actions, more than 10; on "
      "so many stages a step has at most 1 microbatch");
  EXPECT_EQ(stopped("repeat 10 { repeat 7 { } }", "P=1 M=1"), "plan s P=1 M=1");
  EXPECT_EQ(stopped("repeat 10 { repeat 10 { } }", "P=1 M=1"),
            "x.sched:1:80: error: elaboration is stopped here: more than 100 steps");
  EXPECT_EQ(stopped("repeat 101 { }", "P=1 M=1"),
            "x.sched:1:68: error: elaboration is stopped here: more than 100 steps");
  EXPECT_EQ(stopped("repeat 40 { let x = f(f(1)); }", "P=1 M=1"),
            "x.sched:1:31: error: elaboration is stopped here: more than 100 steps");
  EXPECT_EQ(stopped("", "P=9 M=1"), "x.sched:1:12: error: 'P' is 9, which is not in 1 .. 8");
}

}  // namespace
}  // namespace stringline
