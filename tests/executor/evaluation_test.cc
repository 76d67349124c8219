// Evaluations between the steps of a training: their loss is the plain forward's, and the training
// has every bit of the one without them.
#include "executor/training/evaluation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "executor/training/data.h"
#include "executor/training/trainer.h"
#include "schedlang/check/check.h"
#include "schedlang/orders/only_forwards.h"
#include "stages/layers.h"
#include "stages/split.h"
#include "tests/executor/plans.h"
#include "tests/executor/tiny_models.h"

namespace stringline {
namespace {

using testing::HasSubstr;

TEST(OnlyForwards, OfEveryScheduleAreProven) {
  for (const std::string& name : LibrarySchedules()) {
    for (const int steps : {1, 2}) {
      const auto plan = LibraryPlan(name, 4, 8, CommLayout::kEdge, 0, steps);
      if (!plan) continue;
      const Plan only = Lower(OnlyForwards(*plan));
      Diagnostics findings;
      Check(only, {}, &findings);
      EXPECT_TRUE(findings.empty()) << name << ": " << findings.findings()[0].text;
      const auto forwards = [](const Plan& of) {
        return std::count_if(of.actions.begin(), of.actions.end(),
                             [](const Action& a) { return a.kind == ActionKind::kForward; });
      };
      EXPECT_EQ(forwards(only) * plan->steps, forwards(*plan)) << name;
      EXPECT_EQ(only.microbatches * plan->steps, plan->microbatches) << name;
    }
  }
}

TEST(WithoutBackwards, GivesTheSameOutputsAndSavesNothing) {
  for (const TinyFamily family : kTinyFamilies) {
    const auto programs = BuildModelStages(TinyModel(family, 2), {1, 1});
    ASSERT_TRUE(programs.ok()) << programs.status();
    for (const StageProgram& program : *programs) {
      const StageProgram without = WithoutBackwards(program);
      std::vector<Role> roles;
      for (const Port& port : without.forward.outputs) roles.push_back(port.role);
      EXPECT_EQ(std::count(roles.begin(), roles.end(), Role::kSaved), 0);
      EXPECT_EQ(roles.front(), program.last ? Role::kLoss : Role::kOutput);
      EXPECT_LE(without.forward.nodes.size(), program.forward.nodes.size());
      EXPECT_EQ(without.forward_parts.size(), program.forward_parts.size());
    }
  }
}

TEST(EvaluationData, LiesEvenlyOverAText) {
  std::string text;
  for (int i = 0; i < 200; ++i) text.push_back(static_cast<char>(i));
  const TrainingData data(text);
  constexpr int kContext = 9, kCount = 12;
  for (int64_t first = 0; first < kCount; first += 3) {
    std::vector<int32_t> tokens(3 * kContext), targets(3 * kContext);
    ASSERT_TRUE(
        data.FillEvenly(first, kCount, kContext, absl::MakeSpan(tokens), absl::MakeSpan(targets))
            .ok());
    for (int64_t row = 0; row < 3; ++row) {
      const int64_t begin = (first + row) * (200 - kContext) / kCount;
      for (int64_t i = 0; i < kContext; ++i) {
        EXPECT_EQ(tokens[static_cast<size_t>(row * kContext + i)], begin + i);
        EXPECT_EQ(targets[static_cast<size_t>(row * kContext + i)], begin + i + 1);
      }
    }
  }
}

struct EvaluatedCase {
  const char* schedule;
  int pipeline;
  TinyFamily family = TinyFamily::kGpt;
  Mesh mesh = {};
  Sharding sharding = Sharding::kNone;
  DType dtype = DType::kF32;
};

void PrintTo(const EvaluatedCase& of, std::ostream* out) {
  *out << of.schedule << " " << NameOf(of.family) << " " << of.mesh.data << " " << of.mesh.expert;
}

class EvaluatedTraining : public testing::TestWithParam<EvaluatedCase> {
 protected:
  // A trainer with evaluations, or without.
  static std::unique_ptr<Trainer> TrainerOf(const EvaluatedCase& of, bool evaluates) {
    const bool gathers = of.sharding == Sharding::kParameters;
    const auto plan = LibraryPlan(of.schedule, of.pipeline, 4, CommLayout::kEdge, gathers ? 2 : 0);
    SL_CHECK(plan.has_value()) << of.schedule;
    const int pipes = std::max<int>(1, static_cast<int>(plan->pipes.size()));
    const int stages = static_cast<int>(plan->stages.size()) / pipes;
    AnyShape shape = TinyModel(of.family, stages);
    shape.dtype = of.dtype;
    const auto pipe = BuildModelStages(shape, *SplitEven(stages, stages),
                                       {.expert_ranks = of.mesh.expert, .slices = plan->slices});
    SL_CHECK(pipe.ok()) << pipe.status();
    std::vector<StageProgram> programs;
    for (int p = 0; p < pipes; ++p) programs.insert(programs.end(), pipe->begin(), pipe->end());
    TrainerSettings settings = {.seed = 3, .mesh = of.mesh, .sharding = of.sharding};
    settings.optimizer.learning_rate = 0.01;
    if (evaluates) {
      settings.evaluation = Lower(AddCollectives(OnlyForwards(*plan), {.gathers = gathers}));
    }
    auto trainer = Trainer::Make(WithSums(*plan, of.mesh), std::move(programs), settings);
    SL_CHECK(trainer.ok()) << trainer.status();
    return *std::move(trainer);
  }

  // Random data; a training and an evaluation fill theirs alike.
  template <typename Filled>
  static void Fill(Filled* filled, unsigned seed) {
    std::mt19937 random(seed);
    for (int32_t m = 0; m < filled->microbatches(); ++m) {
      const MicrobatchId of(m);
      for (const auto& data : {filled->tokens(of), filled->targets(of)}) {
        for (int32_t& token : data) token = static_cast<int32_t>(random() % kTinyVocabulary);
      }
    }
  }
};

TEST_P(EvaluatedTraining, HasTheLossOfItsForwardAndChangesNothing) {
  const std::unique_ptr<Trainer> plain = TrainerOf(GetParam(), false);
  const std::unique_ptr<Trainer> evaluated = TrainerOf(GetParam(), true);
  ASSERT_EQ(plain->evaluation(), nullptr);
  Evaluation& evaluation = *evaluated->evaluation();
  ASSERT_EQ(evaluation.microbatches(), evaluated->microbatches());
  for (unsigned step = 0; step < 3; ++step) {
    // The next step's loss, of the same data, is the evaluation's.
    Fill(&evaluation, step);
    ASSERT_TRUE(evaluation.Run().ok());
    for (Trainer* const trainer : {plain.get(), evaluated.get()}) {
      Fill(trainer, step);
      ASSERT_TRUE(trainer->ComputeGradients().ok());
    }
    EXPECT_EQ(evaluation.loss_sum(), evaluated->loss_sum());
    EXPECT_EQ(plain->loss_sum(), evaluated->loss_sum());
    const auto norm = plain->Update(0.01), same = evaluated->Update(0.01);
    ASSERT_TRUE(norm.ok() && same.ok());
    EXPECT_EQ(*norm, *same);
  }
  const auto with = evaluated->rank_bytes(), without = plain->rank_bytes();
  for (size_t r = 0; r < with.size(); ++r) {
    EXPECT_EQ(with[r].planned, with[r].allocated);
    EXPECT_GT(with[r].planned, without[r].planned);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Tiny, EvaluatedTraining,
    testing::Values(
        EvaluatedCase{"1f1b", 2}, EvaluatedCase{"zb_v", 2, TinyFamily::kLlama},
        EvaluatedCase{"interleaved", 2, TinyFamily::kGpt, {}, Sharding::kNone, DType::kBF16},
        EvaluatedCase{"dualpipe", 2, TinyFamily::kMoe, {.expert = 2}},
        EvaluatedCase{"dualpipe_v", 2, TinyFamily::kMoe, {.data = 2}}, EvaluatedCase{"seq1f1b", 2},
        EvaluatedCase{"svpp", 2, TinyFamily::kLlama, {.data = 2}},
        EvaluatedCase{"slimpipe", 2, TinyFamily::kMoe, {}, Sharding::kNone, DType::kBF16},
        EvaluatedCase{"1f1b", 2, TinyFamily::kGpt, {.data = 2}, Sharding::kOptimizer},
        EvaluatedCase{"interleaved", 2, TinyFamily::kGpt, {.data = 2}, Sharding::kParameters}));

TEST(EvaluatedTrainings, AreOnTheRanksOfTheParameters) {
  const auto programs = BuildModelStages(TinyModel(TinyFamily::kGpt, 2), {1, 1});
  const auto message = [&](const Plan& evaluation) {
    const TrainerSettings settings = {.evaluation = evaluation};
    return std::string(
        Trainer::Make(*LibraryPlan("1f1b", 2, 2), *programs, settings).status().message());
  };
  EXPECT_THAT(message(*LibraryPlan("1f1b", 2, 2)), HasSubstr("the schedule has backwards"));
  EXPECT_THAT(message(LoweredFrom("plan one P=1 M=1\nforward only\nstages 0\nrank 0: 0F0\n")),
              HasSubstr("has 1 stages on 1 ranks, but one_f_one_b has 2 on 2"));
  EXPECT_THAT(message(LoweredFrom("plan cut P=2 M=1\nslices 2\nforward only\nstages 0 1\n"
                                  "rank 0: 0F0.0 0F0.1\nrank 1: 1F0.0 1F0.1\n")),
              HasSubstr("cuts sequences into 2 slices, and one_f_one_b, whose programs it runs, "
                        "into 1"));
  EXPECT_THAT(message(LoweredFrom("plan turned P=2 M=1\nforward only\nstages 1 0\n"
                                  "rank 0: 1F0\nrank 1: 0F0\n")),
              HasSubstr("stage 0 on rank 1, but the parameters are on rank 0"));
}

}  // namespace
}  // namespace stringline
