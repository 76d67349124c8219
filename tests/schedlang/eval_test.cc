// Expressions and their values, or their findings.
#include "schedlang/elaborate/eval.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/schedlang/elaborated.h"

namespace stringline {
namespace {

// The value of the expression as the default of an option, where P = 3 and M = 10; or the first
// line of the finding, without its place.
std::string ValueOf(const std::string& expression) {
  const std::string text = Elaborated(
      absl::StrCat("schedule s(P, M, x = ", expression, ") { stages P on line; rank r { } }"),
      {{"P", 3}, {"M", 10}});
  std::string first = text.substr(0, text.find('\n'));
  const char* const skip = first.rfind("plan", 0) == 0 ? "x=" : "error: ";
  return first.substr(first.find(skip) + std::string(skip).size());
}

struct EvalCase {
  const char* expression;
  const char* expected;
};

const EvalCase kEvalCases[] = {
    {"1 + 2 * 3", "7"},
    {"10 - 4 - 3", "3"},
    {"-P * -P", "9"},
    {"(1 + 2) * 3", "9"},
    // Division rounds down, and the rest is never negative
    {"7 / 2", "3"},
    {"-7 / 2", "-4"},
    {"-8 / 2", "-4"},
    {"-7 % 2", "1"},
    {"7 % 2", "1"},
    {"-8 % 4", "0"},
    {"0 / 5", "0"},
    {"7 / 0", "the divisor in 7 / 0 is zero"},
    {"7 % 0", "the divisor in 7 % 0 is zero"},
    {"7 / -2", "the divisor in 7 / -2 is negative"},
    {"M / (P - 3)", "the divisor in 10 / 0 is zero, with P = 3"},
    {"(-9223372036854775807 - 1) / -1", "the divisor in -9223372036854775808 / -1 is negative"},
    {"(-9223372036854775807 - 1) % 9223372036854775807", "9223372036854775806"},
    // Comparisons and truth
    {"P < M", "1"},
    {"P > M", "0"},
    {"P <= 3", "1"},
    {"P >= 4", "0"},
    {"P == 3", "1"},
    {"P != 3", "0"},
    {"not P", "0"},
    {"not 0", "1"},
    {"not P == 3", "0"},
    {"P and M", "1"},
    {"0 or M", "1"},
    {"0 or 0", "0"},
    {"1 + (P < M) * 2", "3"},
    // Operands are evaluated only when needed
    {"P == 3 or 1 / 0", "1"},
    {"P != 3 and 1 / 0", "0"},
    {"P == 3 ? 4 : 1 / 0", "4"},
    {"P != 3 ? 1 / 0 : 5", "5"},
    {"0 ? 1 : 0 ? 2 : 3", "3"},
    {"P == 3 and 1 / 0", "the divisor in 1 / 0 is zero"},
    // Functions of the language
    {"min(3, 1, 2)", "1"},
    {"max(3, P, M)", "10"},
    {"min(max(1, 2), 3)", "2"},
    {"min(1, 1 / 0)", "the divisor in 1 / 0 is zero"},
    {"max(1)", "'max' of one value; it takes two or more"},
    // 64 bits
    {"9223372036854775807", "9223372036854775807"},
    {"-9223372036854775807 - 1", "-9223372036854775808"},
    {"9223372036854775807 + 1", "9223372036854775807 + 1 overflows 64 bits"},
    {"-9223372036854775807 - 2", "-9223372036854775807 - 2 overflows 64 bits"},
    {"4294967296 * 4294967296", "4294967296 * 4294967296 overflows 64 bits"},
    {"-(-9223372036854775807 - 1)", "-(-9223372036854775808) overflows 64 bits"},
    {"9223372036854775807 + 1 - 1", "9223372036854775807 + 1 overflows 64 bits"},
};

TEST(Eval, Expressions) {
  for (const EvalCase& c : kEvalCases) EXPECT_EQ(ValueOf(c.expression), c.expected) << c.expression;
}

// The value of `x` after the definitions, shown by a requirement that fails.
std::string AfterLets(const std::string& lets) {
  const std::string text =
      Elaborated(absl::StrCat("schedule s(P, M) {\n", lets,
                              "\nrequire x != x \"shown\"; stages P on line; rank r { } }"),
                 {{"P", 3}, {"M", 10}});
  const size_t begin = text.find("error: ") + 7;
  return text.substr(begin, text.find('\n') - begin);
}

TEST(Eval, Functions) {
  EXPECT_EQ(AfterLets("let f(a) = a + P; let x = f(1);"), "shown, with x = 4");
  EXPECT_EQ(AfterLets("let f(a, b) = a - b; let x = f(f(9, 2), f(4, f(2, 1)));"),
            "shown, with x = 4");
  EXPECT_EQ(
      AfterLets("let f(a, b, c, d, e) = a + 10 * e; let x = f(1, 2, 3, 4, f(5, 4, 3, 2, 1));"),
      "shown, with x = 151");
  EXPECT_EQ(AfterLets("let f(a) = a * 2; let g(b) = f(f(b)) + f(b); let x = g(g(1));"),
            "shown, with x = 36");
  EXPECT_EQ(AfterLets("let f(a) = f(a - 1); let x = f(3);"),
            "nothing above is called 'f'; a function cannot use itself");
  EXPECT_EQ(AfterLets("let x = x;"), "nothing above is called 'x'");
  EXPECT_EQ(AfterLets("let f(a, a) = 1; let x = f(1, 2);"), "'a' is defined again");
  EXPECT_EQ(AfterLets("let f(P) = P; let x = f(1);"), "'P' is defined again");
  EXPECT_EQ(AfterLets("let f(a) = a; let g(a) = f(a); let x = g(7);"), "shown, with x = 7");
}

}  // namespace
}  // namespace stringline
