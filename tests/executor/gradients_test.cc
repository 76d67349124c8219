// Every gradient and the loss of a pipeline equal those of the whole model without a pipeline, for
// every family of models and every mesh: bitwise if sums run in the same order.
#include <algorithm>
#include <cmath>
#include <random>

#include "absl/strings/str_cat.h"
#include "executor/training/reference.h"
#include "executor/training/trainer.h"
#include "gtest/gtest.h"
#include "schedlang/check/check.h"
#include "stages/layers.h"
#include "stages/models/model.h"
#include "tests/executor/plans.h"
#include "tests/executor/random_groups.h"
#include "tests/executor/tiny_models.h"

namespace stringline {
namespace {

// True if every stage adds up its weight gradients in the order of the microbatches. Only then are
// two sums of floats bitwise equal.
bool AddsInOrder(const Plan& plan) {
  std::vector<int> latest(plan.stages.size(), -1);
  for (const Action& action : plan.actions) {
    if (action.kind != ActionKind::kBackward && action.kind != ActionKind::kWeightGradient)
      continue;
    int& last = latest[action.stage.value];
    if (action.microbatch.value < last) return false;
    last = action.microbatch.value;
  }
  return true;
}

// One layer a stage, by default.
class Comparison {
 public:
  struct Settings {
    TinyFamily family = TinyFamily::kGpt;
    Mesh mesh;
    RecomputePolicy recompute;
    int layers_per_stage = 1;
    DType dtype = DType::kF32;
    bool packed = false;  // random documents
  };

  Comparison(const Plan& plan, unsigned seed, const Settings& settings)
      : stages_(plan.pipes.empty() ? static_cast<int>(plan.stages.size()) : plan.pipes[0].stages),
        in_order_(AddsInOrder(plan) && plan.pipes.empty() && settings.mesh.coordinates() == 1),
        seed_(seed) {
    const int layers = stages_ * settings.layers_per_stage;
    AnyShape shape = TinyModel(settings.family, layers);
    shape.dtype = settings.dtype;
    whole_ = std::move(BuildModelStages(shape, {layers}, {.packed = settings.packed})->front());
    const auto pipe = BuildModelStages(shape, std::vector<int>(stages_, settings.layers_per_stage),
                                       {.expert_ranks = settings.mesh.expert,
                                        .recompute = settings.recompute,
                                        .packed = settings.packed});
    SL_CHECK(pipe.ok()) << pipe.status();
    std::vector<StageProgram> programs;
    while (programs.size() < plan.stages.size()) {
      programs.insert(programs.end(), pipe->begin(), pipe->end());
    }
    auto trainer = Trainer::Make(WithSums(plan, settings.mesh), std::move(programs),
                                 {.seed = seed, .mesh = settings.mesh});
    SL_CHECK(trainer.ok()) << trainer.status();
    trainer_ = *std::move(trainer);
  }

  void RunAndCompare() {
    const int microbatches = trainer_->microbatches();
    Reference reference(whole_, seed_);
    std::mt19937 random(seed_);
    double loss = 0;
    for (int32_t m = 0; m < microbatches; ++m) {
      const auto tokens = trainer_->tokens(MicrobatchId(m));
      const auto targets = trainer_->targets(MicrobatchId(m));
      for (int32_t& token : tokens) token = static_cast<int32_t>(random() % kTinyVocabulary);
      for (int32_t& target : targets) target = static_cast<int32_t>(random() % kTinyVocabulary);
      const auto positions = trainer_->positions(MicrobatchId(m));
      EXPECT_EQ(positions.empty(), !whole_.positions);
      const auto context = static_cast<size_t>(whole_.inputs[0].type.shape[1]);
      for (size_t i = 0; i < positions.size(); ++i) {
        const bool begins = i % context == 0 || random() % 3 == 0;
        positions[i] = begins ? 0 : positions[i - 1] + 1;
        if (begins && i > 0) targets[i - 1] = kNoTarget;
      }
      const size_t chunks = trainer_->plan().chunks, chunk = tokens.size() / chunks;
      const auto rows = static_cast<uint64_t>(whole_.inputs[0].type.shape[0]);  // of a chunk
      const uint64_t first = m * chunks * rows;
      trainer_->SetMaskKey(MicrobatchId(m), {seed_, first});
      for (size_t k = 0; k < chunks; ++k) {
        const auto of_chunk = [&](absl::Span<const int32_t> all) {
          return all.empty() ? all : all.subspan(k * chunk, chunk);
        };
        loss += reference.RunMicrobatch(of_chunk(tokens), of_chunk(targets), of_chunk(positions),
                                        {seed_, first + k * rows});
      }
    }
    const absl::Status status = trainer_->ComputeGradients();
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_GT(loss, 0);
    EXPECT_EQ(trainer_->dropped(), 0);
    if (in_order_) {
      EXPECT_EQ(trainer_->loss_sum(), loss);
    } else {
      EXPECT_NEAR(trainer_->loss_sum(), loss, 1e-5 * loss);
    }
    for (int c = 0; c < trainer_->mesh().coordinates(); ++c) CompareCopies(reference, c);
  }

  bool in_order() const { return in_order_; }
  Trainer& trainer() { return *trainer_; }

 private:
  // The gradients of every stage, and of every copy of it.
  void CompareCopies(const Reference& reference, int coordinate) {
    size_t found = 0;
    for (int32_t s = 0; s < static_cast<int32_t>(trainer_->programs().size()); ++s) {
      const std::vector<Param>& params = trainer_->programs()[s].params;
      for (size_t i = 0; i < params.size(); ++i) {
        const auto whole =
            std::find_if(whole_.params.begin(), whole_.params.end(),
                         [&](const Param& candidate) { return candidate.name == params[i].name; });
        ASSERT_NE(whole, whole_.params.end()) << params[i].name;
        absl::Span<const float> want =
            reference.grad(static_cast<int>(whole - whole_.params.begin()));
        const auto got = trainer_->grad(StageId(s), static_cast<int>(i), coordinate);
        if (params[i].expert) {
          want = want.subspan(trainer_->mesh().expert_of(coordinate) * got.size(), got.size());
        }
        CompareGradient(params[i].name, got, want);
        ++found;
      }
    }
    EXPECT_GE(found, whole_.params.size());
  }

  void CompareGradient(const std::string& name, absl::Span<const float> got,
                       absl::Span<const float> want) {
    ASSERT_EQ(got.size(), want.size());
    float largest = 0, apart = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_TRUE(std::isfinite(got[i]) && std::isfinite(want[i])) << name << " " << i;
      largest = std::max(largest, std::abs(want[i]));
      apart = std::max(apart, std::abs(got[i] - want[i]));
    }
    EXPECT_GT(largest, 0) << name;
    EXPECT_LE(apart, in_order_ ? 0.0F : 1e-5F * largest) << name;
  }

  const int stages_;  // per pipe
  const bool in_order_;
  const unsigned seed_;
  StageProgram whole_;
  std::unique_ptr<Trainer> trainer_;
};

TEST(Gradients, AHandMadePlanOfAllKindsOfActions) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  for (const TinyFamily family : kTinyFamilies) {
    Comparison comparison(LoweredFrom("plan v P=2 M=2\n"
                                      "stages 0 1 1 0\n"
                                      "rank 0: 0F0 0F1 3F0 3F1&3B0 3I1 0B0 3W1 0I1 0W1\n"
                                      "rank 1: 1F0 2F0 1F1 2F1 2B0 1B0&2B1 1B1\n"),
                          seed, {.family = family});
    ASSERT_TRUE(comparison.in_order());
    comparison.RunAndCompare();
  }
}

// Copies of the pipeline, each with its own microbatches: the same gradients in all of them.
TEST(Gradients, AreSummedOverTheDataCoordinatesOfAMesh) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  for (const char* const schedule : {"1f1b", "zb_v", "dualpipe_v", "chimera", "dualpipe"}) {
    for (const int copies : {2, 3}) {
      for (const DType dtype : {DType::kF32, DType::kBF16}) {
        Comparison comparison(LibraryPlan(schedule, 2, 4).value(), seed,
                              {.mesh = {.data = copies}, .dtype = dtype});
        comparison.RunAndCompare();
      }
    }
  }
}

// Several layers of experts per stage pair up, first with last; with recompute, and with weights'
// recompute.
TEST(Gradients, OfManyLayersOfExpertsAStageAndOfRecompute) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  for (const char* const schedule : {"1f1b", "zb_v", "dualpipe_v", "megatron_combined"}) {
    for (const Recompute what :
         {Recompute::kNone, Recompute::kAttn, Recompute::kExperts, Recompute::kAll}) {
      for (const bool for_weights : {false, true}) {
        SCOPED_TRACE(
            absl::StrCat(schedule, " recompute ", static_cast<int>(what), " ", for_weights));
        for (const DType dtype : {DType::kF32, DType::kBF16}) {
          Comparison comparison(LibraryPlan(schedule, 2, 4).value(), seed,
                                {.family = TinyFamily::kMoe,
                                 .recompute = {what, for_weights},
                                 .layers_per_stage = 3,
                                 .dtype = dtype});
          ASSERT_TRUE(comparison.in_order());
          comparison.RunAndCompare();
        }
      }
    }
  }
}

// Pairs of a stage with recompute and a stage without.
TEST(Gradients, OfExpertsWhereSomeStagesRecompute) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  for (const char* const schedule : {"zb_v", "dualpipe_v", "megatron_combined"}) {
    for (const bool for_weights : {false, true}) {
      SCOPED_TRACE(absl::StrCat(schedule, " ", for_weights));
      const Plan plan = LibraryPlan(schedule, 2, 4).value();
      std::vector<Recompute> by_stage(plan.stages.size(), Recompute::kNone);
      for (size_t s = 0; s < by_stage.size(); s += 2) by_stage[s] = Recompute::kAll;
      by_stage.back() = Recompute::kExperts;
      Comparison comparison(plan, seed,
                            {.family = TinyFamily::kMoe,
                             .recompute = {.for_weights = for_weights, .by_stage = by_stage},
                             .layers_per_stage = 2});
      ASSERT_TRUE(comparison.in_order());
      comparison.RunAndCompare();
    }
  }
}

// Groups of any kinds and sizes, in the default order of their parts and in random ones, and with
// microbatches in chunks: each chunk is a microbatch of the reference.
TEST(Gradients, OfRandomGroupsOfActionsAreTheSameInEveryBit) {
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  int groups = 0;
  for (int draw = 0; draw < 30 && !testing::Test::HasFatalFailure(); ++draw) {
    const bool folded = draw % 2 == 0;
    RandomGroups made(folded ? std::vector<int>{0, 1, 1, 0} : std::vector<int>{0, 1}, 4, &random);
    const std::string text = made.Text(1 + draw % 3);
    SCOPED_TRACE(absl::StrCat("seed ", seed, ", draw ", draw, "\n", text));
    const Plan plan = LoweredFrom(text);
    Diagnostics diagnostics;
    ASSERT_TRUE(Check(plan, {}, &diagnostics)) << diagnostics.findings()[0].text;
    Comparison comparison(plan, seed, {.family = TinyFamily::kMoe, .layers_per_stage = 2});
    ASSERT_TRUE(comparison.in_order());
    comparison.RunAndCompare();
    groups += made.groups();
  }
  EXPECT_GT(groups, 100);
}

// Every kind of model, also without parts, and with recompute.
TEST(Gradients, OfMicrobatchesInChunksAreThoseOfTheirChunks) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  for (const TinyFamily family :
       {TinyFamily::kGpt, TinyFamily::kLlama, TinyFamily::kMoe, TinyFamily::kDropout}) {
    for (const char* const schedule : {"1f1b", "zb_v", "dualpipe_v"}) {
      for (const Recompute what : {Recompute::kNone, Recompute::kAll}) {
        SCOPED_TRACE(absl::StrCat(schedule, " ", static_cast<int>(family), " recompute ",
                                  static_cast<int>(what)));
        Plan plan = LibraryPlan(schedule, 2, 4).value();
        plan.chunks = 2;
        for (const bool packed : {false, true}) {
          if (packed && family == TinyFamily::kDropout) continue;  // of a program: refused
          Comparison comparison(plan, seed,
                                {.family = family, .recompute = {.what = what}, .packed = packed});
          ASSERT_TRUE(comparison.in_order());
          comparison.RunAndCompare();
        }
      }
    }
  }
}

// On every schedule, whose B, I, W and R make the masks of F again; and with copies of the
// pipeline.
TEST(Gradients, OfDropoutAreThoseOfTheOracle) {
  const unsigned seed = std::random_device{}();
  int compared = 0;
  for (const std::string& schedule : TrainedSchedules()) {
    for (const int copies : {1, 2}) {
      const std::optional<Plan> plan = LibraryPlan(schedule, 2, 4);
      if (!plan || plan->slices > 1 || HasUpdates(*plan) || !plan->WholeGraph().is_chain())
        continue;
      RecomputePolicy recompute;
      for (const Stage& stage : plan->stages) {
        recompute.remakes.push_back(stage.remakes);
        if (stage.remakes) recompute.what = Recompute::kAll;
      }
      SCOPED_TRACE(absl::StrCat(schedule, " ", copies, " seed ", seed));
      Comparison comparison(
          *plan, seed,
          {.family = TinyFamily::kDropout, .mesh = {.data = copies}, .recompute = recompute});
      comparison.RunAndCompare();
      ++compared;
    }
  }
  EXPECT_GT(compared, 40);
}

// Two pipes add up their own microbatches first.
bool SumsInAnotherOrder(const std::string& schedule) {
  return schedule == "chimera" || schedule == "dualpipe" || schedule == "gems" ||
         schedule == "bitpipe";
}

class Library : public testing::TestWithParam<std::tuple<const char*, TinyFamily>> {
 protected:
  const char* schedule() const { return std::get<0>(GetParam()); }
  TinyFamily family() const { return std::get<1>(GetParam()); }
};

TEST_P(Library, GradientsAreThoseOfTheOracle) {
  const unsigned seed = std::random_device{}();
  int compared = 0, in_order = 0;
  for (int p : {1, 2, 4}) {
    for (int m : {p, 2 * p, 2 * p + 1, 3 * p}) {
      const std::optional<Plan> plan = LibraryPlan(schedule(), p, m);
      if (!plan.has_value()) continue;
      SCOPED_TRACE(testing::Message() << "P=" << p << " M=" << m << " seed " << seed);
      for (const DType dtype : {DType::kF32, DType::kBF16}) {
        for (const bool packed : {false, true}) {
          if ((packed || dtype == DType::kBF16) && m != 2 * p) continue;
          Comparison comparison(*plan, seed,
                                {.family = family(), .dtype = dtype, .packed = packed});
          comparison.RunAndCompare();
          ++compared;
          in_order += comparison.in_order() ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GE(compared, 4);
  EXPECT_GE(in_order, SumsInAnotherOrder(schedule()) ? 0 : 1);
}

// Pipelines of one, two and four ranks, up to eight with their copies. Some of the copies divide
// the experts; a model without experts has plain copies instead.
TEST_P(Library, GradientsAreThoseOfTheOracleOnEveryMesh) {
  const unsigned seed = std::random_device{}();
  int compared = 0;
  for (const auto& [p, data, expert] :
       {std::tuple{1, 1, 4}, {1, 2, 2}, {2, 1, 2}, {2, 2, 2}, {2, 1, 4}, {4, 1, 2}}) {
    const std::optional<Plan> plan = LibraryPlan(schedule(), p, 2 * p);
    if (!plan.has_value()) continue;
    const bool moe = family() == TinyFamily::kMoe;
    const Mesh mesh = moe ? Mesh{data, expert} : Mesh{data * expert, 1};
    SCOPED_TRACE(testing::Message() << "P=" << p << " data=" << mesh.data
                                    << " expert=" << mesh.expert << " seed " << seed);
    for (const Recompute what : {Recompute::kNone, Recompute::kAll}) {
      for (const DType dtype : {DType::kF32, DType::kBF16}) {
        if (dtype == DType::kBF16 && (p != 2 || data != 1)) continue;
        Comparison comparison(*plan, seed,
                              {.family = family(),
                               .mesh = mesh,
                               .recompute = {what, false},
                               .dtype = dtype,
                               .packed = p == 2 && what == Recompute::kAll});
        comparison.RunAndCompare();
        ++compared;
      }
    }
  }
  EXPECT_GE(compared, 8);
}

INSTANTIATE_TEST_SUITE_P(
    Schedules, Library,
    testing::Combine(testing::Values("gpipe", "1f1b", "looped_bfs", "interleaved", "interleaved_zb",
                                     "megatron_combined", "kimi_k2", "zb_h1", "zb_h2", "zb_v",
                                     "dualpipe_v", "v_half", "v_min", "gis", "hanayo", "chimera",
                                     "dualpipe", "gems", "circular", "bitpipe"),
                     testing::ValuesIn(kTinyFamilies)),
    [](const auto& info) {
      return absl::StrCat("s_", std::get<0>(info.param), "_", NameOf(std::get<1>(info.param)));
    });

// Every parameter's gradient after a step with the schedule.
std::vector<float> GradientsWith(const char* schedule, int layers_per_stage, unsigned seed) {
  Comparison comparison(LibraryPlan(schedule, 2, 8).value(), seed,
                        {.family = TinyFamily::kMoe, .layers_per_stage = layers_per_stage});
  comparison.RunAndCompare();
  std::map<std::string, std::vector<float>> by_name;
  Trainer& trainer = comparison.trainer();
  for (size_t s = 0; s < trainer.programs().size(); ++s) {
    for (size_t p = 0; p < trainer.programs()[s].params.size(); ++p) {
      const auto values = trainer.grad(StageId(static_cast<int32_t>(s)), static_cast<int>(p));
      by_name[trainer.programs()[s].params[p].name].assign(values.begin(), values.end());
    }
  }
  std::vector<float> all;
  for (const auto& [name, values] : by_name) all.insert(all.end(), values.begin(), values.end());
  return all;
}

TEST(Gradients, OfTheSameExpertsAreTheSameInEveryBitWhateverTheSchedule) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const std::vector<float> one = GradientsWith("1f1b", 2, seed);  // 2 stages of 2 layers
  EXPECT_GT(one.size(), 1000u);
  EXPECT_EQ(GradientsWith("zb_v", 1, seed), one);  // 4 stages of 1 layer
  EXPECT_EQ(GradientsWith("dualpipe_v", 1, seed), one);
}

}  // namespace
}  // namespace stringline
