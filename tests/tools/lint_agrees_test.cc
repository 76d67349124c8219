// `lint` and `sim --messages as-written` give the same times, to the nanosecond, for the same file,
// costs and layout.
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/tools/tool_run.h"
#include "tools/io/json.h"

namespace stringline {
namespace {

constexpr const char* kCosts[] = {
    "",
    " --cost F=18522,I=18086,W=9337,p2p=3001",
    " --cost F=10,B=21,I=11,W=10,p2p=1.5,message=1MB,bandwidth=333GB/s,unshard=7,reduce=13",
};
constexpr const char* kLayouts[] = {"shared", "pair", "edge"};

Json AnswerTo(const std::string& line) {
  const Answer answer = RunToolIn(SourceFolder(), Words(absl::StrCat(line, " --json")));
  EXPECT_EQ(answer.status, 0) << line << "\n" << answer.out << answer.err;
  return Json::parse(answer.out, nullptr, /*allow_exceptions=*/false);
}

Json SimulatedAsWritten(const std::string& file, const std::string& costs, const char* layout) {
  return AnswerTo(absl::StrCat("sim ", file, costs, " --messages as-written --layout ", layout));
}

// Compares the times of the file's own order. Returns how many differ from the times with early
// messages.
int CompareOwnOrder(const std::string& file) {
  int differ = 0;
  for (const std::string costs : kCosts) {
    const Json lint = AnswerTo(absl::StrCat("lint ", file, costs));
    for (const char* const layout : kLayouts) {
      SCOPED_TRACE(testing::Message() << file << costs << " " << layout);
      const Json& expected = lint["layouts"][layout]["makespan_us"];
      EXPECT_EQ(SimulatedAsWritten(file, costs, layout)["makespan_us"], expected);
      const Json early = AnswerTo(absl::StrCat("sim ", file, costs, " --layout ", layout));
      differ += early["makespan_us"] != expected ? 1 : 0;
      EXPECT_LE(early["makespan_us"].get<double>(), expected.get<double>());
    }
  }
  return differ;
}

TEST(LintAgrees, WithSimOnTorchsOwnFiles) {
  int differ = 0;
  for (const char* const name :
       {"interleaved1f1b_p4_v2_m8", "dualpipev_p4_v2_m10", "zbvzerobubble_p4_v2_m8",
        "interleavedzerobubble_p4_v3_m12", "gpipe_p2_v1_m4", "loopedbfs_p4_v2_m8"}) {
    differ += CompareOwnOrder(absl::StrCat("tests/golden/torch/", name, "_comms.csv"));
  }
  EXPECT_GT(differ, 0) << "where messages stand should matter somewhere";
}

// Exports of the library, with waits and without; and lint's estimate for an export with waits
// equals sim's time of this export.
TEST(LintAgrees, WithSimOnExportsOfTheLibrary) {
  const std::string comms = ScratchFolder() + "/comms.csv";
  const std::string computed = ScratchFolder() + "/compute.csv";
  for (const std::string schedule : {"1f1b P=2 M=4", "zb_h1 P=4 M=6", "interleaved P=4 M=8 V=2",
                                     "zb_v P=3 M=7", "dualpipe_v P=4 M=9"}) {
    for (const std::string costs : kCosts) {
      const auto write = [&](const char* form, const std::string& file) {
        AnswerTo(absl::StrCat("export ", schedule, costs, " --to ", form, " --out ", file));
      };
      write("torch-compute", computed);
      const Json promised = AnswerTo(absl::StrCat("lint ", computed, costs));
      for (const char* const form : {"torch-comms-2.14", "torch-comms"}) {
        write(form, comms);
        const Json lint = AnswerTo(absl::StrCat("lint ", comms, costs));
        for (const char* const layout : kLayouts) {
          SCOPED_TRACE(testing::Message() << schedule << costs << " " << form << " " << layout);
          const Json times = SimulatedAsWritten(comms, costs, layout);
          EXPECT_EQ(times["makespan_us"], lint["layouts"][layout]["makespan_us"]);
          EXPECT_EQ(times["makespan_us"], lint["layouts"][layout]["export_order_us"]);
          if (form != std::string("torch-comms")) continue;
          EXPECT_EQ(times["makespan_us"], promised["layouts"][layout]["export_order_us"]);
        }
      }
    }
  }
}

// A lowered plan holds its messages, too; a schedule, and a compute form, hold none.
TEST(LintAgrees, AsWrittenIsForFilesThatHoldMessages) {
  const std::string lowered = ScratchFolder() + "/lowered.plan";
  const Answer plan = RunToolIn(SourceFolder(), Words("plan 1f1b P=2 M=3 --lowered"));
  WriteText(lowered, plan.out);
  EXPECT_EQ(AnswerTo("sim " + lowered + " --messages as-written")["makespan_us"], 12'000);
  for (const char* const line :
       {"sim 1f1b P=2 M=3 --messages as-written", "show zb_v P=2 M=4 --messages as-written",
        "sim tests/golden/torch/gpipe_p2_v1_m4_compute.csv --messages as-written",
        "sim 1f1b P=2 --for M=2..4 --messages as-written"}) {
    const Answer refused = RunToolIn(SourceFolder(), Words(line));
    EXPECT_EQ(refused.status, 2) << line;
    EXPECT_NE(refused.err.find("hold sends and receives"), std::string::npos) << refused.err;
  }
}

// On a file with waits that hang, both report the deadlock.
TEST(LintAgrees, WithSimOnWhatNeverEnds) {
  const std::string file = "tests/golden/lint/waits_hang.csv";
  const Answer lint = RunToolIn(SourceFolder(), Words("lint " + file));
  const Answer sim = RunToolIn(SourceFolder(), Words("sim " + file + " --messages as-written"));
  EXPECT_EQ(lint.status, 1);
  EXPECT_EQ(sim.status, 1);
  EXPECT_NE(sim.err.find("this closes the cycle"), std::string::npos) << sim.err;
  EXPECT_EQ(sim.err, lint.out);
}

// The causes of a rank's idle time add up in every layout.
TEST(LintAgrees, CausesOfIdleTimeAddUp) {
  for (const char* const layout : kLayouts) {
    const Json report =
        AnswerTo(absl::StrCat("report tests/golden/torch/interleaved1f1b_p4_v2_m8_comms.csv",
                              kCosts[2], " --messages as-written --layout ", layout));
    double queue = 0;
    for (const Json& rank : report["ranks"]) {
      double sum = 0;
      for (const auto& [cause, us] : rank["causes_us"].items()) sum += us.get<double>();
      EXPECT_NEAR(sum, rank["idle_us"].get<double>(), 0.01);
      EXPECT_EQ(rank["causes_us"]["other"], 0);
      queue += rank["causes_us"]["queue"].get<double>();
    }
    if (layout == std::string("shared")) {
      EXPECT_GT(queue, 0);
    }
  }
}

}  // namespace
}  // namespace stringline
