// Texts that are no schedules, or would never end: each gives one clear finding and no crash. These
// run under the sanitizers too.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "schedlang/elaborate/elaborate.h"
#include "schedlang/text/parse.h"
#include "tests/schedlang/elaborated.h"

namespace stringline {
namespace {

// Parses, elaborates if that worked, and renders, so that every part sees the text. Returns the
// number of findings; there is at least one, or a plan.
int FindingsOf(const std::string& text) {
  const Source source("x.sched", text);
  Diagnostics diagnostics;
  const std::optional<ast::File> file = Parse(source, &diagnostics);
  EXPECT_NE(file.has_value(), !diagnostics.empty());
  if (!file) {
    EXPECT_EQ(diagnostics.findings().size(), 1u) << "the parser stops at the first mistake";
  }
  const ElaborateLimits limits{.actions = 10'000, .steps = 10'000, .ranks = 64};
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

// The first line of the one finding about a schedule that holds this text in its rank block.
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

// Functions that call the one above them: deeper than any expression, and twice per function.
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
  const std::string stopped =
      Elaborated(text, {{"P", 1}, {"M", 1}}, {.actions = 10, .steps = 100'000, .ranks = 8});
  EXPECT_NE(stopped.find("elaboration is stopped here: more than 100000 steps"), std::string::npos);
}

TEST(BadInput, LoopsThatWouldNotEnd) {
  const std::string stopped = "error: elaboration is stopped here: more than 1000000000 steps";
  EXPECT_EQ(FindingIn("repeat 1152921504606846976 { }"), "x.sched:2:8: " + stopped);
  EXPECT_EQ(FindingIn("repeat 9223372036854775807 { let x = 1; }"), "x.sched:2:8: " + stopped);
  EXPECT_EQ(FindingIn("repeat 100000 { repeat 100000 { } }"), "x.sched:2:24: " + stopped);
}

}  // namespace
}  // namespace stringline
