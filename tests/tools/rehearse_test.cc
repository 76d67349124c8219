// `stringline rehearse` and `stringline calibrate`: a run in real time, beside the simulation, and
// a simulation from the run's measured costs.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/tools/tool_run.h"

namespace stringline {
namespace {

nlohmann::json JsonOf(const std::string& line) {
  const Answer answer = RunToolIn(SourceFolder(), Words(line + " --json"));
  EXPECT_EQ(answer.status, 0) << line << "\n" << answer.out;
  auto json = nlohmann::json::parse(answer.out, nullptr, false);
  EXPECT_TRUE(json.is_object()) << answer.out;
  return json;
}

// Rehearsal.* tests their closeness; here other processes may keep the machine busy.
TEST(RehearseTest, ARunGivesCostsToSimulateFrom) {
  const std::string folder = ScratchFolder() + "/";
  const std::string schedule = "schedules/dualpipe_v.sched P=4 M=8";
  const auto run = JsonOf("rehearse " + schedule +
                          " --cost F=2ms,I=3ms,W=1ms,FB=5ms --link 1ms,2GB/s --message 1MB "
                          "--steps 3 --timeline " +
                          folder + "run.timeline");
  EXPECT_EQ(run["steps_us"].size(), 3u);
  EXPECT_GE(run["measured_us"], run["simulated_us"]);
  JsonOf("calibrate " + folder + "run.timeline --out " + folder + "costs.yaml");
  const auto sim = JsonOf("sim " + schedule + " --costs " + folder + "costs.yaml");
  EXPECT_GE(sim["makespan_us"], run["simulated_us"]);
}

TEST(RehearseTest, ASlowRankIsSlow) {
  const auto run =
      JsonOf("rehearse schedules/1f1b.sched P=2 M=2 --cost F=1ms,B=2ms --slow 1=50% --steps 1");
  EXPECT_EQ(run["simulated_us"], 1'000 + 2 * 1'500 + 2 * 3'000 + 2'000);
  EXPECT_GE(run["measured_us"], run["simulated_us"]);
}

TEST(RehearseTest, PrintsBothPicturesAndTheError) {
  const Answer answer = RunToolIn(
      SourceFolder(), Words("rehearse schedules/1f1b.sched P=2 M=2 --cost F=1ms,B=2ms --steps 3"));
  ASSERT_EQ(answer.status, 0) << answer.out << answer.err;
  for (const char* const words :
       {"  measured: ", "  simulated: 9 ms", "predicted 9 ms, took ", "the median of 3 steps, "}) {
    EXPECT_NE(answer.out.find(words), std::string::npos) << words << "\n" << answer.out;
  }
}

// With latencies that occupy nothing, and with collectives, as in `sim`; beside a control.
TEST(RehearseTest, PredictsWhatSimSays) {
  for (const char* const costs :
       {"F=1ms,B=2ms,p2p=3ms", "F=1ms,B=2ms,p2p=1ms,message=2MB,bandwidth=1GB/s",
        "F=1ms,I=1ms,W=1ms,p2p=1ms,unshard=2ms,reduce=5ms"}) {
    const std::string step = std::string("schedules/interleaved.sched P=2 M=4 --cost ") + costs;
    const auto run = JsonOf("rehearse " + step + " --steps 1");
    const auto sim = JsonOf("sim " + step);
    EXPECT_EQ(run["simulated_us"], sim["makespan_us"]) << costs;
    EXPECT_GE(run["measured_us"], run["simulated_us"]) << costs;
    EXPECT_GE(run["control_us"], sim["ranks"][0]["busy_us"]) << costs;
    ASSERT_EQ(run["controls_us"].size(), 1u);
    EXPECT_GE(run["controls_us"][0], run["control_us"]) << costs;
    EXPECT_GT(run["reconstructed"]["starts"], 0) << costs;
    const bool disturbed = run["disturbance"] > 0.03;
    const bool off = run["misprediction"] < -0.03;
    EXPECT_EQ(run["verdict"], disturbed ? "disturbed" : off ? "wrong" : "right") << costs;
  }
}

TEST(RehearseTest, UnequalMicrobatchesTakeTheirOwnTimes) {
  const std::string step = "schedules/1f1b.sched P=2 M=2 --cost F=1ms,B=1ms,microbatch=[1,2]";
  const auto run = JsonOf("rehearse " + step + " --steps 1"), sim = JsonOf("sim " + step);
  EXPECT_EQ(run["simulated_us"], sim["makespan_us"]);
  EXPECT_GE(run["measured_us"], run["simulated_us"]);
}

TEST(RehearseTest, WithoutALinkTheCostsSayWhatMessagesTake) {
  const auto run = JsonOf(
      "rehearse schedules/1f1b.sched P=2 M=1 --cost "
      "F=1ms,B=1ms,p2p=3ms,message=2MB,bandwidth=1GB/s --steps 1");
  EXPECT_EQ(run["simulated_us"], 4 * 1'000 + 2 * 5'000);
  EXPECT_GE(run["measured_us"], run["simulated_us"]);
}

}  // namespace
}  // namespace stringline
