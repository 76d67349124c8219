// stringline fmt: formatted texts, the library's own format, and that only white space changes.
#include <gtest/gtest.h>

#include <filesystem>
#include <iostream>
#include <random>

#include "schedlang/elaborate/elaborate.h"
#include "schedlang/text/format.h"
#include "schedlang/text/format_pieces.h"
#include "schedlang/text/parse.h"
#include "tests/tools/tool_run.h"

namespace stringline {
namespace {

namespace fs = std::filesystem;

struct FormatCase {
  const char* what;
  const char* text;
  const char* expected;
};

const FormatCase kFormatCases[] = {
    {"one blank between words, none inside brackets",
     "schedule   s( P ,M,V=2){stages V*P on s->s%P;rank r{F(r)&B r@ 3;W}}",
     "schedule s(P, M, V = 2) { stages V * P on s -> s % P; rank r { F (r) & B r @ 3; W } }\n"},
    {"signs stand with what they negate, minus stands apart",
     "schedule s(P, M) { let a = - P-  1*-( -2 ); let b = max(-1,P)- 1; require not - a>b \"x\"; }",
     "schedule s(P, M) { let a = -P - 1 * -(-2); let b = max(-1, P) - 1; require not -a > b \"x\"; "
     "}\n"},
    {"a word that is one at a statement's beginning alone is no call",
     "schedule s(P, M) { versions(P+1)/2; slices(P)*2; let steps=min(P,M); update (r); }",
     "schedule s(P, M) { versions (P + 1) / 2; slices (P) * 2; let steps = min(P, M); update (r); "
     "}\n"},
    {"a block that holds a line end is opened",
     "schedule s(P, M)\n{ stages P on line; rank r { repeat M { F r;\nB r } } }",
     "schedule s(P, M) {\n"
     "  stages P on line; rank r {\n"
     "    repeat M {\n"
     "      F r;\n"
     "      B r\n"
     "    }\n"
     "  }\n"
     "}\n"},
    {"else stays with the brace that closes a block of several lines",
     "schedule s(P, M) {\n rank r {\n if r { F r }\n else { B r }\n if r {\n F r\n }\n else {\n B "
     "r "
     "}\n}\n}",
     "schedule s(P, M) {\n"
     "  rank r {\n"
     "    if r { F r }\n"
     "    else { B r }\n"
     "    if r {\n"
     "      F r\n"
     "    } else {\n"
     "      B r\n"
     "    }\n"
     "  }\n"
     "}\n"},
    {"columns of the author's stay, and move where one needs the room",
     "schedule s(P, M) {\n"
     "  let a    = 1;   # one\n"
     "  let bcd  = 2;   # two\n"
     "  rank r {\n"
     "    repeat M-1-M+1+M-1   { F r }\n"
     "    repeat M             { F r;  B r }\n"
     "  }\n"
     "}\n",
     "schedule s(P, M) {\n"
     "  let a    = 1;   # one\n"
     "  let bcd  = 2;   # two\n"
     "  rank r {\n"
     "    repeat M - 1 - M + 1 + M - 1  { F r }\n"
     "    repeat M                      { F r;  B r }\n"
     "  }\n"
     "}\n"},
    {"columns follow the indentation",
     "schedule s(P, M) {\n"
     "      let a    = 1;\n"
     "      let bcd  = 2;\n"
     "}\n",
     "schedule s(P, M) {\n"
     "  let a    = 1;\n"
     "  let bcd  = 2;\n"
     "}\n"},
    {"comments stay where they are, empty lines are one at most",
     "\n\n# first  \n\n\n#second\nschedule s(P, M) {#third\n\n\n# fourth\nlet a = 1;#fifth\n\n\n"
     "# sixth\n\n}# seventh\n\n",
     "# first\n"
     "\n"
     "#second\n"
     "schedule s(P, M) {  #third\n"
     "\n"
     "  # fourth\n"
     "  let a = 1;  #fifth\n"
     "\n"
     "  # sixth\n"
     "}  # seventh\n"},
    {"a statement that goes on is indented by four more",
     "schedule s(P, M) {\nlet a = P\n+ M # why\n+ 1;\nlet b = max(\nP,\nM\n);\n}",
     "schedule s(P, M) {\n"
     "  let a = P\n"
     "      + M  # why\n"
     "      + 1;\n"
     "  let b = max(P,\n"
     "      M);\n"
     "}\n"},
    {"a long line opens its blocks",
     "schedule s(P, M) {\n  rank r {\n    order forward { repeat M as microbatch_of_the_group { "
     "repeat P as stage { F r * 1000000; B r * 1000000 } } }\n  }\n}\n",
     "schedule s(P, M) {\n"
     "  rank r {\n"
     "    order forward {\n"
     "      repeat M as microbatch_of_the_group { repeat P as stage { F r * 1000000; B r * 1000000 "
     "} "
     "}\n"
     "    }\n"
     "  }\n"
     "}\n"},
    {"pipes, timetables, overlaps and derived schedules",
     "schedule s(P,M){\n"
     "  pipe down { stages P on line;          microbatches M/2; }\n"
     "  pipe up   { stages P on reversed line; microbatches M/2; }\n"
     "  split [ 3,4 ];\n"
     "  overlap F&B{\n"
     "  compute{\n"
     "F.attn  B.experts\n"
     "F.combine}\n"
     "  network { B.combine  F.dispatch }\n"
     "  }\n"
     "  rank r timetable {\n"
     "    at 6*(r)   : F down [r]   @ 0;\n"
     "    at 6*r+10  : F up[P-1-r]  @ - 1;\n"
     "    tighten;fill W;\n"
     "  }\n"
     "}\n"
     "schedule t(P,M,lag=1)=s(P,M,extra=lag)then defer W by(lag);\n",
     "schedule s(P, M) {\n"
     "  pipe down { stages P on line;          microbatches M / 2; }\n"
     "  pipe up   { stages P on reversed line; microbatches M / 2; }\n"
     "  split [3, 4];\n"
     "  overlap F & B {\n"
     "    compute {\n"
     "      F.attn  B.experts\n"
     "      F.combine\n"
     "    }\n"
     "    network { B.combine  F.dispatch }\n"
     "  }\n"
     "  rank r timetable {\n"
     "    at 6 * (r)     : F down[r]        @ 0;\n"
     "    at 6 * r + 10  : F up[P - 1 - r]  @ -1;\n"
     "    tighten; fill W;\n"
     "  }\n"
     "}\n"
     "schedule t(P, M, lag = 1) = s(P, M, extra = lag) then defer W by (lag);\n"},
    {"what a search says",
     "schedule s(P,M){stages P on line;\n"
     "  rank r search{\n"
     "  within memory(P+1)*2;pairs F&B  costs s->s+3;\n"
     "    minimize   span;   # the optimizer runs late\n"
     "prefer F,I,W;costs F[1,2],saved_for_W s->-s+2,stash 1}}",
     "schedule s(P, M) {\n"
     "  stages P on line;\n"
     "  rank r search {\n"
     "    within memory (P + 1) * 2; pairs F & B  costs s -> s + 3;\n"
     "    minimize span;     # the optimizer runs late\n"
     "    prefer F, I, W; costs F [1, 2], saved_for_W s -> -s + 2, stash 1\n"
     "  }\n"
     "}\n"},
    {"tabs and carriage returns are blanks",
     "schedule s(P, M) {\r\n\tstages\tP on line;\r\n\trank r { F r }\r\n}\r\n",
     "schedule s(P, M) {\n  stages P on line;\n  rank r { F r }\n}\n"},
};

std::string Formatted(const std::string& text) {
  Diagnostics diagnostics;
  const Source source("x.sched", text);
  const std::optional<std::string> formatted = Format(source, &diagnostics);
  EXPECT_TRUE(formatted) << Render(diagnostics, source) << text;
  return formatted.value_or("");
}

TEST(FmtTest, Table) {
  for (const FormatCase& test : kFormatCases) {
    EXPECT_EQ(Formatted(test.text), test.expected) << test.what;
    EXPECT_EQ(Formatted(test.expected), test.expected) << test.what << ", again";
  }
}

std::vector<std::string> ScheduleFiles() {
  std::vector<std::string> paths;
  for (const char* const top : {"/schedules", "/examples"}) {
    for (const auto& entry : fs::recursive_directory_iterator(SourceFolder() + top)) {
      if (entry.path().extension() == ".sched") paths.push_back(entry.path().string());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

TEST(FmtTest, TheLibraryIsLaidOut) {
  const std::vector<std::string> paths = ScheduleFiles();
  EXPECT_GE(paths.size(), 14u);
  for (const std::string& path : paths) EXPECT_EQ(Formatted(ReadText(path)), ReadText(path));
}

// The same words and comments with other white space between them.
std::string Damaged(const std::string& text, std::mt19937* random) {
  const std::vector<FormatPiece> pieces = Pieces(text);
  std::string out;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const bool must_break = i > 0 && pieces[i - 1].comment;
    const bool must_part = i > 0 && (pieces[i].kind != Token::Kind::kPunctuation ||
                                     pieces[i - 1].kind == Token::Kind::kPunctuation);
    const unsigned choice = (*random)() % 8;
    if (must_break || choice == 0) out += "\n";
    if (choice == 1) out += "\n\n\n";
    if (choice == 2) out += "\t";
    if (choice == 3) out += "     ";
    if (must_part || choice == 4) out += " ";
    out.append(pieces[i].text.data(), pieces[i].text.size());
  }
  return out;
}

// The plans of the file's schedules for a few P and M, as text.
std::string PlansOf(const std::string& text) {
  Diagnostics diagnostics;
  const Source source("x.sched", text);
  const std::optional<ast::File> file = Parse(source, &diagnostics);
  EXPECT_TRUE(file) << Render(diagnostics, source);
  std::string out;
  if (!file) return out;
  for (const ast::Schedule& schedule : file->schedules) {
    for (const auto& [p, m] : {std::pair(2, 2), {2, 4}, {2, 8}, {8, 2}, {8, 24}}) {
      Diagnostics findings;
      const auto plan = Elaborate(*file, schedule.name.text, {{"P", p}, {"M", m}}, &findings);
      out += plan ? Print(*plan) : findings.findings()[0].text + "\n";
    }
  }
  return out;
}

TEST(FmtTest, ChangesNoPlanAndSettlesAtOnce) {
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  std::cout << "seed " << seed << "\n";
  for (const std::string& path : ScheduleFiles()) {
    const std::string text = ReadText(path);
    const std::string plans = PlansOf(text);
    EXPECT_NE(plans.find("rank 1: "), std::string::npos) << path;
    for (int i = 0; i < 60; ++i) {
      const std::string damaged = Damaged(text, &random);
      const std::string formatted = Formatted(damaged);
      ASSERT_EQ(PlansOf(formatted), plans) << "seed " << seed << "\n" << damaged;
      ASSERT_EQ(Formatted(formatted), formatted) << "seed " << seed << "\n" << damaged;
    }
  }
}

TEST(FmtTest, NoLineIsLongThatCouldBeShorter) {
  std::string text = "schedule s(P, M) { stages P on line; rank r { ";
  for (int i = 0; i < 400; ++i) text += "repeat M { F r; B r } if r { W } else { F r & B r; W } ";
  const std::string formatted = Formatted(text + "} }");
  size_t longest = 0;
  for (const std::string& line : Words(formatted)) longest = std::max(longest, line.size());
  EXPECT_LT(longest, 100u);
  EXPECT_EQ(Formatted(formatted), formatted);
}

TEST(FmtTest, WritesWhatChangesAndNothingElse) {
  const std::string folder = ScratchFolder() + "/";
  const std::string bad = "schedule s(P, M) { rank r { F r ";
  WriteText(folder + "ugly.sched", "schedule s(P,M){stages P on line;rank r{F r}}");
  WriteText(folder + "fine.sched", "schedule s(P, M) { stages P on line; rank r { F r } }\n");
  WriteText(folder + "bad.sched", bad);
  fs::permissions(folder + "ugly.sched", fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("ugly.sched", folder + "link.sched");

  Answer answer = RunToolIn(folder, Words("fmt --check ugly.sched fine.sched"));
  EXPECT_EQ(answer.status, 1);
  EXPECT_EQ(answer.out,
            "ugly.sched:1: 1 line would change, from here\n"
            "-schedule s(P,M){stages P on line;rank r{F r}}\n"
            "+schedule s(P, M) { stages P on line; rank r { F r } }\n");
  answer = RunToolIn(folder, Words("fmt --stdout ugly.sched"));
  EXPECT_EQ(answer.status, 0);
  EXPECT_EQ(answer.out, ReadText(folder + "fine.sched"));
  EXPECT_NE(ReadText(folder + "ugly.sched"), answer.out);

  answer = RunToolIn(folder, Words("fmt --stdout ugly.sched --json"));
  EXPECT_EQ(answer.out,
            R"({"ok":true,"files":[{"file":"ugly.sched","changed":true,)"
            R"("text":"schedule s(P, M) { stages P on line; rank r { F r } }\n"}],"findings":[]})"
            "\n");

  answer = RunToolIn(folder, Words("fmt bad.sched link.sched fine.sched --json"));
  EXPECT_EQ(answer.status, 1);
  EXPECT_NE(answer.out.find("\"file\":\"link.sched\",\"changed\":true"), std::string::npos);
  EXPECT_NE(answer.out.find("\"file\":\"fine.sched\",\"changed\":false"), std::string::npos);
  EXPECT_NE(answer.out.find("\"code\":\"syntax\""), std::string::npos);
  EXPECT_EQ(ReadText(folder + "bad.sched"), bad);
  EXPECT_EQ(ReadText(folder + "ugly.sched"), ReadText(folder + "fine.sched"));
  EXPECT_TRUE(fs::is_symlink(folder + "link.sched"));
  EXPECT_EQ(fs::status(folder + "ugly.sched").permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(RunToolIn(folder, Words("fmt ugly.sched --check")).status, 0);
  EXPECT_EQ(RunToolIn(folder, Words("fmt ugly.sched missing.sched")).status, 2);
}

}  // namespace
}  // namespace stringline
