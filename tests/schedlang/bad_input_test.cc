// Texts that are no schedules, or would never end: each gives a single clear finding and no crash.
// These run under the sanitizers too.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "schedlang/elaborate/elaborate.h"
#include "schedlang/text/parse.h"
#include "tests/schedlang/elaborated.h"

namespace stringline {
namespace {

// Parses, elaborates if parsing succeeded, and renders, so that every part sees the text. Returns
// the number of findings; expects a plan or at least a finding.
int FindingsOf(const std::string& text) {
  const Source source("x.sched", text);
  Diagnostics diagnostics;
  const std::optional<ast::File> file = Parse(source, &diagnostics);
  EXPECT_NE(file.has_value(), !diagnostics.empty());
  if (!file) {
    EXPECT_EQ(diagnostics.findings().size(), 1u) << "the parser stops at the first mistake";
  }
  const ElaborateLimits limits{
      .actions = 10'000, .steps = 10'000, .ranks = 64, .searched_letters = 10'000};
  if (file) {
    const auto plan = Elaborate(*file, "", {{"P", 2}, {"M", 4}}, &diagnostics, limits);
    EXPECT_NE(plan.has_value(), !diagnostics.empty());
  }
  for (const Diagnostic& d : diagnostics.findings()) {
    EXPECT_FALSE(d.text.empty());
    EXPECT_LE(d.span.begin, d.span.end);
    EXPECT_LE(d.span.end, text.size());
  }
  EXPECT_EQ(Render(diagnostics, source).empty(), diagnostics.empty());
  return static_cast<int>(diagnostics.findings().size());
}

const char* const kFiles[] = {"interleaved", "dualpipe_v", "zb_v", "zb_h2"};

std::string Library(const char* name) {
  return ReadTestFile(absl::StrCat("schedules/", name, ".sched"));
}

TEST(BadInput, TruncatedAtEveryByte) {
  for (const char* name : kFiles) {
    const std::string whole = Library(name);
    const size_t last = whole.rfind('}');
    for (size_t length = 0; length <= last; ++length) {
      EXPECT_EQ(FindingsOf(whole.substr(0, length)), 1) << name << " cut after " << length;
    }
    EXPECT_EQ(FindingsOf(whole), 0) << name;
  }
}

TEST(BadInput, SearchBlocksOfWhichBytesAreMissing) {
  const std::string whole =
      "schedule s(P, M) {\n  stages 2 * P on v;\n  rank r search {\n    minimize period;\n"
      "    within memory 8 * P - r;\n    prefer B, F, I, W;\n    pairs F & B costs s -> s + 3;\n"
      "    costs F [1, 2, 2, 1], I 1, W 1, p2p 1, saved_for_I 1, stash s -> 1;\n    iterations "
      "12;\n  }\n}";
  EXPECT_EQ(FindingsOf(whole), 0);
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_EQ(FindingsOf(whole.substr(0, i)), 1) << "cut after " << i;
    FindingsOf(absl::StrCat(whole.substr(0, i), whole.substr(i + 1)));
    FindingsOf(absl::StrCat(whole.substr(0, i + 1), whole.substr(i)));
  }
}

TEST(BadInput, EveryByteLeftOutOrDoubled) {
  const std::string whole = Library("interleaved");
  for (size_t i = 0; i < whole.size(); ++i) {
    FindingsOf(absl::StrCat(whole.substr(0, i), whole.substr(i + 1)));
    FindingsOf(absl::StrCat(whole.substr(0, i + 1), whole.substr(i)));
  }
}

TEST(BadInput, RandomBytesAndRandomWords) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937 random(seed);
  const std::string whole = Library("dualpipe_v");
  const char* const words[] = {"F",   "B",   "I",    "W", "(", ")", "{",      "}",  ";",     "&",
                               "@",   "let", "if",   "r", "P", "3", "repeat", "as", "order", "-",
                               "not", "?",   "else", ":", "x", "=", ",",      "M",  "\"t\"", "<"};
  for (int round = 0; round < 500; ++round) {
    std::string noise = whole;
    for (int i = 0; i < 4; ++i) noise[random() % noise.size()] = static_cast<char>(random());
    FindingsOf(noise);
    std::string binary(random() % 200, ' ');
    for (char& c : binary) c = static_cast<char>(random());
    FindingsOf(binary);
    std::string salad = "schedule s(P, M) { stages P on line; rank r { ";
    for (unsigned i = random() % 40; i > 0; --i) {
      absl::StrAppend(&salad, words[random() % std::size(words)], " ");
    }
    FindingsOf(absl::StrCat(salad, "} }"));
  }
}

std::string Repeated(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

// The first line of the single finding about a schedule with this text in its rank block.
std::string FindingIn(const std::string& text) {
  const std::string rendered =
      Elaborated(absl::StrCat("schedule s(P, M) { stages P on line; rank r {\n", text, "\n} }"),
                 {{"P", 1}, {"M", 1}});
  return rendered.substr(0, rendered.find('\n'));
}

TEST(BadInput, DeepNesting) {
  constexpr int kDeep = 100'000;
  const std::string too_deep = "error: nested more than 200 deep here";
  const std::string deep_expression = "error: an expression is nested more than 200 deep here";
  EXPECT_EQ(FindingIn("F " + Repeated("(", kDeep) + "0" + Repeated(")", kDeep)),
            "x.sched:2:201: " + too_deep);
  EXPECT_EQ(FindingIn("F " + Repeated("min(0, ", kDeep)), "x.sched:2:1392: " + too_deep);
  EXPECT_EQ(FindingIn(Repeated("repeat 1 { ", kDeep)), "x.sched:2:2188: " + too_deep);
  EXPECT_EQ(FindingIn(Repeated("if 1 {", kDeep)), "x.sched:2:1194: " + too_deep);
  EXPECT_EQ(FindingIn(Repeated("{", kDeep)), "x.sched:2:199: " + too_deep);
  EXPECT_EQ(FindingIn("F " + Repeated("1 ? ", kDeep)), "x.sched:2:797: " + too_deep);
  EXPECT_EQ(FindingIn("F " + Repeated("- ", kDeep) + "0"), "x.sched:2:403: " + deep_expression);
  EXPECT_EQ(FindingIn("F " + Repeated("not ", kDeep) + "0"), "x.sched:2:803: " + deep_expression);
  EXPECT_EQ(FindingIn("F " + Repeated("0 + ", kDeep) + "0"), "x.sched:2:803: " + deep_expression);
  EXPECT_EQ(FindingIn("F " + Repeated("0 ? 1 : ", kDeep) + "0"),
            "x.sched:2:1603: " + deep_expression);
}

TEST(BadInput, NestingThatIsNotTooDeep) {
  constexpr int kDeep = 190;
  const std::string plan = "plan s P=1 M=1";
  EXPECT_EQ(FindingIn("F " + Repeated("(", kDeep) + "0" + Repeated(")", kDeep)), plan);
  EXPECT_EQ(FindingIn("F " + Repeated("min(0, ", kDeep) + "0" + Repeated(")", kDeep)), plan);
  EXPECT_EQ(FindingIn(Repeated("repeat 1 { ", kDeep) + "F 0" + Repeated("}", kDeep)), plan);
  EXPECT_EQ(FindingIn("F " + Repeated("- ", kDeep) + "0"), plan);
  EXPECT_EQ(FindingIn("F " + Repeated("1 ? ", kDeep) + "0" + Repeated(" : 0", kDeep)), plan);
}

TEST(BadInput, LongButFlat) {
  constexpr int kLong = 20'000;
  EXPECT_EQ(FindingIn(Repeated("let f(x) = x; { ", 1)),
            "x.sched:2:15: error: expected a statement or '}' before '{'");
  EXPECT_EQ(FindingIn("if 0 { }" + Repeated(" else if 0 { }", kLong)), "plan s P=1 M=1");
  EXPECT_EQ(FindingIn("F 0" + Repeated("; require 1 \"\"", kLong)), "plan s P=1 M=1");
  EXPECT_EQ(FindingIn("if 0 { F 0" + Repeated(" & F 0", kLong) + " }"), "plan s P=1 M=1");
  EXPECT_EQ(FindingIn("let x = min(0" + Repeated(", 0", kLong) + ");"), "plan s P=1 M=1");
}

// Functions that call the function above them: deeper than any expression, and twice per function.
TEST(BadInput, CallsThatMultiply) {
  std::string chain = "let f0(x) = x; ";
  std::string tree = chain;
  for (int i = 1; i <= 2000; ++i) {
    absl::StrAppend(&chain, "let f", i, "(x) = f", i - 1, "(x); ");
    if (i <= 60) absl::StrAppend(&tree, "let f", i, "(x) = f", i - 1, "(x) + f", i - 1, "(x); ");
  }
  EXPECT_NE(
      FindingIn(absl::StrCat(chain, "let y = f500(1);")).find("calls are nested more than 1000"),
      std::string::npos);
  const std::string text =
      absl::StrCat("schedule s(P, M) { stages P on line; rank r { ", tree, " let y = f60(1); } }");
  const std::string stopped = Elaborated(text, {{"P", 1}, {"M", 1}},
                                         {.actions = 10, .steps = 100'000, .steps_per_action = 0});
  EXPECT_NE(stopped.find("elaboration is stopped here: more than 100000 steps"), std::string::npos);
}

TEST(BadInput, LoopsThatWouldNotEnd) {
  // 20 million, and 100 for each F, I and W of the only microbatch.
  const std::string stopped = "error: elaboration is stopped here: more than 20000300 steps";
  EXPECT_EQ(FindingIn("repeat 1152921504606846976 { }"), "x.sched:2:8: " + stopped);
  EXPECT_EQ(FindingIn("repeat 9223372036854775807 { let x = 1; }"), "x.sched:2:8: " + stopped);
  EXPECT_EQ(FindingIn("repeat 10000 { repeat 10000 { } }"), "x.sched:2:23: " + stopped);
}

// "let f0(x) = x; let f1(x) = BODY; …": in BODY, @ is the function before.
std::string Functions(int count, const std::string& body) {
  std::string text = "let f0(x) = x; ";
  for (int i = 1; i <= count; ++i) {
    absl::StrAppend(&text, "let f", i,
                    "(x) = ", absl::StrReplaceAll(body, {{"@", absl::StrCat("f", i - 1)}}), "; ");
  }
  return text;
}

struct EndlessCase {
  std::string schedule;  // its statements
  const char* finding;   // a part of the only finding
  const char* parameters = "P=2 M=8";
};

// Anything that would run for hours, or use up the memory, is stopped after a counted number of
// steps: a second on any machine. The findings name the thing that was counted.
TEST(BadInput, NothingRunsAway) {
  const char* const kSteps = "elaboration is stopped here: more than 200";
  const std::string on_line = "stages P on line; ";
  const std::string doubling = Functions(60, "@(x) + @(x)");
  const std::string wide = Repeated("x, ", 20'000);
  const EndlessCase cases[] = {
      // Functions that call the function before them more than once
      {doubling + on_line + "let y = f60(1); rank r { }", kSteps},
      {doubling + on_line + "require f60(1) > 0 \"\"; rank r { }", kSteps},
      {doubling + "stages f60(1) on line; rank r { }", kSteps},
      {doubling + "stages 2 * P on s -> f60(s); rank r { }", kSteps},
      {doubling + on_line + "pad microbatches to f60(M); rank r { }", kSteps},
      {doubling + on_line + "split s -> f60(s); rank r { }", kSteps},
      {doubling + "pipe p { stages P on line; microbatches f60(M); } rank r { }", kSteps},
      {doubling + on_line + "rank r { let y = f60(1); }", kSteps},
      {doubling + on_line + "rank r { repeat f60(1) { } }", kSteps},
      {doubling + on_line + "rank r { if f60(1) > 0 { } }", kSteps},
      {doubling + on_line + "rank r { F f60(0) }", kSteps},
      {doubling + on_line + "rank r { F r @ f60(0) }", kSteps},
      {doubling + on_line + "rank r { order o { F f60(0) } }", kSteps},
      {doubling + on_line + "rank r { unshard f60(0) }", kSteps},
      {doubling + on_line + "rank r timetable { at f60(0) : F r }", kSteps},
      {doubling + on_line + "rank r greedy { prefer B, F; hold at most f60(1) }", kSteps},
      {doubling + on_line + "rank r greedy { prefer B, F; costs F s -> f60(s), B 1 }", kSteps},
      {doubling + on_line + "rank r greedy { prefer B, F; costs p2p f60(1) }", kSteps},
      {doubling + on_line + "rank r search { within activations f60(1) }", kSteps},
      {doubling + on_line + "rank r search { pairs F & B costs s -> f60(s) }", kSteps},
      {doubling + on_line + "rank r search { iterations f60(1) }", kSteps},
      {Functions(60, "@(@(x))") + on_line + "let y = f60(1); rank r { }", kSteps},
      {Functions(60, "min(@(x), @(x + 1), @(x))") + on_line + "let y = f60(1); rank r { }", kSteps},
      {Functions(60, "@(x) and @(x)") + on_line + "let y = f60(1); rank r { }", kSteps},
      {Functions(60, "@(x) ? @(x) : 0") + on_line + "let y = f60(1); rank r { }", kSteps},
      {Functions(300, "@(@(x) * 0)") + on_line + "let y = f300(1); rank r { }", kSteps},
      {Functions(2000, "@(x)") + on_line + "let y = f2000(1); rank r { }",
       "calls are nested more than 1000 deep here"},
      {"let f(n) = n == 0 ? 1 : f(n - 1) + f(n - 1); " + on_line + "rank r { }",
       "nothing above is called 'f'; a function cannot use itself"},
      // Long expressions, again and again
      {"let f(x) = min(" + wide + "1); " + on_line + "rank r { repeat 1000000 { let y = f(1) } }",
       kSteps},
      {on_line + "rank r { repeat 1000000 { let x = r; let y = max(" + wide + "1) } }", kSteps},
      // Loops
      {on_line + "rank r { repeat 9223372036854775807 { } }", kSteps},
      {on_line + "rank r { repeat 5000 { repeat 5000 { } } }", kSteps},
      {on_line + "rank r { repeat 400 { repeat 400 { repeat 400 { if r > 5 { F r } } } } }",
       kSteps},
      {on_line + "rank r { repeat 10000000 { let x = r + 1; } }", kSteps},
      {on_line + "rank r { repeat 15000000 { require 1 \"\" } }", kSteps},
      // Actions, performed, written down, in slots
      {on_line + "rank r { order o { repeat 1000000000 { F r } } }", kSteps},
      {on_line + "rank r { order o { repeat 10000000 { F r } } }", kSteps},
      {on_line + "rank r { repeat 10000000 { unshard r } }", kSteps},
      {on_line + "rank r timetable { repeat 10000000 as i { at i : F r } }", kSteps},
      {on_line + "rank r timetable { at r * 1000000000000 : F r; }",
       "slot 1000000000000 is more than 1008000 after slot 0"},
      {on_line + "rank r timetable { at 0 : F r; at 99000000 : B r; fill W }",
       "slot 99000000 is more than 1008000 after slot 0"},
      {on_line + "rank r timetable { at r * 100 : F r; at 1000000 + r : I r; fill W }",
       "elaboration is stopped here: more than 20300000 steps", "P=1000 M=1"},
      {on_line + "pad microbatches to 4000000; rank r { repeat 4000000 { F r + 0; B r + 0 } }",
       kSteps},
      {on_line + "pad microbatches to 2000000000; rank r { }",
       "2 stages and 2000000000 microbatches take at least 8000000000 actions"},
      // Stages, layers, schedules
      {"stages 1000000 * P on loop; rank r { }", "2000000 stages, more than 1048576"},
      {"stages 2000 * P on loop; rank r { }", "4000 stages for 2 ranks, more than 1024 a rank"},
      {on_line + "split \"E" + Repeated("()*1000000", 20'000) + "|L\"; rank r { } let z = q;",
       "nothing above is called 'q'"},
      {on_line + "split \"E((((t*1000)*1000)*1000)*1000)L\"; rank r { }",
       "the layout is longer than 1048576 items here"},
      {"let x = 4611686018427387904 * 4; " + on_line + "rank r { }", "overflows 64 bits"},
  };
  for (const EndlessCase& c : cases) {
    const std::string text = absl::StrCat("schedule s(P, M) { ", c.schedule, " }");
    const std::string answer = Elaborated(text, ParametersOf(c.parameters));
    EXPECT_NE(answer.find(c.finding), std::string::npos) << text.substr(0, 100) << "\n"
                                                         << answer.substr(0, 300);
    EXPECT_EQ(answer.find("error: "), answer.rfind("error: ")) << answer.substr(0, 300);
  }
}

// A text that grows with a number, and what it may be at most: that passes, and one more does not.
struct ExactLimit {
  std::string (*text)(int64_t size);
  int64_t most;
  const char* finding;  // of one more
  const char* parameters = "P=1 M=1";
  ElaborateLimits limits = {};
};

std::string InRank(const std::string& text) {
  return absl::StrCat("schedule s(P, M) { stages P on line; rank r { ", text, " } }");
}

const ExactLimit kExactLimits[] = {
    {[](int64_t n) {
       return InRank("F " + Repeated("(", static_cast<int>(n)) + "0" +
                     Repeated(")", static_cast<int>(n)));
     },
     198, "nested more than 200 deep here"},
    {[](int64_t n) { return InRank("F " + Repeated("- ", static_cast<int>(n)) + "0"); }, 199,
     "an expression is nested more than 200 deep here"},
    {[](int64_t n) {
       return absl::StrCat("schedule s(P, M) { stages P on line; split \"E",
                           Repeated("(", static_cast<int>(n)), "t",
                           Repeated(")", static_cast<int>(n)), "L\"; rank r { } }");
     },
     100, "groups are nested too deep here"},
    {[](int64_t n) {
       return absl::StrCat("schedule s(P, M) { stages P on line; split \"Et*", n,
                           "L\"; rank r { } }");
     },
     (1 << 20) - 2, "the layout is longer than 1048576 items here"},
    {[](int64_t n) {
       std::string text = "schedule s0(P, M) { stages P on line; rank r { F r; B r } }\n";
       for (int64_t i = 1; i <= n; ++i) {
         absl::StrAppend(&text, "schedule s", i, "(P, M) = s", i - 1, "(P, M);\n");
       }
       return text;
     },
     99, "schedules are derived from each other more than 100 deep here"},
    {[](int64_t n) { return InRank(absl::StrCat("F r; B r; repeat ", n, " { unshard r }")); },
     8,
     "more than 10 actions",
     "P=1 M=1",
     {.actions = 10}},
    {[](int64_t n) {
       return absl::StrCat("schedule s(P, M) { stages ", n, " * P on loop; rank r { } }");
     },
     3,
     "stages for 2 ranks, more than 3 a rank",
     "P=2 M=1",
     {.stages_per_rank = 3}},
    {[](int64_t n) {
       return absl::StrCat("schedule s(P, M) { stages ", n, " on loop; rank r { } }");
     },
     8,
     "more than 8",
     "P=4 M=1",
     {.ranks = 8}},
    {[](int64_t n) {
       return absl::StrCat(
           "schedule s(P, M) { stages P on line; rank r greedy { prefer B, F; "
           "costs F ",
           n, ", B 2; } }");
     },
     1'000'000'000, "1000000000"},
    {[](int64_t n) {
       return absl::StrCat("schedule s(P, M) { stages P on line; ",
                           Functions(static_cast<int>(n), "@(x)"), " let y = f", n,
                           "(1); rank r { } }");
     },
     999, "calls are nested more than 1000 deep here"},
};

TEST(BadInput, LimitsThatAreMetExactlyAreKept) {
  for (const ExactLimit& limit : kExactLimits) {
    SCOPED_TRACE(limit.finding);
    const auto answer = [&](int64_t size) {
      return Elaborated(limit.text(size), ParametersOf(limit.parameters), limit.limits);
    };
    const std::string at_most = answer(limit.most), above = answer(limit.most + 1);
    EXPECT_EQ(at_most.rfind("plan ", 0), 0u) << at_most.substr(0, 300);
    EXPECT_NE(above.find(limit.finding), std::string::npos) << above.substr(0, 300);
  }
}

// Schedules that are derived from each other share the steps, and tightening has its own.
TEST(BadInput, DerivationsAndTighteningEnd) {
  std::string chain = "schedule s0(P, M) { stages P on line; rank r { repeat M { F r; B r } } }\n";
  for (int i = 1; i <= 3000; ++i) {
    absl::StrAppend(&chain, "schedule s", i, "(P, M) = s", i - 1, "(P, M) then defer W by r;\n");
  }
  EXPECT_NE(Elaborated(chain, {{"P", 1}, {"M", 1}})
                .find("schedules are derived from each other more than 100 deep here"),
            std::string::npos);
  // Each rank's peak would rise, wherever in the gap an action went.
  const std::string gap =
      "schedule s(P, M) { stages P on line; rank r timetable {\n"
      "at 0 : F r; at 1 : I r; at 2 : W r; at 3 : F r; at 4 : I r; at 5 : W r;\n"
      "at 500000 : F r @ 3; at 900000 : F r; at 900001 : I r; at 900002 : I r; tighten; fill W; } "
      "}";
  const std::string answer = Elaborated(gap, {{"P", 1}, {"M", 4}});
  EXPECT_TRUE(answer.rfind("plan ", 0) == 0 ||
              answer.find("tightening is stopped here") != std::string::npos)
      << answer;
}

}  // namespace
}  // namespace stringline
