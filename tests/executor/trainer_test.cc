// Training: the optimizer, the norm over stages, and bitwise independence of cut and schedule.
#include "executor/training/trainer.h"

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/run/train.h"
#include "executor/training/data.h"
#include "gtest/gtest.h"
#include "schedlang/lower/message_order.h"
#include "stages/models/gpt.h"
#include "stages/models/model.h"
#include "tests/executor/plans.h"
#include "tests/executor/small_run.h"
#include "tests/executor/tiny_models.h"

namespace stringline {
namespace {

// The first steps of AdamW by hand, in double precision.
TEST(Optimizer, FollowsItsFormula) {
  const AdamW settings = {.learning_rate = 0.1, .weight_decay = 0.5};
  for (bool decays : {false, true}) {
    std::vector<float> p = {1, -2, 0.5F}, g(3), m(3, 0), v(3, 0);
    std::vector<double> want_p(p.begin(), p.end()), want_m(3, 0), want_v(3, 0);
    for (int step = 1; step <= 4; ++step) {
      for (size_t i = 0; i < 3; ++i) {
        g[i] = static_cast<float>(step) * (static_cast<float>(i) - 0.75F);
        const double scaled = 0.25 * g[i];
        want_m[i] = settings.beta1 * want_m[i] + (1 - settings.beta1) * scaled;
        want_v[i] = settings.beta2 * want_v[i] + (1 - settings.beta2) * scaled * scaled;
        const double m_hat = want_m[i] / (1 - std::pow(settings.beta1, step));
        const double v_hat = want_v[i] / (1 - std::pow(settings.beta2, step));
        want_p[i] -= settings.learning_rate * (m_hat / (std::sqrt(v_hat) + settings.epsilon) +
                                               (decays ? settings.weight_decay * want_p[i] : 0));
      }
      UpdateAdamW(settings, step, 0.25, decays, absl::MakeSpan(p), absl::MakeSpan(g),
                  absl::MakeSpan(m), absl::MakeSpan(v));
      for (size_t i = 0; i < 3; ++i) {
        EXPECT_NEAR(p[i], want_p[i], 1e-5) << "step " << step << " element " << i;
        EXPECT_EQ(g[i], 0);
      }
    }
  }
}

TEST(Optimizer, SumsSquaresInDoublePrecision) {
  const std::vector<float> values(100'003, 0.1F);
  EXPECT_NEAR(SumOfSquares(values), 100'003 * (double{0.1F} * 0.1F), 1e-9);
}

// Exchanges of rows, by their descriptions, and the arrays that are written over another of the
// same call.
struct SeenRows {
  std::mutex mutex;
  std::map<std::string, int> calls;
  int overlaps = 0;

  static int64_t Ns(const void* self, absl::Span<const Call* const> met) {
    auto& seen = *static_cast<SeenRows*>(const_cast<void*>(self));
    const std::lock_guard<std::mutex> lock(seen.mutex);
    if (met[0]->kind != CallKind::kAllToAllCounted) return 0;
    ++seen.calls[Describe(*met[0])];
    for (const Call* const call : met) seen.Look(*call, static_cast<int>(met.size()));
    return 0;
  }
  void Look(const Call& call, int members) {
    const int64_t sent = RowsBeforePiece(call.rows->from, call.rows->per_piece, members);
    for (int a = 0; a < ArraysOf(call); ++a) {
      const RowArray to = ArrayOf(call, a);
      for (int b = 0; b < ArraysOf(call); ++b) {
        const RowArray other = ArrayOf(call, b);
        const auto meets = [&](const void* begin, int64_t rows) {
          const auto* const first = static_cast<const char*>(begin);
          const auto* const written = static_cast<const char*>(to.to);
          return first < written + call.rows->most_rows * to.bytes &&
                 written < first + rows * other.bytes;
        };
        overlaps += meets(other.from, sent) || (a != b && meets(other.to, call.rows->most_rows));
      }
    }
  }
};

TEST(Trainer, ANetworkPartIsOneCall) {
  SeenRows seen;
  TrainerSettings settings;
  settings.mesh.expert = 2;
  settings.link = {SeenRows::Ns, &seen};
  const AnyShape shape = TinyModel(TinyFamily::kMoe, 2);
  auto programs =
      BuildModelStages(shape, {2}, {.expert_ranks = 2, .recompute = {Recompute::kExperts, false}});
  ASSERT_TRUE(programs.ok()) << programs.status();
  const auto trainer = Trainer::Make(ReduceGradients(LibraryPlan("1f1b", 1, 1).value()),
                                     *std::move(programs), settings);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  ASSERT_TRUE((*trainer)->ComputeGradients().ok());
  // Rows of 16 floats, and the weight of each.
  const auto row = [](const char* of, const char* bytes) {
    return std::pair<std::string, int>(
        absl::StrCat("a counted all-to-all of the rows of 0", of, " (", bytes, ")"), 1);
  };
  const std::map<std::string, int> expected = {
      row("F0:F.dispatch", "64 + 4 bytes a row, and counts"),
      row("F0:F.combine", "64 bytes a row"),
      row("F0:F.dispatch.1", "64 + 4 bytes a row, and counts"),
      row("F0:F.combine.1", "64 bytes a row"),
      row("B0:B.combine.1", "64 bytes a row"),
      row("B0:B.dispatch.1", "4 + 64 bytes a row"),
      row("B0:B.combine", "64 bytes a row"),
      row("B0:B.dispatch", "4 + 64 bytes a row"),
  };
  EXPECT_EQ(seen.calls, expected);
  EXPECT_EQ(seen.overlaps, 0);
}

std::vector<double> LossesWith(const char* schedule, int p, int64_t steps) {
  const std::optional<Plan> plan = LibraryPlan(schedule, p, 8);
  SL_CHECK(plan.has_value()) << schedule;
  const auto result = Train(SmallRun(steps), *plan, Corpus(), {});
  SL_CHECK(result.ok()) << result.status();
  return result->losses_nats;
}

// The data, the gradients, the norm and the update depend neither on the schedule nor on the cut.
TEST(Trainer, EverySchedulesLossesAreTheSameInEveryBit) {
  const std::vector<double> whole = LossesWith("gpipe", 1, 6);
  ASSERT_EQ(whole.size(), 6u);
  EXPECT_LT(whole.back(), whole.front());
  EXPECT_EQ(LossesWith("1f1b", 2, 6), whole);
  EXPECT_EQ(LossesWith("1f1b", 4, 6), whole);
  EXPECT_EQ(LossesWith("interleaved", 2, 6), whole);
  EXPECT_EQ(LossesWith("zb_h1", 4, 6), whole);
  EXPECT_EQ(LossesWith("zb_v", 4, 6), whole);
  EXPECT_EQ(LossesWith("dualpipe_v", 4, 6), whole);
}

// Two pipes add up the gradients of half the microbatches each, and then both: the same sums, in
// another order.
TEST(Trainer, PipesGiveTheSameLossesButForRounding) {
  const std::vector<double> whole = LossesWith("gpipe", 1, 6);
  for (const char* schedule : {"chimera", "dualpipe", "gems", "bitpipe"}) {
    const std::vector<double> losses = LossesWith(schedule, 4, 6);
    ASSERT_EQ(losses.size(), whole.size());
    for (size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(losses[i], whole[i], 1e-5) << schedule;
  }
}

TEST(Trainer, RunsOrdersOfEveryKind) {
  const std::vector<double> whole = LossesWith("gpipe", 1, 6);
  for (const char* schedule : {"v_half", "v_min", "gis", "hanayo"}) {
    const std::vector<double> losses = LossesWith(schedule, 4, 6);
    for (size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(losses[i], whole[i], 1e-5) << schedule;
  }
}

// A schedule with layers per stage determines the cut of the model.
TEST(Trainer, CutsTheModelAsTheScheduleSays) {
  Plan plan = LibraryPlan("1f1b", 4, 8).value();
  const std::vector<double> whole = LossesWith("gpipe", 1, 3);
  const auto losses = [&plan] {
    const auto result = Train(SmallRun(3), plan, Corpus(), {});
    return result.ok() ? result->losses_nats : std::vector<double>();
  };
  plan.split.kind = Split::Kind::kLayers;
  plan.split.layers = {1, 3, 3, 1};
  EXPECT_EQ(losses(), whole);
  plan.split.kind = Split::Kind::kBalanced;
  EXPECT_EQ(losses(), whole);
  plan.split.kind = Split::Kind::kLayout;
  plan.split.layout = {"E", "tttt", "ttt", "tL"};
  EXPECT_EQ(losses(), whole);
  plan.split.layout = {"Et", "tttt", "tttL", ""};
  EXPECT_EQ(
      Train(SmallRun(3), plan, Corpus(), {}).status().message(),
      "stage 2 of the layout, 'tttL': this model has its embedding in the first stage and its "
      "loss in the last");
}

TEST(Trainer, MeasuresAndPredictsTheLastStep) {
  const Plan plan = LibraryPlan("dualpipe_v", 2, 8).value();
  const auto result = Train(SmallRun(8), plan, Corpus(), {});
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->measured.events.size(), plan.actions.size());
  EXPECT_EQ(result->measured.origin, "measured");
  EXPECT_EQ(result->simulated.origin, "simulated");
  EXPECT_GT(MeasureBubbles(result->measured).makespan_ns, 0);
  EXPECT_GT(MeasureBubbles(result->simulated).makespan_ns, 0);
  // A rank's work is in the order of its plan, one group at a time.
  for (int r = 0; r < plan.ranks(); ++r) {
    int64_t last_ns = 0;
    for (const Event& event : result->measured.of(RankId(r))) {
      EXPECT_LE(event.start_ns, event.end_ns);
      if (!IsCompute(event.kind) || event.joined) continue;
      EXPECT_GE(event.start_ns, last_ns);
      last_ns = event.end_ns;
    }
  }
}

TEST(Trainer, ErrorsOfTheWorldAreSaid) {
  const Plan plan = LibraryPlan("1f1b", 4, 8).value();
  RunConfig config = SmallRun(1);
  config.data.text = "words.txt";
  EXPECT_EQ(Train(config, plan, std::string("sixteen bytes 16"), {}).status().message(),
            "words.txt: the text has 16 bytes, but one sequence takes 16 (model.context) and the "
            "byte after them");
  EXPECT_TRUE(Train(config, plan, std::string("sixteen bytes 16!"), {}).ok());
  GptOf(config).layers = 3;
  EXPECT_EQ(Train(config, plan, Corpus(), {}).status().code(), absl::StatusCode::kInvalidArgument);
  config = SmallRun(20);
  config.optimizer.learning_rate = 1e30;
  EXPECT_EQ(Train(config, plan, Corpus(), {}).status().code(), absl::StatusCode::kOutOfRange);
}

TEST(Data, DependsOnItsKeyAlone) {
  const std::string text = Corpus();
  auto fill = [&](BatchKey key, int rows) {
    std::vector<int32_t> tokens(rows * 16), targets(rows * 16);
    FillBatch(text, key, 16, absl::MakeSpan(tokens), absl::MakeSpan(targets));
    for (size_t i = 0; i + 1 < tokens.size(); ++i) {
      if (i % 16 == 15) continue;
      EXPECT_EQ(targets[i], tokens[i + 1]);
    }
    return tokens;
  };
  const std::vector<int32_t> two = fill({1, 2, 3}, 2);
  EXPECT_EQ(fill({1, 2, 3}, 2), two);
  EXPECT_NE(fill({1, 2, 4}, 2), two);
  EXPECT_NE(fill({1, 3, 3}, 2), two);
  EXPECT_NE(fill({2, 2, 3}, 2), two);
  const std::vector<int32_t> one = fill({1, 2, 3}, 1);
  EXPECT_TRUE(std::equal(one.begin(), one.end(), two.begin()));
}

// A sparse file, with a size and almost no contents.
TEST(Data, ATextLargerThanMemoryIsSaid) {
  const std::string path = absl::StrCat(testing::TempDir(), "/stringline-holes-", getpid());
  std::ofstream(path) << "a";
  std::error_code error;
  std::filesystem::resize_file(path, uintmax_t{1} << 43, error);
  const absl::Status status = ReadCorpus(path).status();
  std::filesystem::remove(path);
  if (error) GTEST_SKIP() << "no such files here: " << error.message();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_EQ(status.message().find(path + ": the text has 8.8e+03 GB, but "), 0u) << status;
}

TEST(Data, ConditionalEntropyOfSmallTexts) {
  EXPECT_DOUBLE_EQ(ConditionalEntropy("abababab"), 0);
  // After each letter either letter, equally often.
  EXPECT_NEAR(ConditionalEntropy("aabba"), std::log(2.0), 1e-12);
}

// A plan runs as it was checked: what copies or replicas need has to be listed.
TEST(Train, GradientsThatNothingSumsAreRefused) {
  RunConfig config = SmallRun(1);
  const auto refused = [&config](const Plan& plan) {
    const absl::Status status = Train(config, plan, Corpus(), {}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  const Plan replicas = PlanFrom(
      "plan one P=2 M=2 lowered\npipe down M=1 stages 0 1\npipe up M=1 stages 1 0\n"
      "rank 0: down[0]F0 down[0]SEND_F0 up[1]RECV_F0 up[1]F0 up[1]B0 up[1]SEND_B0 "
      "down[0]RECV_B0 down[0]B0\n"
      "rank 1: up[0]F0 up[0]SEND_F0 down[1]RECV_F0 down[1]F0 down[1]B0 down[1]SEND_B0 "
      "up[0]RECV_B0 up[0]B0\n");
  EXPECT_EQ(refused(replicas).find("the plan has no down[0]REDUCE_GRAD, which sums the gradients "
                                   "of its replicas"),
            0u);
  config.mesh.data = 2;
  const Plan copies = LibraryPlan("1f1b", 2, 4).value();
  EXPECT_EQ(refused(copies).find("the plan has no 0REDUCE_GRAD, which sums the gradients of the "
                                 "copies of the pipeline"),
            0u);
  EXPECT_TRUE(Train(config, WithSums(copies, config.mesh), Corpus(), {}).ok());
}

}  // namespace
}  // namespace stringline
