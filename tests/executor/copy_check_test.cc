// Copies of parameters: equal ones are never objected to, and a single bit that changes in one of
// them is found at the next comparison, with its tensor and its rank, by all processes.
#include "executor/run/copy_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "executor/run/train.h"
#include "executor/training/trainer.h"
#include "tests/executor/plans.h"
#include "tests/executor/shared_machine.h"
#include "tests/executor/small_run.h"
#include "tests/executor/tiny_models.h"

namespace stringline {
namespace {

struct CopiesCase {
  TinyFamily family;
  const char* schedule;
  int pipeline;
  int stages;  // per pipe
  Mesh mesh;
  int processes;
};

RunConfig ConfigOf(const CopiesCase& run, Sharding sharding) {
  RunConfig config = SmallRun(/*steps=*/5);
  config.shape = TinyModel(run.family, run.stages);
  std::visit([](auto& shape) { shape.vocabulary = 256; }, config.shape.family);
  config.mesh = run.mesh;
  config.sharding = sharding;
  if (sharding == Sharding::kNone) config.mesh.shard = 0;
  config.bucket_bytes = 4096;
  return config;
}

Plan PlanOf(const CopiesCase& run, Sharding sharding) {
  return WithCollectives(run.schedule, run.pipeline, run.mesh, sharding);
}

// The ends of all processes of a run, each a thread; the hooks get the process's number.
template <typename AfterStep>
std::vector<absl::Status> TrainTogether(const RunConfig& config, const Plan& plan, int processes,
                                        AfterStep after_step) {
  std::vector<std::vector<int>> ranks(processes);
  for (int r = 0; r < config.mesh.coordinates() * plan.ranks(); ++r) {
    ranks[r % processes].push_back(r);
  }
  SharedMachine machine(ranks);
  std::vector<absl::Status> ends(processes);
  std::vector<std::thread> threads;
  for (int p = 0; p < processes; ++p) {
    threads.emplace_back([&, p] {
      TrainHooks hooks;
      hooks.after_step = [&](const TrainStep& step, Trainer& trainer) {
        after_step(step.step, trainer);
        return absl::OkStatus();
      };
      ends[p] = Train(config, plan, Corpus(), hooks, machine.Join(p)).status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return ends;
}

// Changes the last bit of a value of a copy, where this process holds it; returns its parameter's
// name. Of experts there may be no copies.
std::string Spoil(Trainer& trainer, StageId stage, int coordinate) {
  if (!trainer.holds(stage, coordinate)) return "";
  const auto param_of = [&](const OwnedBlock& owned) -> const Param& {
    const int param = trainer.pieces(stage).blocks()[owned.block].param;
    return trainer.programs()[stage.value].params[param];
  };
  const std::vector<OwnedBlock> blocks = trainer.OwnedBlocks(stage, coordinate);
  const auto owned = std::find_if(blocks.rbegin(), blocks.rend(),
                                  [&](const OwnedBlock& one) { return !param_of(one).expert; });
  float& value = owned->values.back();
  value = std::bit_cast<float>(std::bit_cast<uint32_t>(value) ^ 1U);
  const Param& param = param_of(*owned);
  return param.tied_to.empty() ? param.name : param.tied_to;
}

class Copies : public testing::TestWithParam<CopiesCase> {};

// Wherever a parameter has copies, a bit of one of them is found, and nothing else.
TEST_P(Copies, ABitThatChangesIsFoundAndNothingElse) {
  const CopiesCase& run = GetParam();
  for (const Sharding sharding :
       {Sharding::kNone, Sharding::kOptimizer, Sharding::kGradients, Sharding::kParameters}) {
    SCOPED_TRACE(absl::StrCat("sharding ", static_cast<int>(sharding)));
    RunConfig config = ConfigOf(run, sharding);
    const Plan plan = PlanOf(run, sharding);
    const bool copies =
        !(sharding == Sharding::kParameters && run.mesh.shards() == run.mesh.data &&
          run.mesh.expert == 1 && plan.pipes.size() < 2 && run.family != TinyFamily::kLlama);
    config.check_copies = copies ? 1 : 0;
    for (const absl::Status& end : TrainTogether(
             config, plan, run.processes,
             [](int64_t, Trainer& trainer) { EXPECT_TRUE(CopyCheck(&trainer).Compare(3).ok()); })) {
      EXPECT_TRUE(end.ok()) << end;
    }
    if (!copies) continue;
    const StageId stage(static_cast<int32_t>(plan.stages.size()) - 1);
    const int coordinate = run.mesh.coordinates() - 1;
    std::mutex mutex;
    std::string name;
    const auto ends =
        TrainTogether(config, plan, run.processes, [&](int64_t step, Trainer& trainer) {
          if (step != 3) return;
          const std::string spoiled = Spoil(trainer, stage, coordinate);
          const std::lock_guard lock(mutex);
          if (!spoiled.empty()) name = spoiled;
        });
    const std::string rank =
        absl::StrCat("rank ", coordinate * plan.ranks() + plan.stage(stage).rank.value, " (stage ",
                     stage.value, ")");
    for (const absl::Status& end : ends) {
      const std::string said(end.message());
      EXPECT_TRUE(absl::StrContains(said, "after step 3 the cop")) << end;
      EXPECT_TRUE(absl::StrContains(said, absl::StrCat(" of ", name, " on "))) << end << name;
      EXPECT_TRUE(absl::StrContains(said, rank)) << end << rank;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, Copies,
    testing::Values(CopiesCase{TinyFamily::kGpt, "1f1b", 2, 2, {.data = 2}, 1},
                    CopiesCase{TinyFamily::kGpt, "1f1b", 2, 2, {.data = 2}, 4},
                    CopiesCase{TinyFamily::kGpt, "interleaved", 2, 4, {.data = 4, .shard = 2}, 4},
                    CopiesCase{TinyFamily::kLlama, "1f1b", 2, 2, {.data = 3}, 2},
                    CopiesCase{TinyFamily::kLlama, "dualpipe", 2, 2, {.data = 2}, 2},
                    CopiesCase{TinyFamily::kMoe, "1f1b", 2, 2, {.data = 2, .expert = 2}, 4}),
    [](const testing::TestParamInfo<CopiesCase>& info) {
      const CopiesCase& run = info.param;
      return absl::StrCat(NameOf(run.family), "_", run.schedule, "_data", run.mesh.data, "_in",
                          run.processes);
    });

// The copy that has drifted is known among three; among two it is not.
TEST(CopyCheck, TheOneAmongManyIsNamed) {
  const auto said = [](int copies, int sharper) {
    const CopiesCase run = {TinyFamily::kGpt, "1f1b", 2, 2, {.data = copies}, 1};
    RunConfig config = ConfigOf(run, Sharding::kNone);
    config.check_copies = 2;
    TrainHooks hooks;
    hooks.after_step = [&](const TrainStep& step, Trainer& trainer) {
      if (step.step == sharper) (void)Spoil(trainer, StageId(1), 1);
      return absl::OkStatus();
    };
    const auto result = Train(config, PlanOf(run, Sharding::kNone), Corpus(), hooks);
    EXPECT_TRUE(absl::IsDataLoss(result.status())) << result.status();
    return std::string(result.status().message());
  };
  EXPECT_EQ(said(3, 2),
            "after step 2 the copy of head.weight on rank 3 (stage 1) has drifted: rank 1 (stage "
            "1), rank 5 (stage 1) hold other values; memory, a link or a library of that host may "
            "be faulty");
  EXPECT_EQ(said(2, 2),
            "after step 2 the copies of head.weight on rank 3 (stage 1) and on rank 1 (stage 1) "
            "hold different values; memory, a link or a library of that host may be faulty");
  // A drift between two comparisons: the next one names it, with others that have followed.
  EXPECT_TRUE(absl::StartsWith(said(3, 3), "after step 4 the copy of "));
  // After the last step, too: no model is saved.
  EXPECT_TRUE(absl::StartsWith(said(3, 5), "after step 5 the copy of head.weight on rank 3 "));
}

TEST(CopyCheck, FirstValuesAreCompared) {
  const CopiesCase run = {TinyFamily::kGpt, "1f1b", 2, 2, {.data = 3}, 1};
  TrainHooks hooks;
  hooks.start = [](Trainer& trainer) {
    (void)Spoil(trainer, StageId(0), 2);
    return absl::OkStatus();
  };
  const auto result =
      Train(ConfigOf(run, Sharding::kNone), PlanOf(run, Sharding::kNone), Corpus(), hooks);
  EXPECT_TRUE(absl::StartsWith(result.status().message(), "before the first step the copy of "))
      << result.status();
}

TEST(CopyCheck, WhereThereIsOneCopyTheKeyIsRefused) {
  const CopiesCase run = {TinyFamily::kGpt, "1f1b", 2, 2, {}, 2};
  RunConfig config = ConfigOf(run, Sharding::kNone);
  const auto nothing = [](int64_t, Trainer&) {};
  for (const absl::Status& end : TrainTogether(config, PlanOf(run, Sharding::kNone), 2, nothing)) {
    EXPECT_TRUE(end.ok()) << end;
  }
  config.check_copies = 100;
  for (const absl::Status& end : TrainTogether(config, PlanOf(run, Sharding::kNone), 2, nothing)) {
    EXPECT_TRUE(absl::StrContains(
        end.message(),
        "`train.check_copies` is 100, but every parameter is in one place only: mesh.data would"))
        << end;
  }
}

// Against the definition, for arrays of any length from any place; a changed value always shows.
TEST(CopyCheck, TheSumKnowsEveryBit) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937_64 random(seed);
  for (int i = 0; i < 1000; ++i) {
    std::vector<float> values(random() % 100 + 1);
    for (float& value : values) value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    const auto first = static_cast<int64_t>(random() % (uint64_t{1} << 40));
    uint64_t sum = 0;
    for (size_t at = 0; at < values.size(); ++at) {
      const uint64_t odd = (2 * (static_cast<uint64_t>(first) + at) + 1) % (uint64_t{1} << 32);
      sum += std::bit_cast<uint32_t>(values[at]) * odd;
    }
    EXPECT_EQ(SumOfCopy(values, first), sum);
    float& value = values[random() % values.size()];
    value = std::bit_cast<float>(std::bit_cast<uint32_t>(value) ^ 1U << random() % 32);
    EXPECT_NE(SumOfCopy(values, first), sum);
    // In two pieces the sum is the same.
    const size_t cut = random() % values.size();
    EXPECT_EQ(
        SumOfCopy(absl::MakeConstSpan(values).subspan(0, cut), first) +
            SumOfCopy(absl::MakeConstSpan(values).subspan(cut), first + static_cast<int64_t>(cut)),
        SumOfCopy(values, first));
  }
}

}  // namespace
}  // namespace stringline
