// Plans of several steps: with one version of the weights they are the same training as steps one
// after the other, in every bit; with more they are held against a training in double precision,
// and against one that keeps the versions by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <thread>

#include "executor/run/build_stages.h"
#include "executor/run/train.h"
#include "executor/training/trainer.h"
#include "tests/executor/plain_training.h"
#include "tests/executor/plans.h"
#include "tests/executor/reference_runs.h"
#include "tests/executor/shared_machine.h"
#include "tests/executor/small_run.h"
#include "tests/executor/tiny_models.h"

namespace stringline {
namespace {

using testing::HasSubstr;

// By coordinate, stage and block.
using BlockValues = std::map<std::vector<int>, std::vector<float>>;

struct Told {
  std::vector<double> losses, norms;
  std::vector<int64_t> steps;
  BlockValues params;
  std::vector<RankBytes> rank_bytes;
};

TrainHooks HooksThatTell(Told* told) {
  TrainHooks hooks;
  hooks.after_step = [told](const TrainStep& step, Trainer&) {
    told->steps.push_back(step.step);
    told->losses.push_back(step.loss_nats);
    told->norms.push_back(step.grad_norm);
    return absl::OkStatus();
  };
  hooks.end = [told](int64_t, Trainer& trainer) {
    for (int c = 0; c < trainer.mesh().coordinates(); ++c) {
      for (size_t s = 0; s < trainer.programs().size(); ++s) {
        const StageId stage(static_cast<int32_t>(s));
        if (!trainer.holds(stage, c)) continue;
        for (const OwnedBlock& owned : trainer.OwnedBlocks(stage, c)) {
          told->params[{c, static_cast<int>(s), owned.block}].assign(owned.values.begin(),
                                                                     owned.values.end());
        }
      }
    }
    return absl::OkStatus();
  };
  return hooks;
}

Told TrainOn(const RunConfig& config, const Plan& plan) {
  Told told;
  const auto result = Train(config, plan, Corpus(), HooksThatTell(&told));
  EXPECT_TRUE(result.ok()) << result.status();
  if (result.ok()) told.rank_bytes = result->rank_bytes;
  return told;
}

struct StepsCase {
  const char* schedule;
  int pipeline;
  int stages;  // of a pipe
  TinyFamily family = TinyFamily::kGpt;
  Mesh mesh = {};
  Sharding sharding = Sharding::kNone;
  DType dtype = DType::kF32;
};

class SeveralSteps : public testing::TestWithParam<StepsCase> {
 protected:
  static Plan PlanOf(const StepsCase& of, int steps) {
    const int resident = of.sharding == Sharding::kParameters ? 2 : 0;
    const auto plan = LibraryPlan(of.schedule, of.pipeline, 4, CommLayout::kEdge, resident, steps);
    SL_CHECK(plan.has_value()) << of.schedule;
    return WithSums(*plan, of.mesh);
  }
  static RunConfig ConfigOf(const StepsCase& of) {
    RunConfig config = SmallRun(6);
    config.shape = TinyModel(of.family, of.stages);
    config.shape.dtype = of.dtype;
    std::visit([](auto& shape) { shape.vocabulary = 256; }, config.shape.family);
    if (auto* const decoder = std::get_if<DecoderShape>(&config.shape.family)) {
      decoder->tied = false;
    }
    config.mesh = of.mesh;
    config.sharding = of.sharding;
    config.bucket_bytes = 4096;
    config.clip_norm = 0;
    config.warmup_steps = 3;
    return config;
  }
};

TEST_P(SeveralSteps, AreStepsOneAfterTheOther) {
  const RunConfig config = ConfigOf(GetParam());
  const Told one = TrainOn(config, PlanOf(GetParam(), 1));
  ASSERT_EQ(one.losses.size(), 6u);
  for (const int steps : {2, 3}) {
    const Told several = TrainOn(config, PlanOf(GetParam(), steps));
    EXPECT_EQ(several.steps, one.steps);
    EXPECT_EQ(several.losses, one.losses) << steps;
    EXPECT_EQ(several.norms, one.norms) << steps;
    EXPECT_EQ(several.params, one.params) << steps;
    for (const RankBytes& rank : several.rank_bytes) EXPECT_EQ(rank.allocated, rank.planned);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Training, SeveralSteps,
    testing::Values(
        StepsCase{"1f1b", 2, 2}, StepsCase{"zb_h1", 3, 3}, StepsCase{"zb_v", 2, 4},
        StepsCase{"mario", 4, 4, TinyFamily::kLlama},
        StepsCase{"1f1b_offload", 4, 4, TinyFamily::kLlama}, StepsCase{"dualpipe", 2, 2},
        StepsCase{"interleaved_zb", 2, 4, TinyFamily::kLlama, {}, Sharding::kNone, DType::kBF16},
        StepsCase{"1f1b", 2, 2, TinyFamily::kGpt, {.data = 2}},
        StepsCase{"zb_h1", 2, 2, TinyFamily::kGpt, {.data = 2, .shard = 2}, Sharding::kOptimizer},
        StepsCase{"1f1b",
                  2,
                  2,
                  TinyFamily::kLlama,
                  {.data = 2, .shard = 2},
                  Sharding::kGradients,
                  DType::kBF16},
        StepsCase{"zb_v", 2, 4, TinyFamily::kLlama, {.data = 2, .shard = 2}, Sharding::kParameters},
        StepsCase{"dualpipe_v", 2, 4, TinyFamily::kMoe, {.expert = 2}},
        StepsCase{"1f1b",
                  2,
                  2,
                  TinyFamily::kMoe,
                  {.data = 2, .expert = 2, .shard = 2},
                  Sharding::kOptimizer}));

// The same on processes that hold a rank each.
TEST(SeveralStepsInProcesses, AreThoseOfOne) {
  RunConfig config = SmallRun(6);
  config.clip_norm = 0;
  config.mesh = {.data = 2, .shard = 2};
  config.sharding = Sharding::kOptimizer;
  const Plan plan =
      WithSums(LibraryPlan("zb_h1", 2, 4, CommLayout::kEdge, 0, /*steps=*/3).value(), config.mesh);
  const Told whole = TrainOn(config, plan);
  constexpr int kProcesses = 4;
  std::vector<Told> told(kProcesses);
  std::vector<std::vector<int>> ranks;
  for (int p = 0; p < kProcesses; ++p) ranks.push_back({p});
  SharedMachine machine(ranks);
  std::vector<std::thread> threads;
  for (int p = 0; p < kProcesses; ++p) {
    threads.emplace_back([&, p] {
      const auto result = Train(config, plan, Corpus(), HooksThatTell(&told[p]), machine.Join(p));
      EXPECT_TRUE(result.ok()) << result.status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  BlockValues params;
  for (const Told& of : told) {
    EXPECT_EQ(of.losses, whole.losses);
    EXPECT_EQ(of.norms, whole.norms);
    params.insert(of.params.begin(), of.params.end());
  }
  EXPECT_EQ(params, whole.params);
}

// Steps with versions, by hand: a trainer without a pipeline, whose parameters are exchanged for
// older ones while it computes gradients. Step k of a run of the plan reads those behind update
// k - versions, or the first ones.
Told TrainByHand(const RunConfig& config, int steps_of_plan, int versions, int microbatches) {
  const Plan plan = LibraryPlan("gpipe", 1, microbatches).value();
  Told told;
  TrainerSettings settings;
  settings.seed = config.seed;
  settings.optimizer = config.optimizer;
  settings.clip_norm = 0;
  auto programs = BuildStages(config, plan);
  SL_CHECK(programs.ok()) << programs.status();
  auto made = Trainer::Make(plan, *std::move(programs), settings);
  SL_CHECK(made.ok()) << made.status();
  Trainer& trainer = **made;
  const StageId stage(0);
  const auto count = static_cast<int>(trainer.programs()[0].params.size());
  using Params = std::vector<std::vector<float>>;
  const auto read = [&] {
    Params params;
    for (int p = 0; p < count; ++p) {
      const auto of = trainer.param(stage, p);
      params.emplace_back(of.begin(), of.end());
    }
    return params;
  };
  const auto write = [&](const Params& params) {
    for (int p = 0; p < count; ++p) {
      std::copy(params[p].begin(), params[p].end(), trainer.param(stage, p).begin());
    }
    SL_CHECK(trainer.RefreshWorking().ok());
  };
  const std::string text = Corpus();
  const TrainingData data(text);
  std::vector<Params> behind;  // so many updates of this run of the plan
  for (int64_t step = 0; step < config.steps; ++step) {
    if (step % steps_of_plan == 0) behind.clear();
    behind.push_back(read());
    const auto k = static_cast<int>(step % steps_of_plan);
    for (int32_t m = 0; m < microbatches; ++m) {
      const MicrobatchId id(m);
      SL_CHECK(data.Fill({config.seed, step, m}, config.shape.context(), trainer.tokens(id),
                         trainer.targets(id))
                   .ok());
    }
    write(behind[static_cast<size_t>(std::max(0, k + 1 - versions))]);
    SL_CHECK(trainer.ComputeGradients().ok());
    told.losses.push_back(trainer.loss_sum() / static_cast<double>(trainer.tokens_per_step()));
    write(behind.back());
    const auto norm = trainer.Update(LearningRate(config, step));
    SL_CHECK(norm.ok()) << norm.status();
    told.norms.push_back(*norm);
  }
  for (int p = 0; p < count; ++p) {
    const auto of = trainer.param(stage, p);
    told.params[{p}].assign(of.begin(), of.end());
  }
  return told;
}

Plan WithVersions(int p, int m, int steps, int versions) {
  Plan plan = LibraryPlan("pipedream_2bw", p, m, CommLayout::kEdge, 0, steps).value();
  plan.versions = versions;
  return plan;
}

// The plan's training beside the same one by hand.
void ExpectAsByHand(const Plan& plan, int microbatches, DType dtype) {
  RunConfig config = SmallRun(8);
  config.shape.dtype = dtype;
  config.clip_norm = 0;
  config.warmup_steps = 2;
  const Told by_hand = TrainByHand(config, plan.steps, plan.versions, microbatches);
  Told told;
  BlockValues params;
  TrainHooks hooks = HooksThatTell(&told);
  hooks.end = [&](int64_t, Trainer& trainer) {
    int index = 0;
    for (size_t s = 0; s < trainer.programs().size(); ++s) {
      for (size_t p = 0; p < trainer.programs()[s].params.size(); ++p) {
        const auto of = trainer.param(StageId(static_cast<int32_t>(s)), static_cast<int>(p));
        params[{index++}].assign(of.begin(), of.end());
      }
    }
    return absl::OkStatus();
  };
  const auto result = Train(config, plan, Corpus(), hooks);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(told.losses, by_hand.losses);
  EXPECT_EQ(told.norms, by_hand.norms);
  EXPECT_EQ(params, by_hand.params);
  for (const RankBytes& rank : result->rank_bytes) EXPECT_EQ(rank.allocated, rank.planned);
}

TEST(Versions, AreThoseKeptByHand) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const auto& [stages, steps, versions] :
         {std::tuple(1, 4, 2), std::tuple(2, 4, 2), std::tuple(2, 4, 3), std::tuple(4, 8, 2),
          std::tuple(2, 8, 4)}) {
      SCOPED_TRACE(absl::StrCat(stages, " ", steps, " ", versions));
      const int microbatches = std::max(4, stages);
      ExpectAsByHand(WithVersions(stages, microbatches, steps, versions), microbatches, dtype);
    }
    // PipeDream: a step is a microbatch, or two.
    for (const auto& [microbatches, versions] : {std::pair(1, 4), {2, 3}}) {
      const Plan plan =
          LibraryPlan("pipedream", 4, microbatches, CommLayout::kEdge, 0, /*steps=*/8).value();
      EXPECT_EQ(plan.versions, versions);
      ExpectAsByHand(plan, microbatches, dtype);
    }
  }
}

// PipeDream-2BW (Narayanan et al. 2021): w(t+1) = w(t) - AdamW of the gradient at w(t-1), in double
// precision. Its first steps read the first weights twice.
TEST(Versions, OfTwoAreThoseOfThePaperInDoublePrecision) {
  RunConfig config = OtherRun();
  config.steps = 6;
  plain::Training training(SettingsOf(config), ReferenceText());
  using Values = std::map<std::string, std::vector<double>>;
  const auto exchange = [&](const Values& values) {
    Values before;
    for (auto& [name, weight] : training.weights()) {
      before[name] = weight.value.at;
      weight.value.at = values.at(name);
    }
    return before;
  };
  Values previous;
  for (auto& [name, weight] : training.weights()) previous[name] = weight.value.at;
  std::vector<double> losses, norms;
  for (int64_t step = 0; step < config.steps; ++step) {
    const Values latest = exchange(previous);
    const double loss = training.Gradients(step);
    exchange(latest);
    previous = latest;
    norms.push_back(training.Update(loss, step).norm);
    losses.push_back(loss);
  }
  Told told;
  const auto result =
      Train(config, LibraryPlan("pipedream_2bw", 2, 4, CommLayout::kEdge, 0, 6).value(),
            ReferenceText(), HooksThatTell(&told));
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(told.losses.size(), losses.size());
  for (size_t step = 0; step < losses.size(); ++step) {
    EXPECT_NEAR(told.losses[step], losses[step], 2e-6 * losses[step]) << step;
    EXPECT_NEAR(told.norms[step], norms[step], 2e-5 * norms[step]) << step;
  }
  // A training without delay differs by far more.
  Told undelayed;
  ASSERT_TRUE(
      Train(config, LibraryPlan("1f1b", 2, 4).value(), ReferenceText(), HooksThatTell(&undelayed))
          .ok());
  EXPECT_GT(std::fabs(undelayed.losses[1] - losses[1]), 1e-3 * losses[1]);
}

TEST(SeveralStepsRefused, NameTheReason) {
  const Plan plan = LibraryPlan("1f1b", 2, 4, CommLayout::kEdge, 0, 2).value();
  const auto refused = [&](const Plan& of, const RunConfig& config) {
    const auto result = Train(config, of, Corpus(), {});
    return result.ok() ? std::string("it trains") : std::string(result.status().message());
  };
  RunConfig config = SmallRun(4);
  EXPECT_THAT(refused(plan, config),
              HasSubstr("cannot be clipped to a norm of 1; a clip_norm of 0"));
  config.clip_norm = 0;
  EXPECT_EQ(refused(plan, config), "it trains");
  config.steps = 5;
  EXPECT_EQ(refused(plan, config),
            "`train.steps` is 5, but the schedule performs 2 steps at once: a multiple of 2 would "
            "help");
  config.steps = 4;
  config.checkpoint.every = 3;
  config.checkpoint.folder = testing::TempDir() + "/several_steps";
  EXPECT_THAT(refused(plan, config), HasSubstr("`checkpoint.every` is 3, but"));
  config.checkpoint = {};
  config.shape = TinyModel(TinyFamily::kLlama, 2);
  std::get<DecoderShape>(config.shape.family).vocabulary = 256;
  EXPECT_THAT(refused(plan, config), HasSubstr("which are tied, are summed behind a whole step"));
  config = SmallRun(4);
  config.clip_norm = 0;
  config.mesh = {.data = 2, .shard = 2};
  config.sharding = Sharding::kParameters;
  const Plan versions =
      WithSums(LibraryPlan("pipedream_2bw", 2, 4, CommLayout::kEdge, 2, 2).value(), config.mesh);
  EXPECT_THAT(refused(versions, config), HasSubstr("a stage has one version of its weights"));
  config.sharding = Sharding::kGradients;
  const Plan pipes =
      WithSums(LibraryPlan("dualpipe", 2, 4, CommLayout::kEdge, 0, 2).value(), config.mesh);
  EXPECT_THAT(refused(pipes, config), HasSubstr("ranks of several pipes would gather"));
}

// A rank sums the gradients of its replicas with the last of their REDUCE_GRADs: an UPDATE before
// it would see a part of them.
TEST(SeveralStepsRefused, AnUpdateBeforeTheSumOfReplicasOnItsRank) {
  const std::string begin =
      "plan x P=1 M=2 lowered\npipe a M=1 stages 0\npipe b M=1 stages 0\nrank 0: a[0]F0 b[0]F0 "
      "a[0]B0 a[0]REDUCE_GRAD ";
  const std::string early = begin + "a[0]UPDATE0 b[0]B0 b[0]REDUCE_GRAD b[0]UPDATE0\n";
  const std::string late = begin + "b[0]B0 b[0]REDUCE_GRAD a[0]UPDATE0 b[0]UPDATE0\n";
  RunConfig config = SmallRun(2);
  config.clip_norm = 0;
  const std::string plain = begin + "b[0]B0 b[0]REDUCE_GRAD\n";
  EXPECT_EQ(TrainOn(config, PlanFrom(late)).params, TrainOn(config, PlanFrom(plain)).params);
  const auto refused = Train(config, PlanFrom(early), Corpus(), {});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("a replica of its stage on this rank has its REDUCE_GRAD behind it"));
}

// A gradient that is not finite ends the run by name, in the step of the plan that has it.
TEST(SeveralStepsRefused, ABadGradientWithItsStep) {
  RunConfig config = SmallRun(4);
  config.clip_norm = 0;
  config.optimizer.learning_rate = 1e30;
  const auto result =
      Train(config, LibraryPlan("1f1b", 2, 4, CommLayout::kEdge, 0, 4).value(), Corpus(), {});
  ASSERT_FALSE(result.ok());
  EXPECT_TRUE(absl::IsOutOfRange(result.status())) << result.status();
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("step 2: "));
}

}  // namespace
}  // namespace stringline
