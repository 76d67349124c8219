// Layers by stage, and stages among several pipes: texts with their meanings or their findings.
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "schedlang/elaborate/elaborate.h"
#include "tests/schedlang/elaborated.h"

namespace stringline {
namespace {

struct SaidCase {
  const char* text;
  const char* expected;  // a line of the plan, or the first line of the findings
};

// The line of the plan that begins with `word`, or the first line of the findings.
std::string LineOf(const std::string& answer, const std::string& word) {
  const size_t line = answer.find(absl::StrCat("\n", word));
  const std::string from = line == std::string::npos ? answer : answer.substr(line + 1);
  return from.substr(0, from.find('\n'));
}

const SaidCase kSplits[] = {
    {"split s -> 3;", "split layers 3 3 3 3"},
    {"split s -> s == 0 or s == 2 * P - 1 ? 3 : 4;", "split layers 3 4 4 3"},
    {"let few = M; split stage -> max(few - stage, 0);", "split layers 2 1 0 0"},
    // `even` is a keyword only where no expression follows.
    {"split even -> even;", "split layers 0 1 2 3"},
    {"split even;", "plan s P=2 M=2"},
    {"split [3, 4, 4, 3];", "split layers 3 4 4 3"},
    {"split s -> 2 - s;", "x.sched:2:12: error: a stage of -1 layers, with s = 3"},
    {"split s -> s * 4000000000;", "x.sched:2:12: error: a stage of 4000000000 layers, with s = 1"},
    {"split s -> 6 / s;", "x.sched:2:16: error: the divisor in 6 / 0 is zero, with s = 0"},
    {"split P -> 3;", "x.sched:2:7: error: 'P' is defined again"},
    {"split repeat -> 3;", "x.sched:2:7: error: 'repeat' is a word of the language, not a name"},
    {"split s -> t;", "x.sched:2:12: error: nothing above is called 't'"},
    {"split s -> 3; let x = s;", "x.sched:2:23: error: nothing above is called 's'"},
    {"split [3, 4];", "x.sched:2:1: error: the layers are split over 2 stages, but there are 4"},
};

TEST(SplitTest, IsSaidByStage) {
  for (const SaidCase& c : kSplits) {
    const std::string text =
        absl::StrCat("schedule s(P, M) { stages 2 * P on v;\n", c.text, "\nrank r { } }");
    EXPECT_EQ(LineOf(Elaborated(text, {{"P", 2}, {"M", 2}}), "split"), c.expected) << c.text;
  }
}

TEST(SplitTest, IsTheSameForEveryPipe) {
  const std::string text =
      "schedule s(P, M) {\n"
      "  pipe a { stages P on line; microbatches 1; }\n"
      "  pipe b { stages P on reversed line; microbatches M - 1; }\n"
      "  split s -> s + 1;\n"
      "  rank r { }\n"
      "}\n";
  EXPECT_EQ(LineOf(Elaborated(text, {{"P", 3}, {"M", 2}}), "split"), "split layers 1 2 3");
}

#define NO_PIPE "error: this stage does not say its pipe, and there are 2; "
const SaidCase kStages[] = {
    {"F down[r]", "rank 0: down[0]F0"},
    {"let a = r == 0 ? down[r] : up[P - 1 - r]; F a", "rank 0: down[0]F0"},
    {"let a = up[1]; let b = r == 0 ? a : down[1]; F b", "rank 0: up[1]F0"},
    {"let mine(s) = r == 0 ? up[P - 1 - s] : down[s]; F mine(r)", "rank 0: up[1]F0"},
    {"let same(s) = s; F same(down[r]); let f(x) = same(x); F f(r == 0 ? up[1] : up[0])",
     "rank 0: down[0]F0 up[1]F0"},
    {"F min(down[r], up[0])", "rank 0: down[0]F0"},
    {"F down[0] + r", "rank 0: down[0]F0"},  // still made from a stage of a pipe
    {"F down[r]; I down[r]; W", "rank 0: down[0]F0 down[0]I0 down[0]W0"},
    {"F r", "x.sched:5:14: " NO_PIPE "'F down[k]' means stage k of 'down'"},
    {"F down[r] & B r @ 0", "x.sched:5:26: " NO_PIPE "'B down[k]' means stage k of 'down'"},
    {"F r == 0 ? down[0] : 1", "x.sched:5:14: " NO_PIPE "'F down[k]' means stage k of 'down'"},
    {"F down[r] == 0", "x.sched:5:14: " NO_PIPE "'F down[k]' means stage k of 'down'"},
    {"let s = P - r; F s", "x.sched:5:29: " NO_PIPE "'F down[k]' means stage k of 'down'"},
    {"let f(x) = down[x] > 0 ? x : r; F f(r)",
     "x.sched:5:46: " NO_PIPE "'F down[k]' means stage k of 'down'"},
    {"order o { F r } o", "x.sched:5:24: " NO_PIPE "'F down[k]' means stage k of 'down'"},
    {"W r", "x.sched:5:14: " NO_PIPE "'W down[k]' means stage k of 'down'"},
    {"unshard r", "x.sched:5:20: " NO_PIPE "'unshard down[k]' means stage k of 'down'"},
    // Any other finding comes first.
    {"F r; F stage", "x.sched:5:19: error: nothing above is called 'stage'"},
};
#undef NO_PIPE

TEST(PipesTest, EveryStageSaysItsPipe) {
  for (const SaidCase& c : kStages) {
    const std::string text = absl::StrCat(
        "schedule s(P, M) {\n"
        "  pipe down { stages P on line; microbatches M / 2; }\n"
        "  pipe up   { stages P on reversed line; microbatches M / 2; }\n"
        "  # both\n",
        "  rank r { ", c.text, " }\n}\n");
    EXPECT_EQ(LineOf(Elaborated(text, {{"P", 2}, {"M", 2}}), "rank 0"), c.expected) << c.text;
  }
}

TEST(PipesTest, SlotsToo) {
  const std::string text =
      "schedule s(P, M) {\n"
      "  rank r timetable { at 0 : F r; }\n"  // before the pipes
      "  pipe down { stages P on line; microbatches M; }\n"
      "  pipe up   { stages P on reversed line; microbatches 0; }\n"
      "}\n";
  EXPECT_EQ(Elaborated(text, {{"P", 1}, {"M", 1}}),
            "x.sched:2:31: error: this stage does not say its pipe, and there are 2; 'F down[k]' "
            "means stage k of 'down'\n"
            "    2 |   rank r timetable { at 0 : F r; }\n"
            "      |                               ^\n");
}

TEST(PipesTest, OfOnePipeAllStagesAre) {
  const std::string text =
      "schedule s(P, M) { pipe only { stages P on line; microbatches M; } rank r { F r } }";
  EXPECT_EQ(LineOf(Elaborated(text, {{"P", 1}, {"M", 1}}), "rank 0"), "rank 0: only[0]F0");
}

}  // namespace
}  // namespace stringline
