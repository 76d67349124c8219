// Habits from other languages, and the hint that a schedule's reader gives to each.
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "schedlang/base/written_out.h"
#include "schedlang/text/parse.h"

namespace stringline {
namespace {

struct HabitCase {
  const char* body;  // of a schedule
  const char* says;  // the finding, from its place on
};

const HabitCase kHabitCases[] = {
    // Comments
    {"// two", "1:20: error: expected a statement or '}' before '/'; comments begin with #"},
    {"rank r { F r // two",
     "1:34: error: expected an expression before '/'; comments begin with #, and a / b is rounded "
     "down"},
    {"rank r { F r; // two",
     "1:34: error: expected a statement or '}' before '/'; comments begin with #"},
    {"rank r { repeat M /* two */ { F r } }",
     "1:39: error: expected an expression before '*'; comments begin with #"},
    {"/* two */", "1:20: error: expected a statement or '}' before '/'; comments begin with #"},
    {"let a = M // 2;",
     "1:31: error: expected an expression before '/'; comments begin with #, and a / b is rounded "
     "down"},
    // Operators
    {"rank r { if r > 0 && r < 2 { F r } }",
     "1:38: error: expected '{' before '&'; 'and' joins conditions"},
    {"require P > 1 && M > 1 \"x\";",
     "1:34: error: expected a message in quotes before '&'; 'and' joins conditions"},
    {"rank r { if r == 0 || r == 2 { F r } }",
     "1:39: error: expected '{' before '|'; 'or' joins conditions"},
    {"rank r { if !r { F r } }",
     "1:32: error: expected an expression before '!'; 'not' turns a condition round"},
    {"rank r { F r && B r }", "1:34: error: expected an action before '&'; one '&' joins actions"},
    // Ranks
    {"rank 0 { F 0 }",
     "1:25: error: expected a name before '0'; every rank performs 'rank r { … }', and in it rank "
     "0 alone 'if r == 0 { … }'"},
    // Numbers
    {"rank r { repeat 1e3 { F r } }", "1:36: error: '1e3' is not a number; write 1000"},
    {"rank r { repeat 1_000 { F r } }", "1:36: error: '1_000' is not a number; write 1000"},
    {"rank r { repeat 1e3x { F r } }", "1:36: error: '1e3x' is not a number"},
    {"rank r search { costs F 10us; }",
     "1:44: error: '10us' is not a number; numbers of a schedule have no units"},
};

TEST(SyntaxHints, EachHabitHasOne) {
  for (const HabitCase& c : kHabitCases) {
    const Source source("x.sched", absl::StrCat("schedule s(P, M) { ", c.body, "\n}\n"));
    Diagnostics diagnostics;
    EXPECT_FALSE(Parse(source, &diagnostics)) << c.body;
    const std::string said = Render(diagnostics, source);
    EXPECT_EQ(said.substr(0, said.find('\n')), absl::StrCat("x.sched:", c.says)) << c.body;
  }
}

TEST(SyntaxHints, WholeNumbersAreWrittenOut) {
  const std::pair<const char*, const char*> cases[] = {
      {"1e3", "1000"}, {"2.5E4", "25000"}, {"1_000_000", "1000000"},
      {"1e+2", "100"}, {"1.5e0", ""},      {"1e-3", ""},
      {"e3", ""},      {"1000", ""},       {"1e300", ""},
      {"1.5", ""},     {"", ""},           {"1e3us", ""},
      {"1e", ""},      {"12e14", ""},      {"1e14", "100000000000000"}};
  for (const auto& [text, whole] : cases) EXPECT_EQ(WrittenOut(text), whole) << text;
}

}  // namespace
}  // namespace stringline
