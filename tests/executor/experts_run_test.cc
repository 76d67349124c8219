// Training with experts: biases that balance, capacities, tied embeddings, and the errors of
// impossible run files.
#include <unistd.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "executor/run/train.h"
#include "executor/training/trainer.h"
#include "gtest/gtest.h"
#include "tests/executor/plans.h"
#include "tests/executor/small_run.h"
#include "tests/executor/tiny_models.h"

namespace stringline {
namespace {

RunConfig RunOf(TinyFamily family, int64_t steps) {
  RunConfig config = SmallRun(steps);
  AnyShape shape = TinyModel(family, 4);
  std::visit([](auto& of_family) { of_family.vocabulary = 256; }, shape.family);
  config.shape = shape;
  return config;
}

MoeShape& MoeOf(RunConfig* config) { return std::get<DecoderShape>(config->shape.family).moe; }

std::vector<double> LossesOf(const RunConfig& config, const char* schedule, int p, int m) {
  const Plan plan = WithSums(LibraryPlan(schedule, p, m).value(), config.mesh);
  const auto result = Train(config, plan, Corpus(), {});
  SL_CHECK(result.ok()) << result.status();
  return result->losses_nats;
}

// Data, routing, gradients, biases and updates depend neither on the schedule nor on the cut.
TEST(ExpertsRun, LossesAreTheSameInEveryBitWhateverTheSchedule) {
  const RunConfig config = RunOf(TinyFamily::kMoe, 6);
  const std::vector<double> whole = LossesOf(config, "gpipe", 1, 8);
  EXPECT_LT(whole.back(), whole.front());
  EXPECT_EQ(LossesOf(config, "1f1b", 2, 8), whole);
  EXPECT_EQ(LossesOf(config, "1f1b", 4, 8), whole);
  EXPECT_EQ(LossesOf(config, "zb_v", 2, 8), whole);
  EXPECT_EQ(LossesOf(config, "dualpipe_v", 2, 8), whole);
}

// More coordinates with fewer microbatches each: the same step, added up in another order.
TEST(ExpertsRun, LossesOnAMeshAreThoseOfOnePipelineButForRounding) {
  RunConfig config = RunOf(TinyFamily::kMoe, 6);
  MoeOf(&config).balance_rate = 0;  // its sign would amplify rounding
  const std::vector<double> whole = LossesOf(config, "1f1b", 2, 16);
  for (const Mesh mesh : {Mesh{1, 2}, Mesh{2, 1}, Mesh{2, 2}, Mesh{1, 4}}) {
    config.mesh = mesh;
    for (const char* const schedule : {"1f1b", "dualpipe_v"}) {
      SCOPED_TRACE(absl::StrCat(schedule, " data ", mesh.data, " expert ", mesh.expert));
      const std::vector<double> losses = LossesOf(config, schedule, 2, 16 / mesh.coordinates());
      ASSERT_EQ(losses.size(), whole.size());
      for (size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(losses[i], whole[i], 1e-4) << i;
    }
  }
}

TEST(ExpertsRun, ABiasMovesAgainstTheLoadOfItsExpert) {
  RunConfig config = RunOf(TinyFamily::kMoe, 1);
  config.mesh.expert = 2;
  int biases = 0;
  std::vector<std::vector<float>> loads;
  TrainHooks hooks;
  const auto visit = [](Trainer& trainer, auto visit_bias) {
    for (size_t s = 0; s < trainer.programs().size(); ++s) {
      for (size_t p = 0; p < trainer.programs()[s].params.size(); ++p) {
        if (trainer.programs()[s].params[p].update != Update::kBalance) continue;
        for (int c = 0; c < trainer.mesh().coordinates(); ++c) {
          visit_bias(StageId(static_cast<int32_t>(s)), static_cast<int>(p), c);
        }
      }
    }
  };
  hooks.gradients = [&](int64_t, Trainer& trainer) {
    visit(trainer, [&](StageId stage, int p, int c) {
      const auto load = trainer.grad(stage, p, c);
      loads.emplace_back(load.begin(), load.end());
    });
  };
  hooks.after_step = [&](const TrainStep& step, Trainer& trainer) {
    EXPECT_GT(step.aux_loss_nats, 0);
    visit(trainer, [&](StageId stage, int p, int c) {
      const std::vector<float>& load = loads[biases++];
      double slots = 0;
      for (const float of_expert : load) slots += of_expert;
      // Every token of the step chose two experts, on some coordinate.
      EXPECT_EQ(slots, 2.0 * static_cast<double>(trainer.tokens_per_step()));
      const auto bias = trainer.param(stage, p, c);
      for (size_t e = 0; e < load.size(); ++e) {
        const double off = slots / static_cast<double>(load.size()) - load[e];
        EXPECT_FLOAT_EQ(bias[e], off == 0 ? 0 : off > 0 ? 1e-3F : -1e-3F) << e;
        EXPECT_EQ(trainer.grad(stage, p, c)[e], 0);
      }
    });
    return absl::OkStatus();
  };
  const Plan plan = WithSums(LibraryPlan("zb_v", 2, 4).value(), config.mesh);
  const auto result = Train(config, plan, Corpus(), hooks);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(biases, 4 * 2);  // four layers, on two coordinates
}

TEST(ExpertsRun, MoreThanACapacityIsAnErrorOrIsCountedAsTheFileSays) {
  RunConfig config = RunOf(TinyFamily::kMoe, 2);
  const Plan plan = LibraryPlan("1f1b", 2, 4).value();
  MoeOf(&config).capacity = 0.5;
  const absl::Status status = Train(config, plan, Corpus(), {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_NE(status.message().find("slots are beyond the capacity of their experts (0.5 times"),
            std::string::npos)
      << status;
  MoeOf(&config).overflow = Overflow::kDrop;
  for (const int experts : {1, 2}) {
    config.mesh.expert = experts;
    std::vector<int64_t> dropped;
    TrainHooks hooks;
    hooks.after_step = [&](const TrainStep& step, Trainer&) {
      dropped.push_back(step.dropped);
      return absl::OkStatus();
    };
    const auto result = Train(config, WithSums(plan, config.mesh), Corpus(), hooks);
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_EQ(dropped.size(), 2u);
    // At least half of all slots have no room.
    const int64_t slots = 4 * 2 * result->tokens_per_step;  // layers, choices
    EXPECT_GE(dropped[0], slots / 2);
    EXPECT_LT(dropped[0], slots);
  }
  MoeOf(&config).capacity = 8;  // all tokens may choose the same expert
  MoeOf(&config).overflow = Overflow::kError;
  EXPECT_TRUE(Train(config, WithSums(plan, config.mesh), Corpus(), {}).ok());
}

// The head's weight is the embedding's: one parameter with two places.
TEST(TiedRun, BothPlacesStayOneParameter) {
  const RunConfig config = RunOf(TinyFamily::kLlama, 5);
  const std::vector<double> whole = LossesOf(config, "gpipe", 1, 8);
  EXPECT_LT(whole.back(), whole.front());
  EXPECT_EQ(LossesOf(config, "1f1b", 4, 8), whole);        // on two ranks
  EXPECT_EQ(LossesOf(config, "dualpipe_v", 2, 8), whole);  // on one
  for (const auto& [schedule, p] : {std::pair{"1f1b", 4}, {"zb_v", 2}, {"chimera", 4}}) {
    TrainHooks hooks;
    hooks.end = [&](int64_t, Trainer& trainer) {
      std::vector<float> first;
      int places = 0;
      for (size_t s = 0; s < trainer.programs().size(); ++s) {
        for (size_t p = 0; p < trainer.programs()[s].params.size(); ++p) {
          const Param& param = trainer.programs()[s].params[p];
          if (param.name != "embedding.weight" && param.tied_to != "embedding.weight") continue;
          const auto values = trainer.param(StageId(static_cast<int32_t>(s)), static_cast<int>(p));
          if (places++ == 0) first.assign(values.begin(), values.end());
          EXPECT_TRUE(std::equal(values.begin(), values.end(), first.begin(), first.end()))
              << schedule << " stage " << s;
        }
      }
      EXPECT_EQ(places, trainer.plan().pipes.empty() ? 2 : 4);
      return absl::OkStatus();
    };
    const auto result = Train(config, LibraryPlan(schedule, p, 8).value(), Corpus(), hooks);
    ASSERT_TRUE(result.ok()) << result.status();
    for (size_t i = 0; i < whole.size(); ++i) {
      EXPECT_NEAR(result->losses_nats[i], whole[i], 1e-5) << schedule;
    }
  }
}

int64_t ResidentPages() {
  int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident;
}

// A sanitizer's own memory grows, and its steps take long.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kManySteps = 150;
constexpr int64_t kMostGrowth = int64_t{1} << 40;
#else
constexpr int kManySteps = 1000;
constexpr int64_t kMostGrowth = 1 << 20;
#endif

TEST(ExpertsRun, AThousandStepsTakeNoMoreMemoryThanAHundred) {
  RunConfig config = RunOf(TinyFamily::kMoe, kManySteps);
  config.mesh.expert = 2;
  int64_t early = 0;
  TrainHooks hooks;
  hooks.after_step = [&](const TrainStep& step, Trainer&) {
    if (step.step == 100) early = ResidentPages();
    return absl::OkStatus();
  };
  const Plan plan = WithSums(LibraryPlan("dualpipe_v", 2, 4).value(), config.mesh);
  const auto result = Train(config, plan, Corpus(), hooks);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_LT(result->final_loss_nats, 0.7 * result->first_loss_nats);
  if (early == 0) GTEST_SKIP() << "this system does not say what memory is in use";
  EXPECT_LE((ResidentPages() - early) * sysconf(_SC_PAGESIZE), kMostGrowth);
}

TEST(ExpertsRun, WhatCannotBeIsSaid) {
  const Plan plan = LibraryPlan("1f1b", 2, 4).value();
  struct Case {
    void (*change)(RunConfig* config);
    const char* says;
  };
  const Case cases[] = {
      {[](RunConfig* c) { c->mesh_pipeline = 4; },
       "mesh.pipeline is 4, but the schedule has 2 ranks"},
      {[](RunConfig* c) { c->mesh.expert = 3; }, "8 experts"},
      {[](RunConfig* c) { c->mesh.expert = 16; }, "8 experts"},
      {[](RunConfig* c) { MoeOf(c).top_k = 9; }, "9"},
      {[](RunConfig* c) { MoeOf(c).groups = 3; }, "groups"},
      {[](RunConfig* c) {
         c->mesh.expert = 2;
         c->shape = RunOf(TinyFamily::kGpt, 1).shape;
       },
       "a model without experts"},
  };
  for (const Case& c : cases) {
    RunConfig config = RunOf(TinyFamily::kMoe, 1);
    c.change(&config);
    const absl::Status status = Train(config, WithSums(plan, config.mesh), Corpus(), {}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_NE(status.message().find(c.says), std::string::npos) << status;
  }
}

}  // namespace
}  // namespace stringline
