// Dropout: its random words, its masks, and the programs of stages that have it.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <set>

#include "absl/strings/str_cat.h"
#include "executor/cpu/kernels/philox.h"
#include "stages/ops.h"
#include "stages/program_text.h"
#include "stages/split.h"
#include "tests/stages/model_runs.h"
#include "tests/stages/raised_builder.h"
#include "tests/stages/random_values.h"
#include "tests/stages/run_kernel.h"

namespace stringline::cpu {
namespace {

constexpr uint64_t kSeed = 0x123456789abcdef0, kSample = 0x0fedcba987654321;

// The known answers of Random123 1.14 (kat_vectors, philox4x32 of 10 rounds).
TEST(Philox, HasTheKnownAnswers) {
  struct Known {
    PhiloxWords counter;
    uint32_t key[2];
    PhiloxWords words;
  };
  const Known known[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
       {0xffffffff, 0xffffffff},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (const Known& of : known) {
    EXPECT_EQ(Philox(of.counter, of.key[0], of.key[1]), of.words);
  }
}

// A mask: what dropout makes of ones.
std::vector<float> MaskOf(std::vector<int64_t> shape, double p, double site, const MaskKey& key) {
  Array ones = MakeArray(F32(std::move(shape)));
  std::fill_n(ones.f32(), ones.type.elements(), 1.0f);
  const Array y = RunKernel(Op::kDropout, {ones, MakeMaskKey(key)}, {p, site})[0];
  return {y.f32(), y.f32() + y.type.elements()};
}

// The documented rule, number by number.
TEST(Dropout, KeepsTheNumbersOfTheRule) {
  for (const int64_t count : {1, 5, 63, 64, 65, 1000}) {
    for (const double p : {0.0, 0.1, 0.75, 1.0}) {
      const std::vector<float> mask = MaskOf({count}, p, 5, {kSeed, kSample});
      for (int64_t i = 0; i < count; ++i) {
        const PhiloxWords words = Philox({static_cast<uint32_t>(i / 4), 5, 0x87654321, 0x0fedcba9},
                                         0x9abcdef0, 0x12345678);
        const bool kept = words[i % 4] >= p * 4294967296.0;
        const float wanted = kept ? static_cast<float>(1 / (1 - p)) : 0;
        ASSERT_EQ(mask[static_cast<size_t>(i)], wanted) << count << " " << p << " " << i;
      }
    }
  }
}

// Zeros are as many as of independent draws, to five standard deviations, also of neighbours and
// over microbatches; and the mean stays.
TEST(Dropout, DropsItsShare) {
  constexpr int64_t kCount = 40000;
  for (const double p : {0.1, 0.5, 0.9}) {
    double zeros = 0, pairs = 0, sum = 0;
    std::vector<float> before(kCount, 1);
    constexpr int kMicrobatches = 10;
    for (int m = 0; m < kMicrobatches; ++m) {
      const std::vector<float> mask = MaskOf({kCount}, p, 1, {7, static_cast<uint64_t>(2 * m)});
      for (size_t i = 0; i < kCount; ++i) {
        zeros += mask[i] == 0;
        sum += mask[i];
        pairs += mask[i] == 0 && mask[(i + 1) % kCount] == 0;
        pairs += mask[i] == 0 && before[i] == 0;
      }
      before = mask;
    }
    const double draws = kMicrobatches * kCount;
    EXPECT_NEAR(zeros / draws, p, 5 * std::sqrt(p * (1 - p) / draws));
    EXPECT_NEAR(sum / draws, 1, 5 * std::sqrt(p / (1 - p) / draws));
    const double both = 2 - 1.0 / kMicrobatches;  // the first microbatch has none before it
    EXPECT_NEAR(pairs / draws, both * p * p, 5 * std::sqrt(4 * p / draws));
  }
}

// Another seed, sample, site or place in any of its words gives another mask; the shape does not.
TEST(Dropout, MasksDifferInEverythingTheyAreMadeOf) {
  std::set<std::vector<float>> masks;
  const auto add = [&](double site, const MaskKey& key) {
    EXPECT_TRUE(masks.insert(MaskOf({100}, 0.5, site, key)).second) << site << " " << key.seed;
  };
  add(0, {});
  for (const double site : {1.0, 2.0, 65536.0}) add(site, {});
  for (const uint64_t number : {uint64_t{1}, uint64_t{2}, uint64_t{1} << 32, uint64_t{1} << 63}) {
    add(0, {number, 0});
    add(0, {0, number});
  }
  const std::vector<float> row = MaskOf({600}, 0.5, 3, {4, 5});
  EXPECT_EQ(MaskOf({2, 3, 100}, 0.5, 3, {4, 5}), row);
  EXPECT_TRUE(std::equal(row.begin(), row.begin() + 77, MaskOf({77}, 0.5, 3, {4, 5}).begin()));
  EXPECT_FALSE(std::equal(row.begin(), row.begin() + 64, row.begin() + 64));
}

AnyShape Dropping() { return WithDropout(3, 11, 2); }

TEST(DropoutStages, NoCutChangesABit) {
  CheckCuts(Dropping(), {{3}, {1, 2}, {0, 3}, {3, 0}, {1, 1, 1}, {0, 1, 1, 1, 0}});
}

TEST(DropoutStages, GradientsAreDifferences) { CheckGradient(Dropping()); }

TEST(DropoutStages, RecomputedForwardsHaveTheSameMasks) {
  std::mt19937_64 random(TestSeed());
  const std::vector<Batch> batches = RandomBatches(Dropping(), random);
  const auto run = [&](const BuildOptions& options, Mode mode) {
    const auto programs = BuildModelStages(Dropping(), {1, 2}, options);
    EXPECT_TRUE(programs.ok()) << programs.status();
    return RunModel(*programs, batches, 3, mode);
  };
  const ModelResult kept = run({}, Mode::kWhole);
  for (const bool for_weights : {false, true}) {
    for (const Mode mode : {Mode::kWhole, Mode::kSplit, Mode::kDeferred}) {
      BuildOptions options;
      options.recompute.what = Recompute::kAll;
      options.recompute.for_weights = for_weights;
      ExpectSameBits(run(options, mode), kept);
    }
  }
}

// Only stages with dropout have a key, of which four words are saved, and no mask is.
TEST(DropoutStages, SaveTheKeyAlone) {
  const auto count = [](const StageProgram& program) {
    return std::count_if(program.forward.nodes.begin(), program.forward.nodes.end(),
                         [](const Node& node) { return node.op == Op::kDropout; });
  };
  const auto stages = BuildModelStages(Dropping(), {0, 3, 0});
  ASSERT_TRUE(stages.ok()) << stages.status();
  const std::vector<int64_t> wanted = {1, 9, 0};
  for (size_t s = 0; s < wanted.size(); ++s) {
    const StageProgram& program = (*stages)[s];
    EXPECT_EQ(count(program), wanted[s]);
    EXPECT_EQ(program.mask_key.has_value(), wanted[s] > 0);
    EXPECT_EQ(std::count_if(program.saved.begin(), program.saved.end(),
                            [](const Saved& of) {
                              return of.type == Type{DType::kI32, {4}};
                            }),
              wanted[s] > 0);
  }
  // Beside the key and both operands of the products, what GELU takes.
  EXPECT_EQ((*stages)[1].saved.size(), 1 + 3 * 3u);
}

TEST(DropoutStages, TextsAreReadBack) {
  const auto stages = BuildModelStages(Dropping(), {1, 2});
  ASSERT_TRUE(stages.ok()) << stages.status();
  for (const StageProgram& program : *stages) {
    const std::string text = PrintStageProgram(program);
    EXPECT_NE(text.find("  mask_key : i32[4]\n"), std::string::npos);
    EXPECT_NE(text.find("  in mask_key 0 = mask_key : i32[4]\n"), std::string::npos);
    EXPECT_NE(text.find("= dropout "), std::string::npos);
    const auto read = ReadStageProgram(text);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, program);
  }
}

// Forwards alone are those of the model without dropout, also where a result that leaves a stage is
// a dropout's.
TEST(DropoutStages, EvaluationsHaveNone) {
  for (const std::vector<int>& cut : {std::vector{3}, {1, 2}, {0, 3, 0}}) {
    const auto with = BuildModelStages(Dropping(), cut);
    const auto without = BuildModelStages(WithDropout(3, 11, 2, /*drops=*/false), cut);
    ASSERT_TRUE(with.ok() && without.ok());
    std::vector<StageProgram> forwards;
    float losses[2];
    for (const auto* const programs : {&*with, &*without}) {
      std::mt19937_64 random(1);
      const std::vector<Batch> batches = RandomBatches(Dropping(), random);
      std::vector<Array> crossing;
      for (const StageProgram& program : *programs) {
        const StageProgram forward = WithoutBackwards(program);
        EXPECT_FALSE(forward.mask_key.has_value());
        StageState state = MakeState(forward, 5);
        state.inputs = program.first ? std::vector<Array>{batches[0].tokens} : crossing;
        state.target = batches[0].target;
        Evaluate(forward.forward, &state);
        crossing = state.outputs;
        if (program.last) losses[programs == &*without] = *state.loss.f32();
      }
    }
    EXPECT_EQ(losses[0], losses[1]);
  }
}

}  // namespace
}  // namespace stringline::cpu
