// Training with R and with copies to the host: not a bit of the losses changes.
#include <string>
#include <vector>

#include "executor/rehearsal/strict.h"
#include "executor/run/train.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedlang/check/check.h"
#include "tests/executor/plans.h"
#include "tests/executor/small_run.h"
#include "tests/executor/tiny_models.h"

namespace stringline {
namespace {

RunConfig RunOf(TinyFamily family) {
  RunConfig config = SmallRun(2);
  if (family == TinyFamily::kGpt) return config;
  auto shape = std::get<DecoderShape>(TinyModel(family, 8).family);
  shape.vocabulary = 256;
  config.shape = shape;
  return config;
}

std::vector<double> LossesOf(const RunConfig& config, const Plan& plan) {
  const auto result = Train(config, plan, Corpus(), {});
  EXPECT_TRUE(result.ok()) << result.status() << "\n" << Print(plan);
  return result.ok() ? result->losses_nats : std::vector<double>();
}

TEST(HostCopies, ChangeNoLoss) {
  for (const TinyFamily family : {TinyFamily::kGpt, TinyFamily::kMoe}) {
    const RunConfig config = RunOf(family);
    for (const char* const name : {"1f1b", "zb_h1", "zb_v", "interleaved", "dualpipe"}) {
      const int ranks = 4, microbatches = 8;
      const std::vector<double> usual = LossesOf(config, *LibraryPlan(name, ranks, microbatches));
      for (const auto& [remakes, copies] : {std::pair(true, false), {false, true}, {true, true}}) {
        SCOPED_TRACE(testing::Message() << NameOf(family) << " " << name << ", R " << remakes
                                        << ", copies " << copies);
        const std::optional<Plan> plan = ChangedPlan(name, ranks, microbatches, remakes, copies);
        ASSERT_TRUE(plan.has_value());
        Diagnostics findings;
        EXPECT_TRUE(Check(*plan, &findings)) << findings.findings()[0].text;
        EXPECT_EQ(LossesOf(config, *plan), usual);
        EXPECT_TRUE(RunStrict(*plan, CommLayout::kEdge).ok());
      }
    }
  }
}

// An R of a part of the stage makes that part again; the rest is kept.
TEST(HostCopies, AnRMayMakeAPartOfAStage) {
  RunConfig config = RunOf(TinyFamily::kMoe);
  const std::vector<double> usual = LossesOf(config, *LibraryPlan("zb_h1", 2, 6));
  const Plan plan = *ChangedPlan("zb_h1", 2, 6, true, true);
  for (const Recompute what : {Recompute::kAttn, Recompute::kExperts, Recompute::kAll}) {
    config.recompute.what = what;
    EXPECT_EQ(LossesOf(config, plan), usual) << static_cast<int>(what);
  }
  config.recompute.what = Recompute::kNone;
  EXPECT_THAT(Train(config, plan, Corpus(), {}).status().message(),
              testing::HasSubstr("train.recompute: none: the schedule performs R of stage 0"));
  config.recompute = {.what = Recompute::kAll, .for_weights = true};
  EXPECT_THAT(Train(config, plan, Corpus(), {}).status().message(),
              testing::HasSubstr("train.recompute_weights: the schedule performs R of stage 0"));
}

// Stages for which the schedule says `recompute` and lists no R begin their backward with their F.
TEST(HostCopies, TheScheduleSaysWhichStagesRecompute) {
  const RunConfig config = RunOf(TinyFamily::kGpt);
  const std::string plan = "stages 0 1\nrank 0: 0F0 0F1 0B0 0B1\nrank 1: 1F0 1B0 1F1 1B1\n";
  const Plan keeps = LoweredFrom("plan x P=2 M=2\n" + plan);
  const Plan again = LoweredFrom("plan x P=2 M=2\nstages 0 1\nrecompute 1 0\n" + plan.substr(11));
  const auto usual = Train(config, keeps, Corpus(), {});
  const auto scheduled = Train(config, again, Corpus(), {});
  ASSERT_TRUE(usual.ok() && scheduled.ok());
  EXPECT_EQ(usual->losses_nats, scheduled->losses_nats);
  EXPECT_LT(scheduled->rank_bytes[0].planned, usual->rank_bytes[0].planned);
  EXPECT_EQ(scheduled->rank_bytes[1].planned, usual->rank_bytes[1].planned);
}

// In chunks, and where parameters are shared out and gathered.
TEST(HostCopies, StandBesideChunks) {
  const RunConfig config = RunOf(TinyFamily::kMoe);
  Plan usual = *LibraryPlan("1f1b", 2, 4);
  Plan changed = *ChangedPlan("1f1b", 2, 4, true, true);
  usual.chunks = changed.chunks = 2;
  EXPECT_EQ(LossesOf(config, changed), LossesOf(config, usual));
}

}  // namespace
}  // namespace stringline
