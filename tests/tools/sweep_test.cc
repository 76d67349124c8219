// check --for: the plans of a range, and equality of the table with `check` on each.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schedlang/ask/check_sweep.h"
#include "schedlang/check/check.h"
#include "schedlang/lower/lower.h"
#include "tests/no_new_threads.h"
#include "tests/tools/tool_run.h"

namespace stringline {
namespace {

struct RangeCase {
  const char* ranges;    // as --for says them, separated by blanks
  const char* expected;  // the points, or the error
};

const RangeCase kRangeCases[] = {
    {"P=2..4", "2;3;4"},
    {"P=2..7..2", "2;4;6"},
    {"P=1,4,2..3", "1;4;2;3"},
    {"P=2..3 M=P..P+1", "2,2;2,3;3,3;3,4"},
    {"P=1,2 M=max(P,V)..min(P,2)*V..3", "1,3;2,3;2,6"},
    {"P=1..3 M=P..2", "1,1;1,2;2,2"},
    {"P=-1..1", "-1;0;1"},
    {"P=9223372036854775806..9223372036854775807", "9223372036854775806;9223372036854775807"},
    // Errors
    {"P=M..3 M=1..2", "`ranges=P=M..3`: 'M' is no parameter that has a value before it"},
    {"P=1..2 P=1..2", "'P' is given twice"},
    {"V=1..2", "'V' is given twice"},
    {"P=3..2", "`ranges`: no values at all"},
    {"P=1..5..0", "`ranges=P=1..5..0`: the step is 0"},
    {"P=1..5..-1", "`ranges=P=1..5..-1`: the step is -1"},
    {"P=1..2..3..4", "`ranges=P=1..2..3..4`: write it as `ranges=P=2..64`"},
    {"P=1..", "`ranges=P=1..`: write it as `ranges=P=2..64`"},
    {"P=1,,2", "`ranges=P=1,,2`: write it as `ranges=P=2..64`"},
    {"P", "`ranges=P`: write it as `ranges=P=2..64`"},
    {"=1..2", "`ranges==1..2`: write it as `ranges=P=2..64`"},
    {"P=1+..2", "`ranges=P=1+..2`: '1+' is no expression"},
    {"P=1){}..2", "`ranges=P=1){}..2`: '1){}..2' is no expression"},
    {"P=1..9223372036854775807", "`ranges`: more than 10000000 plans"},
    {"P=1..10000 M=1..10000", "`ranges`: more than 10000000 plans"},
    {"P=1..9223372036854775807+1",
     "`ranges=P=1..9223372036854775807+1`: 9223372036854775807 + 1 overflows "
     "64 bits"},
};

std::string PointsOf(const std::string& text) {
  std::vector<SweepRange> ranges;
  for (const std::string& word : Words(text)) {
    const auto range = ParseSweepRange(word);
    if (!range.ok()) return std::string(range.status().message());
    ranges.push_back(*range);
  }
  const auto points = Enumerate(ranges, {{"V", 3}});
  if (!points.ok()) return std::string(points.status().message());
  std::vector<std::string> out;
  for (size_t i = 0; i < points->size(); ++i) out.push_back(absl::StrJoin(points->at(i), ","));
  return absl::StrJoin(out, ";");
}

TEST(SweepTest, Ranges) {
  for (const RangeCase& test : kRangeCases) EXPECT_EQ(PointsOf(test.ranges), test.expected);
}

TEST(SweepTest, SaysWhatCheckSaysOfEachPlan) {
  const std::string folder = SourceFolder();
  for (const char* const file : {"schedules/dualpipe_v.sched", "schedules/interleaved.sched",
                                 "examples/03_find_a_deadlock/broken.sched"}) {
    const Answer sweep = RunToolIn(
        folder, Words(absl::StrCat("check ", file, " --for P=1..4 --for M=1..3*P --json")));
    const auto json = nlohmann::json::parse(sweep.out);
    size_t right = 0, refused = 0, wrong = 0;
    nlohmann::json first;
    for (int p = 1; p <= 4; ++p) {
      for (int m = 1; m <= 3 * p; ++m) {
        const Answer one =
            RunToolIn(folder, Words(absl::StrCat("check ", file, " P=", p, " M=", m, " --json")));
        const auto answer = nlohmann::json::parse(one.out);
        if (answer["ok"] == true) {
          ++right;
        } else if (answer["findings"][0]["code"] == "require") {
          ++refused;
        } else if (++wrong == 1) {
          first = answer["findings"];
        }
      }
    }
    EXPECT_EQ(json["plans"], 30) << file;
    EXPECT_EQ(json["right"], right) << file;
    EXPECT_EQ(json["refused"], refused) << file;
    EXPECT_EQ(json["wrong"], wrong) << file;
    EXPECT_EQ(sweep.status, wrong == 0 ? 0 : 1) << file;
    if (wrong > 0) {
      EXPECT_EQ(json["findings"], first) << file;
    }
    size_t in_rows = 0;
    for (const auto& row : json["rows"]) in_rows += row["plans"].get<size_t>();
    EXPECT_EQ(in_rows, 30u) << file;
  }
}

TEST(SweepTest, NamesWhatRefuses) {
  const Answer answer = RunToolIn(
      SourceFolder(), Words("check schedules/interleaved.sched V=2 --for P=2..6 --for M=1..6"));
  EXPECT_EQ(answer.status, 0);
  EXPECT_NE(answer.out.find("P=2 M=1: the group size must lie in P .. M\n"), std::string::npos)
      << answer.out;
  EXPECT_NE(answer.out.find("the last group is shorter than the pipeline\n"), std::string::npos);
  EXPECT_NE(answer.out.find(" of 30 plans right; proven: "), std::string::npos);
}

TEST(SweepTest, DoesNotDependOnThreads) {
  std::optional<BrokenFile> broken;
  const auto sweep = ListSweep(
      {.schedules = {{.file = SourceFolder() + "/examples/03_find_a_deadlock/broken.sched"}},
       .ranges = {*ParseSweepRange("P=1..8"), *ParseSweepRange("M=1..8")}},
      &broken);
  ASSERT_TRUE(sweep.ok() && *sweep) << sweep.status();
  const Source& source = (*sweep)->schedules[0].source;
  const PlanProof prove = [](const Plan& plan, Diagnostics* findings) {
    return Check(Lower(plan), findings);
  };
  const auto alone = CheckAll(**sweep, prove, 1);
  ASSERT_TRUE(alone.ok());
  EXPECT_TRUE(alone->first_wrong);
  for (int i = 0; i < 5; ++i) {
    const auto many = CheckAll(**sweep, prove, 7);
    ASSERT_TRUE(many.ok());
    EXPECT_EQ(many->verdicts, alone->verdicts);
    EXPECT_EQ(many->first_wrong, alone->first_wrong);
    EXPECT_EQ(Render(many->findings, source), Render(alone->findings, source));
  }
}

TEST(SweepTest, BadQuestions) {
  const std::string file = "check schedules/1f1b.sched ";
  for (const char* const bad : {"--for Q=1..2", "--for P=Q..2", "--for P=1..2 P=3", "--for P",
                                "--for P=1..2 --for M=1 --schedule t"}) {
    const Answer answer = RunToolIn(SourceFolder(), Words(file + bad));
    EXPECT_EQ(answer.status, 2) << bad << "\n" << answer.out;
    EXPECT_EQ(answer.out, "") << bad;
  }
  EXPECT_EQ(RunToolIn(SourceFolder(), Words("check a.plan --for P=1..2")).status, 2);
  // No M at all: no plan can be made.
  for (const char* const command : {"check", "sim"}) {
    const Answer answer =
        RunToolIn(SourceFolder(), Words(std::string(command) + " 1f1b --for P=1..2"));
    EXPECT_EQ(answer.status, 2);
    EXPECT_EQ(answer.err, "stringline: schedule 'one_f_one_b' needs 'M', as in M=8\n");
  }
}

// The costs of several schedules may name the own actions of one; a name that none has is refused.
TEST(SweepTest, OwnActionsOfOneHaveCosts) {
  const std::string costs = " --cost F=2ms,B=4ms,EVICT=1ms,LOAD=1ms";
  for (const char* const command : {"sim bpipe 1f1b --for P=4 --for M=8",
                                    "compare bpipe 1f1b P=4 M=8", "compare 1f1b bpipe P=4 M=8"}) {
    EXPECT_EQ(RunToolIn(SourceFolder(), Words(command + costs)).status, 0) << command;
    const Answer unknown = RunToolIn(SourceFolder(), Words(command + costs + ",EVIL=1"));
    EXPECT_EQ(unknown.status, 2) << command;
    EXPECT_EQ(unknown.err,
              "stringline: unknown cost 'EVIL' ('stringline sim --help' lists them)\n");
  }
  const Answer apart = RunToolIn(
      SourceFolder(), Words("compare bpipe P=4 M=8" + costs + " -- 1f1b P=4 M=8" + costs));
  EXPECT_EQ(apart.status, 2);
  EXPECT_EQ(apart.err, "stringline: unknown cost 'EVICT' ('stringline sim --help' lists them)\n");
}

// Values stand where they belong on the axis.
TEST(SweepTest, ThePlotHasATrueAxis) {
  const std::string path = ScratchFolder() + "/plot.svg";
  ASSERT_EQ(
      RunToolIn(SourceFolder(), Words("sim 1f1b P=4 --for M=10,20,110 --plot " + path)).status, 0);
  const std::string one = ReadText(path);
  // From 58 to 430: a tenth of the way, not half.
  EXPECT_NE(one.find("<circle cx='58.0'"), std::string::npos) << one;
  EXPECT_NE(one.find("<circle cx='95.2'"), std::string::npos) << one;
  EXPECT_NE(one.find("<circle cx='430.0'"), std::string::npos) << one;
  EXPECT_NE(one.find(">M</text>"), std::string::npos);
  EXPECT_NE(one.find(">100</text>"), std::string::npos);
}

// A line is of a single schedule and P, and its points are those of the table.
TEST(SweepTest, ThePlotJoinsNoTwoParameters) {
  const std::string path = ScratchFolder() + "/lines.svg";
  const std::string words = "sim 1f1b gpipe --for P=2..4 --for M=P,8,64";
  const Answer answer = RunToolIn(SourceFolder(), Words(words + " --plot " + path));
  ASSERT_EQ(answer.status, 0);
  const std::string svg = ReadText(path);
  for (const char* const schedule : {"1f1b", "gpipe"}) {
    for (const char* const p : {"2", "3", "4"}) {
      EXPECT_NE(svg.find(absl::StrCat(">", schedule, " P=", p, "</text>")), std::string::npos);
      EXPECT_NE(answer.out.find(absl::StrCat("  ", schedule, " P=", p, " ")), std::string::npos);
    }
  }
  EXPECT_NE(answer.out.find("bubble, from the first to the last M\n"), std::string::npos);
  EXPECT_NE(svg.find(">M</text>"), std::string::npos);
  // Six lines of three points: 1F1B's bubble is (P - 1) / (M + P - 1), which falls with M.
  static const std::regex line(
      "<path d='M([0-9.]+) ([0-9.]+)L([0-9.]+) ([0-9.]+)L([0-9.]+) ([0-9.]+)'");
  size_t lines = 0;
  for (std::sregex_iterator at(svg.begin(), svg.end(), line), end; at != end; ++at, ++lines) {
    for (const int point : {1, 3}) {
      EXPECT_LT(std::stod((*at)[point]), std::stod((*at)[point + 2]));
      EXPECT_LT(std::stod((*at)[point + 1]), std::stod((*at)[point + 3]));
    }
  }
  EXPECT_EQ(lines, 6u) << svg;
  // The axis is the last parameter with several values.
  const Answer other = RunToolIn(SourceFolder(), Words("sim 1f1b --for P=2..4 --for M=8"));
  EXPECT_NE(other.out.find("from the first to the last P\n  1f1b  "), std::string::npos)
      << other.out;
}

// A size that no schedule admits is refused; this does not make the schedule wrong.
TEST(SweepTest, NoRanksAreRefused) {
  const Answer checked =
      RunToolIn(SourceFolder(), Words("check 1f1b --for P=0..2 --for M=2..3 --json"));
  EXPECT_EQ(checked.status, 0);
  EXPECT_NE(checked.out.find("\"right\":4,\"refused\":2,\"wrong\":0"), std::string::npos)
      << checked.out;
  const Answer simulated = RunToolIn(SourceFolder(), Words("sim 1f1b M=4 --for P=0..2"));
  EXPECT_NE(simulated.out.find("P=0: refused: 'P' is 0"), std::string::npos) << simulated.out;
}

// If the system starts no threads, the calling thread does all the work.
TEST(SweepTest, NeedsNoThreadsOfItsOwn) {
  for (const char* const line : {"check schedules/1f1b.sched --for P=2..4 --for M=P..8 --json",
                                 "sim schedules/1f1b.sched --for P=2..4 --for M=P..8 --json"}) {
    Answer usual = RunToolIn(SourceFolder(), Words(line)), alone;
    {
      const NoNewThreads none;
      alone = RunToolIn(SourceFolder(), Words(line));
    }
    auto with = nlohmann::json::parse(usual.out), without = nlohmann::json::parse(alone.out);
    for (const char* const time : {"elapsed_s", "plans_per_second", "steps_per_second"}) {
      with.erase(time);
      without.erase(time);
    }
    EXPECT_EQ(alone.status, 0) << alone.err;
    EXPECT_EQ(without, with) << line;
  }
}

}  // namespace
}  // namespace stringline
