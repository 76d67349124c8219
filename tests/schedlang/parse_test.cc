// Texts and their parsed trees, or their findings, side by side.
#include "schedlang/text/parse.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schedlang/text/tokens.h"
#include "tests/schedlang/ast_text.h"

namespace stringline {
namespace {

struct ParseCase {
  const char* text;
  const char* expected;  // the tree, or the rendered finding
};

std::string ParseToText(const std::string& text) {
  const Source source("x.sched", text);
  Diagnostics diagnostics;
  const std::optional<ast::File> file = Parse(source, &diagnostics);
  EXPECT_EQ(file.has_value(), diagnostics.empty());
  return file ? TextOf(*file) : Render(diagnostics, source);
}

// Parses `let x = EXPRESSION` and returns the expression's tree, or the finding.
std::string ParseExpression(const std::string& text) {
  const Source source("x.sched", absl::StrCat("schedule s(P, M) { let x = ", text, "\n}"));
  Diagnostics diagnostics;
  const std::optional<ast::File> file = Parse(source, &diagnostics);
  if (!file) return Render(diagnostics, source);
  const auto& statements = file->schedules.front().body.statements;
  if (statements.size() != 1) return "more than one statement";
  return TextOf(std::get<ast::Let>(statements.front().node).value);
}

const ParseCase kExpressions[] = {
    // Precedence and grouping
    {"P - 1 - r", "(- (- P 1) r)"},
    {"a + b * c", "(+ a (* b c))"},
    {"(a + b) * c", "(* (+ a b) c)"},
    {"-a * b", "(* (- a) b)"},
    {"- - a", "(- (- a))"},
    {"-(a - b)", "(- (- a b))"},
    {"a - -b", "(- a (- b))"},
    {"not a == b", "(not (== a b))"},
    {"not a and not b or c", "(or (and (not a) (not b)) c)"},
    {"a or b and c", "(or a (and b c))"},
    {"a < b + 1", "(< a (+ b 1))"},
    {"a == b and c != d", "(and (== a b) (!= c d))"},
    {"a ? b : c ? d : e", "(? a b (? c d e))"},
    {"a ? b ? c : d : e", "(? a (? b c d) e)"},
    {"a or b ? c + 1 : d - 1", "(? (or a b) (+ c 1) (- d 1))"},
    {"a % b / c", "(/ (% a b) c)"},
    {"min(a, b + 1, c)", "(min a (+ b 1) c)"},
    {"size(min(1, 2)) * 2", "(* (size (min 1 2)) 2)"},
    {"9223372036854775807", "9223372036854775807"},
    // Errors
    {"min(a, b",
     "x.sched:2:1: error: expected ')' before '}'\n"
     "    2 | }\n"
     "      | ^\n"},
    {"a +",
     "x.sched:2:1: error: expected an expression before '}'\n"
     "    2 | }\n"
     "      | ^\n"},
    {"a + ;",
     "x.sched:1:32: error: expected an expression before ';'\n"
     "    1 | schedule s(P, M) { let x = a + ;\n"
     "      |                                ^\n"},
    {"a b",
     "x.sched:1:30: error: expected ';' before 'b'\n"
     "    1 | schedule s(P, M) { let x = a b\n"
     "      |                              ^\n"},
    {"(a",
     "x.sched:2:1: error: expected ')' before '}'\n"
     "    2 | }\n"
     "      | ^\n"},
    {"a ? b",
     "x.sched:2:1: error: expected ':' before '}'\n"
     "    2 | }\n"
     "      | ^\n"},
    {"a ? b : ",
     "x.sched:2:1: error: expected an expression before '}'\n"
     "    2 | }\n"
     "      | ^\n"},
    {"a < b < c",
     "x.sched:1:30: error: a comparison of a comparison; between two bounds is 'a <= b and b <= "
     "c'\n"
     "    1 | schedule s(P, M) { let x = a < b < c\n"
     "      |                              ^~~~~\n"},
    {"a == b >= c",
     "x.sched:1:30: error: a comparison of a comparison; between two bounds is 'a <= b and b <= "
     "c'\n"
     "    1 | schedule s(P, M) { let x = a == b >= c\n"
     "      |                              ^~~~~~~\n"},
    {"f()",
     "x.sched:1:30: error: expected an expression before ')'\n"
     "    1 | schedule s(P, M) { let x = f()\n"
     "      |                              ^\n"},
    {"9223372036854775808",
     "x.sched:1:28: error: the number '9223372036854775808' does not fit into 64 bits\n"
     "    1 | schedule s(P, M) { let x = 9223372036854775808\n"
     "      |                            ^~~~~~~~~~~~~~~~~~~\n"},
    {"12x",
     "x.sched:1:28: error: '12x' is not a number\n"
     "    1 | schedule s(P, M) { let x = 12x\n"
     "      |                            ^~~\n"},
    {"0x10",
     "x.sched:1:28: error: '0x10' is not a number\n"
     "    1 | schedule s(P, M) { let x = 0x10\n"
     "      |                            ^~~~\n"},
    {"a && b",
     "x.sched:1:30: error: expected ';' before '&'; 'and' joins conditions\n"
     "    1 | schedule s(P, M) { let x = a && b\n"
     "      |                              ^\n"},
    {"!a",
     "x.sched:1:28: error: expected an expression before '!'; 'not' turns a condition round\n"
     "    1 | schedule s(P, M) { let x = !a\n"
     "      |                            ^\n"},
    {"a = 1",
     "x.sched:1:30: error: expected ';' before '='; a == b asks whether both are equal\n"
     "    1 | schedule s(P, M) { let x = a = 1\n"
     "      |                              ^\n"},
    {"F + 1",
     "x.sched:1:28: error: expected an expression before 'F'\n"
     "    1 | schedule s(P, M) { let x = F + 1\n"
     "      |                            ^\n"},
    {"repeat",
     "x.sched:1:28: error: expected an expression before 'repeat'\n"
     "    1 | schedule s(P, M) { let x = repeat\n"
     "      |                            ^~~~~~\n"},
    {"a, b",
     "x.sched:1:29: error: expected ';' before ','\n"
     "    1 | schedule s(P, M) { let x = a, b\n"
     "      |                             ^\n"},
    {"down[r",
     "x.sched:2:1: error: expected ']' before '}'\n"
     "    2 | }\n"
     "      | ^\n"},
    {"then",
     "x.sched:1:28: error: expected an expression before 'then'\n"
     "    1 | schedule s(P, M) { let x = then\n"
     "      |                            ^~~~\n"},
    {"within",
     "x.sched:1:28: error: expected an expression before 'within'\n"
     "    1 | schedule s(P, M) { let x = within\n"
     "      |                            ^~~~~~\n"},
};

TEST(Parse, Expressions) {
  for (const ParseCase& c : kExpressions) EXPECT_EQ(ParseExpression(c.text), c.expected) << c.text;
}

// Parses the text as the body of a schedule.
std::string ParseBody(const std::string& text) {
  return ParseToText(absl::StrCat("schedule s(P, M) {\n", text, "\n}\n"));
}

const ParseCase kStatements[] = {
    // Schedule level
    {"stages P on line", "(schedule s (P M) (stages P line))\n"},
    {"stages 2 * P on v;", "(schedule s (P M) (stages (* 2 P) v))\n"},
    {"stages N on reversed wave;", "(schedule s (P M) (stages N (reversed wave)))\n"},
    {"stages P on s -> P - 1 - s;", "(schedule s (P M) (stages P (-> s (- (- P 1) s))))\n"},
    {"stages P on reversed s -> s;", "(schedule s (P M) (stages P (reversed (-> s s))))\n"},
    {"pad microbatches to max(M, 4);", "(schedule s (P M) (pad (max M 4)))\n"},
    {"let f(x, y) = x + y; let z = f(1, 2);",
     "(schedule s (P M) (let (f x y) (+ x y)) (let z (f 1 2)))\n"},
    {"require M >= P \"too few\";", "(schedule s (P M) (require (>= M P) \"too few\"))\n"},
    {"rank r { }", "(schedule s (P M) (rank r))\n"},
    // Rank level
    {"rank r { F r; B r; I r; W r; W }",
     "(schedule s (P M) (rank r (F r) (B r) (I r) (W r) (W)))\n"},
    {"rank r { F r & B r + 1 & W; W & F 0 }",
     "(schedule s (P M) (rank r (& (F r) (B (+ r 1)) (W)) (& (W) (F 0))))\n"},
    {"rank r { F r @ 3 & B r @ m + 1; W r @ 0 }",
     "(schedule s (P M) (rank r (& (F r @ 3) (B r @ (+ m 1))) (W r @ 0)))\n"},
    {"rank r { repeat 3 { F r } repeat n as i { I r; W } }",
     "(schedule s (P M) (rank r (repeat 3 (F r)) (repeat n as i (I r) (W))))\n"},
    {"rank r { if a { F r } else if b { B r } else if c { W } else { I r } }",
     "(schedule s (P M) (rank r (if (a (F r)) (b (B r)) (c (W)) (else (I r)))))\n"},
    {"rank r { order f { F r } f; f & f; F r & f }",
     "(schedule s (P M) (rank r (order f (F r)) (next f) (& (next f) (next f)) (& (F r) (next "
     "f))))\n"},
    {"rank r { let n = 2; require n > 1 \"m\"; { } }",
     "x.sched:2:40: error: expected a statement or '}' before '{'\n"
     "    2 | rank r { let n = 2; require n > 1 \"m\"; { } }\n"
     "      |                                        ^\n"},
    {"rank r { F P > 2 ? 1 : 0 }", "(schedule s (P M) (rank r (F (? (> P 2) 1 0))))\n"},
    {"rank r { F -1 }", "(schedule s (P M) (rank r (F (- 1))))\n"},
    // Errors
    {"rank r { F }",
     "x.sched:2:12: error: expected an expression before '}'\n"
     "    2 | rank r { F }\n"
     "      |            ^\n"},
    {"rank r { F r B r }",
     "x.sched:2:14: error: expected ';' before 'B'\n"
     "    2 | rank r { F r B r }\n"
     "      |              ^\n"},
    {"rank r { W @ 3 }",
     "x.sched:2:12: error: expected an expression before '@'\n"
     "    2 | rank r { W @ 3 }\n"
     "      |            ^\n"},
    {"rank r { F r & }",
     "x.sched:2:16: error: expected an action before '}'\n"
     "    2 | rank r { F r & }\n"
     "      |                ^\n"},
    {"rank r { repeat { F r } }",
     "x.sched:2:17: error: expected an expression before '{'\n"
     "    2 | rank r { repeat { F r } }\n"
     "      |                 ^\n"},
    {"rank r { repeat 3 as { F r } }",
     "x.sched:2:22: error: expected a name before '{'\n"
     "    2 | rank r { repeat 3 as { F r } }\n"
     "      |                      ^\n"},
    {"rank r { repeat 3 F r }",
     "x.sched:2:19: error: expected '{' before 'F'\n"
     "    2 | rank r { repeat 3 F r }\n"
     "      |                   ^\n"},
    {"rank r { repat 3 { F r } }",
     "x.sched:2:10: error: 'repat' begins no statement; did you mean 'repeat'?\n"
     "    2 | rank r { repat 3 { F r } }\n"
     "      |          ^~~~~\n"},
    {"rank r { f r }",
     "x.sched:2:10: error: 'f' begins no statement; did you mean 'F'?\n"
     "    2 | rank r { f r }\n"
     "      |          ^\n"},
    {"rank r { for i in M { F r } }",
     "x.sched:2:10: error: 'for' begins no statement; 'repeat n { F r }' does it n times\n"
     "    2 | rank r { for i in M { F r } }\n"
     "      |          ^~~\n"},
    {"rank r { // two\n }",
     "x.sched:2:10: error: expected a statement or '}' before '/'; comments begin with #\n"
     "    2 | rank r { // two\n"
     "      |          ^\n"},
    {"rank r { if r = 0 { F r } }",
     "x.sched:2:15: error: expected '{' before '='; a == b asks whether both are equal\n"
     "    2 | rank r { if r = 0 { F r } }\n"
     "      |               ^\n"},
    {"rank r { let a = r mod 2; }",
     "x.sched:2:20: error: expected ';' before 'mod'; a % b is what a / b leaves\n"
     "    2 | rank r { let a = r mod 2; }\n"
     "      |                    ^~~\n"},
    {"rank r { let a = 0.5; }",
     "x.sched:2:19: error: expected ';' before '.'; all numbers are whole\n"
     "    2 | rank r { let a = 0.5; }\n"
     "      |                   ^\n"},
    {"rank r { forward r }",
     "x.sched:2:10: error: 'forward' begins no statement\n"
     "    2 | rank r { forward r }\n"
     "      |          ^~~~~~~\n"},
    {"rank r { if r { F r } else F r }",
     "x.sched:2:28: error: expected '{' before 'F'\n"
     "    2 | rank r { if r { F r } else F r }\n"
     "      |                            ^\n"},
    {"rank r { F r",
     "x.sched:3:1: error: expected '}' before the end of the file\n"
     "    3 | }\n"
     "      | ^\n"
     "note: '{' is opened here\n"
     "    1 | schedule s(P, M) {\n"
     "      |                  ^\n"},
    {"rank r { F r; ",
     "x.sched:3:1: error: expected '}' before the end of the file\n"
     "    3 | }\n"
     "      | ^\n"
     "note: '{' is opened here\n"
     "    1 | schedule s(P, M) {\n"
     "      |                  ^\n"},
    {"rank r",
     "x.sched:3:1: error: expected '{' before '}'\n"
     "    3 | }\n"
     "      | ^\n"},
    {"stages P",
     "x.sched:3:1: error: expected 'on' before '}'\n"
     "    3 | }\n"
     "      | ^\n"},
    {"stages P on",
     "x.sched:3:1: error: expected a layout before '}'\n"
     "    3 | }\n"
     "      | ^\n"},
    {"stages on line",
     "x.sched:2:8: error: expected an expression before 'on'\n"
     "    2 | stages on line\n"
     "      |        ^~\n"},
    {"require M > 2;",
     "x.sched:2:14: error: expected a message in quotes before ';'\n"
     "    2 | require M > 2;\n"
     "      |              ^\n"},
    {"require M > 2 \"open\n",
     "x.sched:2:15: error: expected '\"' before the end of the line\n"
     "    2 | require M > 2 \"open\n"
     "      |               ^~~~~\n"},
    {"pad to 3;",
     "x.sched:2:5: error: expected 'microbatches' before 'to'\n"
     "    2 | pad to 3;\n"
     "      |     ^~\n"},
    {"pad microbatches 3;",
     "x.sched:2:18: error: expected 'to' before '3'\n"
     "    2 | pad microbatches 3;\n"
     "      |                  ^\n"},
    {"let x;",
     "x.sched:2:6: error: expected '=' before ';'\n"
     "    2 | let x;\n"
     "      |      ^\n"},
    {"let 3 = x;",
     "x.sched:2:5: error: expected a name before '3'\n"
     "    2 | let 3 = x;\n"
     "      |     ^\n"},
    {"let f( = 3;",
     "x.sched:2:8: error: expected a name before '='\n"
     "    2 | let f( = 3;\n"
     "      |        ^\n"},
    {"let f(x) 3;",
     "x.sched:2:10: error: expected '=' before '3'\n"
     "    2 | let f(x) 3;\n"
     "      |          ^\n"},
    {"; ",
     "x.sched:2:1: error: expected a statement or '}' before ';'\n"
     "    2 | ; \n"
     "      | ^\n"},
    {"rank r { repeat 2 { F r }; B r }",
     "x.sched:2:26: error: a block ends with its '}': leave out this ';'\n"
     "    2 | rank r { repeat 2 { F r }; B r }\n"
     "      |                          ^\n"},
    {"} }",
     "x.sched:2:3: error: expected 'schedule' before '}'\n"
     "    2 | } }\n"
     "      |   ^\n"},
    {"order",
     "x.sched:3:1: error: expected a name before '}'\n"
     "    3 | }\n"
     "      | ^\n"},
    {"rank r { x = 3 }",
     "x.sched:2:12: error: expected ';' before '='; 'let x = …;' gives a value a name\n"
     "    2 | rank r { x = 3 }\n"
     "      |            ^\n"},
    {"rank r { repeat P as i, j { } }",
     "x.sched:2:23: error: expected '{' before ','\n"
     "    2 | rank r { repeat P as i, j { } }\n"
     "      |                       ^\n"},
    {"rank r { R r; R r + 1 @ 2 }", "(schedule s (P M) (rank r (R r) (R (+ r 1) @ 2)))\n"},
    {"rank r { let R = 2; F R; R; }", "(schedule s (P M) (rank r (let R 2) (F R) (next R)))\n"},
    // Pipes, and a schedule's statements besides its orders
    {"pipe down { stages P on line; microbatches M / 2 }",
     "(schedule s (P M) (pipe down (stages P line) (/ M 2)))\n"},
    {"pipe down { stages P on line; }",
     "x.sched:2:31: error: expected 'microbatches' before '}'\n"
     "    2 | pipe down { stages P on line; }\n"
     "      |                               ^\n"},
    {"let a = r < H ? down[r + 1] : up[0];",
     "(schedule s (P M) (let a (? (< r H) ([] down (+ r 1)) ([] up 0))))\n"},
    {"unshard ahead: P - 1;", "(schedule s (P M) (ahead (- P 1)))\n"},
    {"rank r { unshard ahead; }", "(schedule s (P M) (rank r (unshard ahead)))\n"},
    {"split even;", "(schedule s (P M) (split even))\n"},
    {"split balanced;", "(schedule s (P M) (split balanced))\n"},
    {"split [3, P - 1];", "(schedule s (P M) (split [3 (- P 1)]))\n"},
    {"split s -> 3 + (s == 0);", "(schedule s (P M) (split (-> s (+ 3 (== s 0)))))\n"},
    {"split even -> even;", "(schedule s (P M) (split (-> even even)))\n"},
    {"split s;",
     "x.sched:2:7: error: expected 'even', 'balanced', 'any', a list in '[ ]', 's -> e' or a "
     "layout in "
     "quotes before 's'\n"
     "    2 | split s;\n"
     "      |       ^\n"},
    {"split \"Et|tL\";", "(schedule s (P M) (split \"Et|tL\"))\n"},
    {"split 3;",
     "x.sched:2:7: error: expected 'even', 'balanced', 'any', a list in '[ ]', 's -> e' or a "
     "layout in "
     "quotes before '3'\n"
     "    2 | split 3;\n"
     "      |       ^\n"},
    {"overlap F & B { compute { F.attn B.experts } network { F.dispatch } }",
     "(schedule s (P M) (overlap F B (F.attn B.experts) (F.dispatch)))\n"},
    {"overlap F & B { compute { attn } network { } }",
     "x.sched:2:27: error: expected an action or '}' before 'attn'\n"
     "    2 | overlap F & B { compute { attn } network { } }\n"
     "      |                           ^~~~\n"},
    // The other kinds of rank blocks
    {"rank r timetable { at 2 * r : F r & B r @ 1; tighten; fill W }",
     "(schedule s (P M) (rank r timetable (at (* 2 r) (& (F r) (B r @ 1))) (tighten) (fill W)))\n"},
    {"rank r timetable { at 1 F r }",
     "x.sched:2:25: error: expected ':' before 'F'\n"
     "    2 | rank r timetable { at 1 F r }\n"
     "      |                         ^\n"},
    {"rank r greedy { hold at most P - r; prefer B, F; costs F 1, B 2; }",
     "(schedule s (P M) (rank r greedy (hold (- P r)) (prefer B F) (costs F=1 B=2)))\n"},
    {"rank r greedy { costs F s -> 1 + s, B [2, 2 * P], p2p 1 }",
     "(schedule s (P M) (rank r greedy (costs F=(-> s (+ 1 s)) B=[2 (* 2 P)] p2p=1)))\n"},
    {"rank r greedy { costs message 1 }",
     "x.sched:2:23: error: expected an action, 'p2p', 'microbatch', 'saved_for_I', 'saved_for_W', "
     "'stash' or 'input' before 'message'\n"
     "    2 | rank r greedy { costs message 1 }\n"
     "      |                       ^~~~~~~\n"},
    {"rank r greedy { prefer x }",
     "x.sched:2:24: error: expected an action before 'x'\n"
     "    2 | rank r greedy { prefer x }\n"
     "      |                        ^\n"},
    {"rank r { unshard r; reshard 2 * r; reduce 0 }",
     "(schedule s (P M) (rank r (unshard r) (reshard (* 2 r)) (reduce 0)))\n"},
    {"rank r search { }", "(schedule s (P M) (rank r search))\n"},
    {"rank r search { place any; place v, loop 3, wave V + 1; layers 4 * P; split any }",
     "(schedule s (P M) (rank r search (place any) (place v loop:3 wave:(+ V 1)) (layers (* 4 P)) "
     "(split any)))\n"},
    {"rank r search { recompute any; costs input 1 }",
     "(schedule s (P M) (rank r search (recompute any) (costs input=1)))\n"},
    {"rank r search { offload any; offload all; offload none }",
     "(schedule s (P M) (rank r search (offload any) (offload all) (offload none)))\n"},
    {"recompute all; recompute none; recompute [1, 0]; recompute s -> s == 0; recompute any -> any",
     "(schedule s (P M) (recompute all) (recompute none) (recompute [1 0]) "
     "(recompute (-> s (== s 0))) (recompute (-> any any)))\n"},
    {"let none = 1; let input = none; rank r { F all }",
     "(schedule s (P M) (let none 1) (let input none) (rank r (F all)))\n"},
    {"rank r search { minimize span; within activations 2 * P; prefer F, B; iterations 3 * M }",
     "(schedule s (P M) (rank r search (minimize span) (within activations (* 2 P)) (prefer F B) "
     "(iterations (* 3 M))))\n"},
    {"rank r search { within memory 80; costs saved_for_I 1, saved_for_W s -> s, stash [1, 2] }",
     "(schedule s (P M) (rank r search (within memory 80) (costs saved_for_I=1 "
     "saved_for_W=(-> s s) stash=[1 2])))\n"},
    {"rank r search { pairs F & B; pairs F & I costs s -> s + 3; pairs F & B costs [1, 2] }",
     "(schedule s (P M) (rank r search (pairs F B) (pairs F I costs (-> s (+ s 3))) "
     "(pairs F B costs [1 2])))\n"},
    // Words only in their place
    {"let memory = 1; let span = memory; let stash = span; rank r { F stash }",
     "(schedule s (P M) (let memory 1) (let span memory) (let stash span) (rank r (F stash)))\n"},
    {"rank r search { minimize bubble }",
     "x.sched:2:26: error: expected 'makespan', 'span' or 'period' before 'bubble'\n"
     "    2 | rank r search { minimize bubble }\n"
     "      |                          ^~~~~~\n"},
    {"rank r search { within 2 activations }",
     "x.sched:2:24: error: expected 'activations' or 'memory' before '2'\n"
     "    2 | rank r search { within 2 activations }\n"
     "      |                        ^\n"},
    {"rank r search { pairs F B }",
     "x.sched:2:25: error: expected '&' before 'B'\n"
     "    2 | rank r search { pairs F B }\n"
     "      |                         ^\n"},
};

TEST(Parse, Statements) {
  for (const ParseCase& c : kStatements) EXPECT_EQ(ParseBody(c.text), c.expected) << c.text;
}

const ParseCase kParsedFiles[] = {
    {"schedule a(P, M, V = 2, G = P * V) { } schedule b(P, M) { }",
     "(schedule a (P M V=2 G=(* P V)))\n"
     "(schedule b (P M))\n"},
    {"# only a comment\nschedule a(P, M) { } # and one more", "(schedule a (P M))\n"},
    {"use \"a.sched\"; schedule a(P, M) { } use \"../b.sched\";",
     "(use \"a.sched\")\n(use \"../b.sched\")\n(schedule a (P M))\n"},
    // Errors
    {"import \"a.sched\";",
     "x.sched:1:1: error: expected 'schedule' before 'import'; 'use \"1f1b.sched\";' takes the "
     "schedules of another file\n"
     "    1 | import \"a.sched\";\n"
     "      | ^~~~~~\n"},
    {"schedule a(P, M) { use \"a.sched\"; }",
     "x.sched:1:20: error: expected a statement or '}' before 'use'; 'use' stands beside the "
     "schedules of a file\n"
     "    1 | schedule a(P, M) { use \"a.sched\"; }\n"
     "      |                    ^~~\n"},
    {"",
     "x.sched:1:1: error: expected 'schedule' before the end of the file\n"
     "    1 | \n"
     "      | ^\n"},
    {"# nothing\n",
     "x.sched:1:1: error: expected 'schedule' before the end of the file\n"
     "    1 | # nothing\n"
     "      | ^\n"},
    {"schedule",
     "x.sched:1:1: error: expected a name before the end of the file\n"
     "    1 | schedule\n"
     "      | ^~~~~~~~\n"},
    {"schedule a",
     "x.sched:1:10: error: expected '(' before the end of the file\n"
     "    1 | schedule a\n"
     "      |          ^\n"},
    {"schedule a(",
     "x.sched:1:11: error: expected a name before the end of the file\n"
     "    1 | schedule a(\n"
     "      |           ^\n"
     "note: '(' is opened here\n"
     "    1 | schedule a(\n"
     "      |           ^\n"},
    {"schedule a(P",
     "x.sched:1:12: error: expected ')' before the end of the file\n"
     "    1 | schedule a(P\n"
     "      |            ^\n"
     "note: '(' is opened here\n"
     "    1 | schedule a(P\n"
     "      |           ^\n"},
    {"schedule a(P,",
     "x.sched:1:13: error: expected a name before the end of the file\n"
     "    1 | schedule a(P,\n"
     "      |             ^\n"
     "note: '(' is opened here\n"
     "    1 | schedule a(P,\n"
     "      |           ^\n"},
    {"schedule a(P, M)",
     "x.sched:1:16: error: expected '{' before the end of the file\n"
     "    1 | schedule a(P, M)\n"
     "      |                ^\n"},
    {"schedule a(P, M) {",
     "x.sched:1:18: error: expected '}' before the end of the file\n"
     "    1 | schedule a(P, M) {\n"
     "      |                  ^\n"
     "note: '{' is opened here\n"
     "    1 | schedule a(P, M) {\n"
     "      |                  ^\n"},
    {"schedule a(P, M, V = ) { }",
     "x.sched:1:22: error: expected an expression before ')'\n"
     "    1 | schedule a(P, M, V = ) { }\n"
     "      |                      ^\n"},
    {"schedule a() { }",
     "x.sched:1:12: error: expected a name before ')'\n"
     "    1 | schedule a() { }\n"
     "      |            ^\n"},
    {"schedule 1f1b(P, M) { }",
     "x.sched:1:10: error: expected a name before '1f1b'\n"
     "    1 | schedule 1f1b(P, M) { }\n"
     "      |          ^~~~\n"},
    {"schedule a(P, M) = b(P, M, V, extra = 1) then defer W by r + 1;",
     "(schedule a (P M) = (b P M V extra=1) (defer W (+ r 1)))\n"},
    {"schedule a(P, M) = b(P, M)",
     "x.sched:1:26: error: expected 'then' or ';' before the end of the file\n"
     "    1 | schedule a(P, M) = b(P, M)\n"
     "      |                          ^\n"},
    {"schedule a(P, M) = b then defer W by 1;",
     "x.sched:1:22: error: expected '(' before 'then'\n"
     "    1 | schedule a(P, M) = b then defer W by 1;\n"
     "      |                      ^~~~\n"},
    {"schedule a(P, M) { } x",
     "x.sched:1:22: error: expected 'schedule' before 'x'\n"
     "    1 | schedule a(P, M) { } x\n"
     "      |                      ^\n"},
    {"hello",
     "x.sched:1:1: error: expected 'schedule' before 'hello'\n"
     "    1 | hello\n"
     "      | ^~~~~\n"},
    {"\001\002",
     "x.sched:1:1: error: expected 'schedule' before byte 0x01\n"
     "    1 |   \n"
     "      | ^\n"},
    {"schedule a(P, M) { \033 }",
     "x.sched:1:20: error: expected a statement or '}' before byte 0x1b\n"
     "    1 | schedule a(P, M) {   }\n"
     "      |                    ^\n"},
    {"\377\376",
     "x.sched:1:1: error: expected 'schedule' before byte 0xff\n"
     "    1 | \377\376\n"
     "      | ^\n"},
    {"schedule a(P, M) { \"x",
     "x.sched:1:20: error: expected '\"' before the end of the line\n"
     "    1 | schedule a(P, M) { \"x\n"
     "      |                    ^~\n"},
};

TEST(Parse, Files) {
  for (const ParseCase& c : kParsedFiles) EXPECT_EQ(ParseToText(c.text), c.expected) << c.text;
}

TEST(Tokens, KnowTheirPlaces) {
  const std::string text = "F a<=b # c\n\"x y\"; 12z @";
  std::string out;
  for (const Token& token : Tokenize(text)) {
    absl::StrAppend(&out, token.span.begin, "-", token.span.end, ":", token.text, " ");
  }
  EXPECT_EQ(out, "0-1:F 2-3:a 3-5:<= 5-6:b 11-16:\"x y\" 16-17:; 18-21:12z 22-23:@ 22-23: ");
}

}  // namespace
}  // namespace stringline
