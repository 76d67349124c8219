// Packed sequences: the documents of data and what they make of a window; trainings whose documents
// are sequences in another training; evaluations; and everything that is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/run/train.h"
#include "executor/training/documents.h"
#include "executor/training/trainer.h"
#include "schedlang/orders/only_forwards.h"
#include "stages/layers.h"
#include "tests/executor/plans.h"
#include "tests/executor/small_run.h"
#include "tests/executor/tiny_models.h"
#include "tests/executor/tiny_training.h"

namespace stringline {
namespace {

using testing::HasSubstr;

class PackedData : public testing::Test {
 protected:
  ~PackedData() override { unlink(path_.c_str()); }
  absl::StatusOr<Documents> Read(const std::string& lengths, int64_t size) {
    std::ofstream(path_) << lengths;
    return Documents::Read(path_, size);
  }
  const std::string path_ = absl::StrCat(testing::TempDir(), "/packed-", getpid(), ".txt");
};

TEST_F(PackedData, WrongLengthsAreSaid) {
  const std::pair<const char*, const char*> cases[] = {
      {"3\n0\n7\n", ":2: expected the tokens of a document, 1 or more, got '0'"},
      {"3\n-2\n9\n", ":2: expected the tokens of a document, 1 or more, got '-2'"},
      {"3\n7 # seven\n", ":2: expected the tokens of a document, 1 or more, got '7 # seven'"},
      {"3\n3.5\n", ":2: expected the tokens of a document, 1 or more, got '3.5'"},
      {"3\n\n6\n", ": the lengths add up to 9 tokens, but the data has 10"},
      {"", ": the lengths add up to 0 tokens, but the data has 10"},
      {"3\n8\n",
       ":2: with this document of 8 tokens there are more than the 10 of the data; 7 were left"},
      {"9223372036854775807\n1\n",
       ":1: with this document of 9223372036854775807 tokens there are more than the 10 of the "
       "data; "
       "10 were left"},
  };
  for (const auto& [lengths, says] : cases) {
    EXPECT_EQ(Read(lengths, 10).status().message(), absl::StrCat(path_, says)) << lengths;
  }
  EXPECT_EQ(Documents::Read(path_ + "-none", 10).status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(Read("3\r\n 6 \n1", 10).ok());
}

// A window's documents are told here token by token, from the number of each token's document.
TEST_F(PackedData, AWindowHasItsDocuments) {
  std::mt19937_64 random(7);
  std::string text, lengths;
  std::vector<int> document_of;
  for (int d = 0; text.size() < 700; ++d) {
    const size_t length = 1 + (d % 3 == 0 ? 0 : random() % 40);
    absl::StrAppend(&lengths, length, "\n");
    for (size_t i = 0; i < length; ++i) {
      text.push_back(static_cast<char>(random() % 200));
      document_of.push_back(d);
    }
    text.back() = static_cast<char>(250);
  }
  const auto read = Read(lengths, static_cast<int64_t>(text.size()));
  ASSERT_TRUE(read.ok()) << read.status();
  constexpr int kContext = 50, kRows = 3, kAll = 12;
  for (const Documents& documents : {*read, Documents::EndingWith(250)}) {
    const TrainingData whole(text), data = whole.PackedOf(documents);
    EXPECT_NE(data.Identity(), whole.Identity());
    for (int64_t first = 0; first < kAll; first += kRows) {
      std::vector<int32_t> tokens(kRows * kContext), targets(tokens), positions(tokens);
      ASSERT_TRUE(data.FillEvenly(first, kAll, kContext, absl::MakeSpan(tokens),
                                  absl::MakeSpan(targets), absl::MakeSpan(positions))
                      .ok());
      int64_t counted = 0;
      for (int64_t row = 0; row < kRows; ++row) {
        const size_t begin = (first + row) * (text.size() - kContext) / kAll;
        for (int64_t t = 0; t < kContext; ++t) {
          const size_t i = begin + t, at = row * kContext + t;
          size_t from = i;
          while (from > begin && document_of[from - 1] == document_of[i]) --from;
          const bool goes_on = document_of[i + 1] == document_of[i];
          EXPECT_EQ(tokens[at], static_cast<uint8_t>(text[i]));
          EXPECT_EQ(targets[at], goes_on ? static_cast<uint8_t>(text[i + 1]) : kNoTarget);
          EXPECT_EQ(positions[at], static_cast<int32_t>(i - from));
          counted += goes_on ? 1 : 0;
        }
      }
      EXPECT_EQ(data.CountTargetsEvenly(first, kAll, kContext, kRows), counted);
      EXPECT_EQ(whole.CountTargetsEvenly(first, kAll, kContext, kRows), kRows * kContext);
      // A process that holds neither a first nor a last stage.
      std::vector<int32_t> alone(positions.size());
      ASSERT_TRUE(data.FillEvenly(first, kAll, kContext, {}, {}, absl::MakeSpan(alone)).ok());
      EXPECT_EQ(alone, positions);
    }
    const BatchKey key = {3, 4, 5};
    std::vector<int32_t> tokens(kRows * kContext), targets(tokens);
    ASSERT_TRUE(data.Fill(key, kContext, absl::MakeSpan(tokens), absl::MakeSpan(targets)).ok());
    EXPECT_EQ(data.CountTargets(key, kContext, kRows),
              kRows * kContext - std::count(targets.begin(), targets.end(), kNoTarget));
  }
}

constexpr int kPackedSteps = 3;

// Trains a model whose sequences are packed of documents of so many tokens; 0: that are whole. The
// tokens are the same for all lengths and contexts with as many tokens in a microbatch.
TinyTraining TrainPacked(const AnyShape& shape, int document, const Mesh& mesh = {}) {
  const Plan plan = WithSums(*LibraryPlan("1f1b", 2, 4), mesh);
  auto programs = BuildModelStages(shape, *SplitEven(shape.layers(), 2),
                                   {.expert_ranks = mesh.expert, .packed = document > 0});
  SL_CHECK(programs.ok()) << programs.status();
  TrainerSettings settings = {.seed = 3, .mesh = mesh};
  settings.optimizer.learning_rate = 0.02;
  auto made = Trainer::Make(plan, *std::move(programs), settings);
  SL_CHECK(made.ok()) << made.status();
  Trainer& trainer = **made;
  const int piece = document > 0 ? document : shape.context();
  std::mt19937 random(5);
  TinyTraining trained;
  for (int step = 0; step < kPackedSteps; ++step) {
    int64_t counted = 0;
    for (int32_t m = 0; m < trainer.microbatches(); ++m) {
      const auto tokens = trainer.tokens(MicrobatchId(m)),
                 targets = trainer.targets(MicrobatchId(m));
      const auto positions = trainer.positions(MicrobatchId(m));
      EXPECT_EQ(positions.size(), document > 0 ? tokens.size() : 0);
      for (size_t i = 0; i < tokens.size(); ++i) {
        tokens[i] = static_cast<int32_t>(random() % kTinyVocabulary);
        targets[i] = static_cast<int32_t>(random() % kTinyVocabulary);
        if ((i + 1) % piece == 0) targets[i] = kNoTarget;
        if (document > 0) positions[i] = static_cast<int32_t>(i % piece);
        counted += targets[i] == kNoTarget ? 0 : 1;
      }
    }
    trainer.SetTargets(counted);
    AddStep(&trainer, /*keeps_grads=*/true, &trained);
  }
  ExpectPlannedBytes(trainer);
  return trained;
}

AnyShape PackedShape(TinyFamily family, DType dtype, int context, int sequences) {
  AnyShape shape = TinyModel(family, 2);
  std::visit([context](auto& of) { of.context = context; }, shape.family);
  shape = shape.WithMicrobatch(sequences);
  shape.dtype = dtype;
  return shape;
}

// Rotary positions: in every bit, whatever the type, experts and copies of the pipeline.
TEST(PackedTraining, OfDocumentsIsThatOfAsManySequences) {
  for (const TinyFamily family : {TinyFamily::kLlama, TinyFamily::kMoe}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      for (const Mesh& mesh : {Mesh{}, Mesh{.data = 2}, Mesh{.expert = 2}}) {
        if (mesh.expert > 1 && family != TinyFamily::kMoe) continue;
        SCOPED_TRACE(absl::StrCat(NameOf(family), " ", NameOf(dtype), " data ", mesh.data,
                                  " expert ", mesh.expert));
        const TinyTraining packed = TrainPacked(PackedShape(family, dtype, 80, 2), 40, mesh);
        EXPECT_EQ(packed, TrainPacked(PackedShape(family, dtype, 40, 4), 0, mesh));
        EXPECT_EQ(packed, TrainPacked(PackedShape(family, dtype, 160, 1), 40, mesh));
        EXPECT_NE(packed, TrainPacked(PackedShape(family, dtype, 80, 2), 80, mesh));
      }
    }
  }
}

// A table of positions is longer than documents are, and its gradient is added up in another order.
TEST(PackedTraining, OfLearnedPositionsIsThatOfAsManySequencesButForRounding) {
  for (const int document : {2, 8, 40, 80}) {
    const TinyTraining packed =
        TrainPacked(PackedShape(TinyFamily::kGpt, DType::kF32, 80, 2), document);
    const TinyTraining apart =
        TrainPacked(PackedShape(TinyFamily::kGpt, DType::kF32, document, 160 / document), 0);
    SCOPED_TRACE(document);
    EXPECT_EQ(packed.losses[0], apart.losses[0]);
    EXPECT_NEAR(packed.norms[0] / apart.norms[0], 1, 1e-6);
    for (int step = 1; step < kPackedSteps; ++step) {
      EXPECT_NEAR(packed.losses[step] / apart.losses[step], 1, 1e-5);
    }
    for (const auto& [name, grad] : apart.grads) {
      const std::vector<float>& of_packed = packed.grads.at(name);
      if (name != "position.weight") {
        EXPECT_EQ(of_packed, grad) << name;
        continue;
      }
      for (size_t i = 0; i < of_packed.size(); ++i) {
        EXPECT_NEAR(of_packed[i], i < grad.size() ? grad[i] : 0, 1e-5) << i;
      }
    }
  }
}

// Schedules, their update, and where the forwards run make no difference in any bit.
TEST(PackedTraining, IsTheSameWithEverySchedule) {
  const std::string text = Corpus();
  const Documents words = Documents::EndingWith(' ');
  const TrainingData data = TrainingData(text).PackedOf(words);
  RunConfig config = SmallRun(4);
  config.data.packed.end = ' ';
  config.threads = 2;
  std::vector<double> losses, norms;
  for (const char* const schedule :
       {"1f1b", "interleaved", "zb_v", "dualpipe_v", "v_half", "gpipe"}) {
    std::vector<double> norms_here;
    TrainHooks hooks;
    hooks.after_step = [&](const TrainStep& step, Trainer&) {
      norms_here.push_back(step.grad_norm);
      return absl::OkStatus();
    };
    const auto result = Train(config, *LibraryPlan(schedule, 4, 8), data, hooks);
    ASSERT_TRUE(result.ok()) << result.status();
    if (losses.empty()) losses = result->losses_nats;
    if (norms.empty()) norms = norms_here;
    EXPECT_EQ(result->losses_nats, losses) << schedule;
    EXPECT_EQ(norms_here, norms) << schedule;
  }
  // About uniform over 256 bytes at first: the mean is over as many tokens as are predicted.
  EXPECT_NEAR(losses[0], std::log(256.0), 0.05);
  const auto whole = Train(SmallRun(4), *LibraryPlan("1f1b", 4, 8), TrainingData(text), {});
  EXPECT_NE(whole->losses_nats, losses);
}

// Steps of one plan, each with its own number of targets.
TEST(PackedTraining, OfSeveralStepsInAPlanIsThatOfSingleSteps) {
  const std::string text = Corpus();
  const Documents words = Documents::EndingWith(' ');
  const TrainingData data = TrainingData(text).PackedOf(words);
  RunConfig config = SmallRun(4);
  config.data.packed.end = ' ';
  config.clip_norm = 0;
  const auto single = Train(config, *LibraryPlan("1f1b", 2, 4), data, {});
  const auto plan = LibraryPlan("zb_h1", 2, 4, CommLayout::kEdge, 0, 2);
  ASSERT_TRUE(plan.has_value());
  const auto several = Train(config, *plan, data, {});
  ASSERT_TRUE(single.ok() && several.ok()) << single.status() << several.status();
  EXPECT_EQ(several->losses_nats, single->losses_nats);
}

// Either of a training and its evaluation is packed, or both.
TEST(PackedTraining, IsEvaluatedOnItsOwnData) {
  const std::string text = Corpus();
  const Documents words = Documents::EndingWith(' ');
  const TrainingData whole(text), packed = whole.PackedOf(words);
  const Plan plan = *LibraryPlan("1f1b", 2, 4), forwards = Lower(OnlyForwards(plan));
  const auto train = [&](bool trains, bool evaluates) {
    RunConfig config = SmallRun(2);
    config.shape = PackedShape(TinyFamily::kLlama, DType::kF32, 16, 2);
    std::visit([](auto& of) { of.vocabulary = 256; }, config.shape.family);
    config.evaluate.every = 1;
    if (trains) config.data.packed.end = ' ';
    if (evaluates) config.evaluate.data.packed.end = ' ';
    const auto result = Train(config, plan, trains ? packed : whole, {}, nullptr,
                              EvaluationOfRun{forwards, evaluates ? packed : whole});
    SL_CHECK(result.ok()) << result.status();
    return *result;
  };
  const TrainResult neither = train(false, false), both = train(true, true);
  const TrainResult trained = train(true, false), evaluated = train(false, true);
  EXPECT_EQ(trained.losses_nats, both.losses_nats);
  EXPECT_EQ(evaluated.losses_nats, neither.losses_nats);
  EXPECT_NE(trained.losses_nats, neither.losses_nats);
  EXPECT_NE(evaluated.evaluations[0].loss_nats, neither.evaluations[0].loss_nats);
  for (const TrainResult* const run : {&neither, &both, &trained, &evaluated}) {
    EXPECT_NEAR(run->evaluations[0].loss_nats, std::log(256.0), 0.1);
  }
}

TEST(PackedTraining, GoesOnWithTheSameDocumentsOnly) {
  const std::string text = Corpus();
  const Documents words = Documents::EndingWith(' '), sentences = Documents::EndingWith('.');
  const Plan plan = *LibraryPlan("1f1b", 2, 4);
  const std::string folder = absl::StrCat(testing::TempDir(), "/packed-resume-", getpid());
  RunConfig config = SmallRun(4);
  config.data.packed.end = ' ';
  config.checkpoint = {.every = 2, .folder = folder};
  const auto whole = Train(config, plan, TrainingData(text).PackedOf(words), {});
  ASSERT_TRUE(whole.ok()) << whole.status();
  config.resume = folder + "/step-000002";
  config.checkpoint = {};
  const auto resumed = Train(config, plan, TrainingData(text).PackedOf(words), {});
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_EQ(resumed->losses_nats, whole->losses_nats);
  config.data.packed.end = '.';
  const auto other = Train(config, plan, TrainingData(text).PackedOf(sentences), {});
  EXPECT_THAT(std::string(other.status().message()), HasSubstr("documents that end with token 32"));
  std::filesystem::remove_all(folder);
}

TEST(PackedTraining, RefusesByName) {
  const std::string text(4000, 'a');
  const Documents all = Documents::EndingWith('a');
  RunConfig config = SmallRun(4);
  config.data.packed.end = 'a';
  const auto single =
      Train(config, *LibraryPlan("1f1b", 2, 4), TrainingData(text).PackedOf(all), {});
  EXPECT_THAT(std::string(single.status().message()),
              HasSubstr("step 1 has no token to predict: every document in it, of those that end "
                        "with 97, has a single token"));
  const auto sliced =
      Train(config, *LibraryPlan("seq1f1b", 2, 4), TrainingData(text).PackedOf(all), {});
  EXPECT_THAT(std::string(sliced.status().message()),
              HasSubstr("cuts a sequence into 4 slices, and packed sequences are trained whole"));
}

}  // namespace
}  // namespace stringline
