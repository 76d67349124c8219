// The log of the ranks' last commands, as recorded and as reported after a failure.
#include "executor/engine/flight_log.h"

#include <memory>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "executor/cpu/device.h"
#include "executor/cpu/threads_group.h"
#include "executor/engine/interpreter.h"
#include "gtest/gtest.h"
#include "tests/executor/plans.h"

namespace stringline {
namespace {

constexpr const char* kSound =
    "plan one_f_one_b P=2 M=2\n"
    "stages 0 1\n"
    "rank 0: 0F0 0F1 0B0 0B1\n"
    "rank 1: 1F0 1B0 1F1 1B1\n";

// Rank 0 needs microbatch 0 back first, rank 1 takes both before: if messages wait for all
// computations listed before them, the ranks wait for each other in a cycle.
constexpr const char* kWaitInACycle =
    "plan v P=2 M=2\n"
    "stages 0 1 1 0\n"
    "rank 0: 0F0 3F0 3B0 0B0 0F1 3F1 3B1 0B1\n"
    "rank 1: 1F0 1F1 2F0 2F1 2B0 1B0 2B1 1B1\n";

// A plan on threads of this process, with empty actions.
class RecordedSteps {
 public:
  RecordedSteps(const char* text, MessageOrder order)
      : plan_(LoweredFrom(text)), local_({}, plan_.ranks()), groups_(&device_), recorder_(plan_) {
    plan_.source = std::make_shared<const Source>("x.plan", text);
    step_ = *Interpreter::Make(plan_, &work_, &device_, &groups_, &recorder_, {.order = order});
    log_.emplace(plan_, std::vector<Recorder*>{&recorder_}, local_, &device_);
  }
  absl::Status Step() {
    log_->StartStep(device_.NowNs());
    step_->EnqueueStep();
    return device_.Synchronize();
  }
  const Plan& plan() const { return plan_; }
  const FlightLog& log() const { return *log_; }
  FlightLog& log() { return *log_; }

 private:
  Plan plan_;
  const LocalRanks local_;
  CpuDevice device_;
  ThreadGroups groups_;
  NoWork work_;
  Recorder recorder_;
  std::unique_ptr<Interpreter> step_;
  std::optional<FlightLog> log_;
};

std::string NameOf(const Event& event) {
  return PrintAction({}, {}, 1, event.kind, event.stage, event.microbatch);
}

TEST(FlightLog, HasTheWholeOfAFewSteps) {
  RecordedSteps steps(kSound, MessageOrder::kValues);
  EXPECT_TRUE(steps.log().Record(0).events.empty());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(steps.Step().ok());
  const Timeline record = steps.log().Record(0);
  EXPECT_EQ(record.origin, "flight");
  EXPECT_EQ(record.ranks(), 2);
  EXPECT_EQ(record.events.size(), 3 * steps.plan().actions.size());
  EXPECT_FALSE(steps.log().HasUnfinished());
  int64_t first_ns = record.events[0].start_ns;
  for (const Event& event : record.events) {
    EXPECT_FALSE(event.unfinished);
    EXPECT_LE(event.start_ns, event.end_ns);
    first_ns = std::min(first_ns, event.start_ns);
  }
  EXPECT_EQ(first_ns, 0);
  const std::vector<std::string> lines = steps.log().DescribeSteps(0);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0], "step 1 starts at 0");
  EXPECT_TRUE(absl::StartsWith(lines[2], "step 3 starts at "));
}

TEST(FlightLog, KeepsTheLastThousandCommandsOfARank) {
  RecordedSteps steps(kSound, MessageOrder::kValues);
  const auto own = static_cast<int>(steps.plan().of(RankId(0)).size());
  const int count = FlightLog::kCommands / own + 20;
  for (int i = 0; i < count; ++i) ASSERT_TRUE(steps.Step().ok());
  const Timeline record = steps.log().Record(0);
  for (int r = 0; r < 2; ++r) {
    const auto events = record.of(RankId(r));
    ASSERT_EQ(events.size(), static_cast<size_t>(FlightLog::kCommands));
    const Action& last = steps.plan().of(RankId(r)).back();
    EXPECT_EQ(NameOf(events.back()), Print(steps.plan(), last));
  }
  EXPECT_EQ(steps.log().DescribeSteps(0).back().find(absl::StrCat("step ", count, " ")), 0u);
}

TEST(FlightLog, WhatADeadlockLeavesOpenIsUnfinished) {
  RecordedSteps steps(kWaitInACycle, MessageOrder::kListedWork);
  EXPECT_EQ(steps.Step().code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(steps.log().HasUnfinished());
  std::vector<std::string> open;
  for (const Event& event : steps.log().Record(0).events) {
    if (event.unfinished) open.push_back(NameOf(event));
  }
  EXPECT_EQ(open, std::vector<std::string>({"3RECV_F0", "2RECV_B0"}));
  const std::string text = Print(steps.log().Record(0));
  EXPECT_TRUE(absl::StrContains(text, "?")) << text;
}

TEST(FlightLog, SaysWhatRanksDo) {
  RecordedSteps steps(kSound, MessageOrder::kValues);
  ASSERT_TRUE(steps.Step().ok());
  steps.log().Say("updates its parameters");
  std::vector<RankState> states = steps.log().Now();
  ASSERT_EQ(states.size(), 2u);
  EXPECT_EQ(states[1].rank, 1);
  EXPECT_EQ(states[1].doing, "updates its parameters");
  EXPECT_FALSE(states[1].computes);
  EXPECT_TRUE(absl::EndsWith(states[0].completed, " (x.plan:3) of step 1")) << states[0].completed;
  ASSERT_TRUE(steps.Step().ok());
  EXPECT_EQ(steps.log().Now()[1].doing, "");
}

}  // namespace
}  // namespace stringline
