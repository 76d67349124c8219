// With any sharding, over any number of processes: losses, norms, gradients and parameters are
// bitwise those of one process in which every copy keeps all state.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "executor/checkpoint/model_folder.h"
#include "executor/run/train.h"
#include "executor/training/trainer.h"
#include "schedlang/base/source.h"
#include "stages/models/model.h"
#include "tests/executor/plans.h"
#include "tests/executor/shared_machine.h"
#include "tests/executor/small_run.h"
#include "tests/executor/tiny_models.h"

namespace stringline {
namespace {

constexpr int64_t kShardedSteps = 10;

// BlockValues of parameters or gradients, by coordinate, stage and block.
using BlockValues = std::map<std::vector<int>, std::vector<float>>;

void AddBlocks(const Trainer& trainer, bool gradients, BlockValues* blocks) {
  for (int c = 0; c < trainer.mesh().coordinates(); ++c) {
    for (size_t s = 0; s < trainer.programs().size(); ++s) {
      const StageId stage(static_cast<int32_t>(s));
      if (!trainer.holds(stage, c)) continue;
      for (const OwnedBlock& owned : trainer.OwnedBlocks(stage, c)) {
        const absl::Span<const float> values = gradients ? owned.gradient : owned.values;
        const std::vector<int> place = {c, static_cast<int>(s), owned.block};
        EXPECT_TRUE(blocks->try_emplace(place, values.begin(), values.end()).second);
      }
    }
  }
}

// The results of a run, or of one process of it.
struct ToldRun {
  std::vector<double> losses, norms;
  BlockValues first_gradients, last_gradients, params;
  std::vector<RankBytes> rank_bytes;
};

TrainHooks HooksThatTell(ToldRun* told) {
  TrainHooks hooks;
  hooks.gradients = [told](int64_t step, Trainer& trainer) {
    if (step == 1) AddBlocks(trainer, true, &told->first_gradients);
    if (step == kShardedSteps) AddBlocks(trainer, true, &told->last_gradients);
  };
  hooks.after_step = [told](const TrainStep& step, Trainer&) {
    told->losses.push_back(step.loss_nats);
    told->norms.push_back(step.grad_norm);
    return absl::OkStatus();
  };
  hooks.end = [told](int64_t, Trainer& trainer) {
    AddBlocks(trainer, false, &told->params);
    return absl::OkStatus();
  };
  return hooks;
}

struct ShardedCase {
  TinyFamily family;
  const char* schedule;
  int pipeline;
  int stages;  // per pipe
  Mesh mesh;
  std::vector<int> processes;
  DType dtype = DType::kF32;
};

RunConfig ConfigOf(const ShardedCase& run) {
  RunConfig config = SmallRun(kShardedSteps);
  config.shape = TinyModel(run.family, run.stages);
  config.shape.dtype = run.dtype;
  std::visit([](auto& shape) { shape.vocabulary = 256; }, config.shape.family);
  config.mesh = run.mesh;
  config.clip_norm = 0.5;
  return config;
}

Plan PlanOf(const ShardedCase& run, Sharding sharding) {
  return WithCollectives(run.schedule, run.pipeline, run.mesh, sharding);
}

// The ranks of each of `processes` processes: neighbours together, or apart.
std::vector<std::vector<int>> SharedOut(int ranks, int processes) {
  std::vector<std::vector<int>> of(processes);
  for (int r = 0; r < ranks; ++r) {
    of[processes == 2 ? r * processes / ranks : r % processes].push_back(r);
  }
  return of;
}

// Trains in a thread per process.
std::vector<ToldRun> TrainShared(const RunConfig& config, const Plan& plan, int processes) {
  std::vector<ToldRun> told(processes);
  SharedMachine machine(SharedOut(config.mesh.coordinates() * plan.ranks(), processes));
  std::vector<std::thread> threads;
  for (int p = 0; p < processes; ++p) {
    threads.emplace_back([&, p] {
      const auto result = Train(config, plan, Corpus(), HooksThatTell(&told[p]), machine.Join(p));
      EXPECT_TRUE(result.ok()) << result.status();
      if (result.ok()) told[p].rank_bytes = result->rank_bytes;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return told;
}

// Every block told equals the block kept whole at its coordinate, and each has `owners` owners.
void ExpectSameBlocks(const BlockValues& told, const BlockValues& whole, int owners,
                      const char* what) {
  std::map<std::vector<int>, int> seen;  // by stage and block
  for (const auto& [place, values] : told) {
    const auto expected = whole.find(place);
    ASSERT_NE(expected, whole.end()) << what << " of stage " << place[1];
    EXPECT_EQ(values, expected->second) << what << " of coordinate " << place[0] << ", stage "
                                        << place[1] << ", block " << place[2];
    ++seen[{place[1], place[2]}];
  }
  for (const auto& [place, values] : whole) {
    EXPECT_EQ((seen[{place[1], place[2]}]), owners) << what;
  }
}

class ShardedRuns : public testing::TestWithParam<ShardedCase> {};

TEST_P(ShardedRuns, AreTheRunOfWholeCopies) {
  const ShardedCase& run = GetParam();
  RunConfig config = ConfigOf(run);
  ToldRun whole;
  {
    RunConfig unsharded = config;
    unsharded.mesh.shard = 0;
    const auto result =
        Train(unsharded, PlanOf(run, Sharding::kNone), Corpus(), HooksThatTell(&whole));
    ASSERT_TRUE(result.ok()) << result.status();
    whole.rank_bytes = result->rank_bytes;
  }
  config.bucket_bytes = 4096;
  for (const Sharding sharding :
       {Sharding::kNone, Sharding::kOptimizer, Sharding::kGradients, Sharding::kParameters}) {
    config.sharding = sharding;
    config.mesh.shard = sharding == Sharding::kNone ? 0 : run.mesh.shard;
    for (const int processes : run.processes) {
      SCOPED_TRACE(absl::StrCat(NameOf(sharding), " in ", processes, " processes"));
      const std::vector<ToldRun> told = TrainShared(config, PlanOf(run, sharding), processes);
      ToldRun all;
      for (const ToldRun& one : told) {
        EXPECT_EQ(one.losses, whole.losses);
        EXPECT_EQ(one.norms, whole.norms);
        all.first_gradients.insert(one.first_gradients.begin(), one.first_gradients.end());
        all.last_gradients.insert(one.last_gradients.begin(), one.last_gradients.end());
        all.params.insert(one.params.begin(), one.params.end());
        if (&one != &told.front()) continue;  // process 0 has the memory of all ranks
        for (size_t r = 0; r < one.rank_bytes.size(); ++r) {
          EXPECT_EQ(one.rank_bytes[r].planned, one.rank_bytes[r].allocated) << r;
        }
      }
      const int owners = run.mesh.coordinates() / SharingOf(config).shards;
      ExpectSameBlocks(all.first_gradients, whole.first_gradients, owners, "a gradient");
      ExpectSameBlocks(all.last_gradients, whole.last_gradients, owners, "a gradient");
      ExpectSameBlocks(all.params, whole.params, owners, "a parameter");
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ShardedRuns,
    testing::Values(
        ShardedCase{TinyFamily::kGpt, "1f1b", 2, 2, {.data = 2}, {1, 2, 4}},
        ShardedCase{TinyFamily::kGpt, "interleaved", 2, 4, {.data = 4, .shard = 2}, {1, 4}},
        ShardedCase{TinyFamily::kLlama, "zb_v", 2, 4, {.data = 2}, {1, 2}},
        ShardedCase{TinyFamily::kLlama, "1f1b", 2, 2, {.data = 3}, {1, 2}},
        ShardedCase{TinyFamily::kLlama, "dualpipe", 2, 2, {.data = 2}, {1, 2}},
        ShardedCase{TinyFamily::kLlama, "interleaved", 1, 2, {.data = 8, .shard = 4}, {1, 8}},
        ShardedCase{TinyFamily::kMoe, "1f1b", 2, 2, {.data = 2, .expert = 2}, {1, 2, 4}},
        ShardedCase{TinyFamily::kMoe, "dualpipe_v", 2, 4, {4, 2, 2}, {1, 8}},
        ShardedCase{TinyFamily::kMoe, "zb_v", 2, 4, {.data = 2}, {2}, DType::kBF16}),
    [](const testing::TestParamInfo<ShardedCase>& info) {
      const ShardedCase& run = info.param;
      return absl::StrCat(NameOf(run.family), "_", run.schedule, "_data", run.mesh.data, "_expert",
                          run.mesh.expert, "_shard", run.mesh.shards(),
                          run.dtype == DType::kF32 ? "" : "_bf16");
    });

// The memory of a rank decreases with every level of sharding: first moments, then parameters.
// (Gradients are summed in place.)
TEST(Sharding, RanksKeepLess) {
  RunConfig config = ConfigOf({TinyFamily::kGpt, "1f1b", 2, 2, {.data = 4}, {}});
  GptOf(config).width = 64;
  config.steps = 1;
  std::vector<int64_t> bytes;
  for (const Sharding sharding :
       {Sharding::kNone, Sharding::kOptimizer, Sharding::kGradients, Sharding::kParameters}) {
    config.sharding = sharding;
    const int resident = sharding == Sharding::kParameters ? 1 : 0;
    const Plan plan = LibraryPlan("1f1b", 2, 4, CommLayout::kEdge, resident).value();
    const auto result = Train(config, WithSums(plan, config.mesh), Corpus(), {});
    ASSERT_TRUE(result.ok()) << result.status();
    bytes.push_back(result->rank_bytes[0].allocated);
  }
  const auto params = static_cast<double>(CountParams(config.shape)) / 2 * sizeof(float);
  EXPECT_NEAR(static_cast<double>(bytes[0] - bytes[1]), 2 * 3.0 / 4 * params, 0.15 * params);
  EXPECT_EQ(bytes[1], bytes[2]);
  // Three quarters of the parameters are not kept, and all of them are gathered.
  EXPECT_NEAR(static_cast<double>(bytes[2] - bytes[3]), -1.0 / 4 * params, 0.15 * params);
}

// The files of a run, or of processes that save together.
std::string SavedBytes(const RunConfig& config, const Plan& plan, int processes,
                       const std::string& load) {
  const std::string folder = absl::StrCat(testing::TempDir(), "/sharded-", getpid());
  std::filesystem::create_directories(folder);
  SharedMachine machine(SharedOut(config.mesh.coordinates() * plan.ranks(), processes));
  std::vector<std::thread> threads;
  for (int p = 0; p < processes; ++p) {
    threads.emplace_back([&, p] {
      TrainHooks hooks;
      hooks.start = [&](Trainer& trainer) {
        if (load.empty()) return absl::OkStatus();
        const absl::Status loaded = LoadModelFolder(load, config.shape, PlacesOf(trainer).all());
        if (!loaded.ok()) return loaded;
        return SaveModelFolder(folder, config.shape, 2, PlacesOf(trainer).all(), trainer.world());
      };
      hooks.end = [&](int64_t step, Trainer& trainer) {
        if (!load.empty()) return absl::OkStatus();
        return SaveModelFolder(folder, config.shape, step, PlacesOf(trainer).all(),
                               trainer.world());
      };
      const auto result = Train(config, plan, Corpus(), hooks, machine.Join(p));
      EXPECT_TRUE(result.ok()) << result.status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto bytes = ReadBytes(folder + "/model.safetensors", uint64_t{1} << 30);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  if (load.empty()) std::filesystem::rename(folder, absl::StrCat(folder, "-kept"));
  return bytes.value_or("");
}

TEST(Sharding, ModelsAreSavedAndLoadedWhole) {
  const std::string kept = absl::StrCat(testing::TempDir(), "/sharded-", getpid(), "-kept");
  for (const TinyFamily family : {TinyFamily::kGpt, TinyFamily::kMoe}) {
    const ShardedCase run = {family, "1f1b", 2, 2, {2, family == TinyFamily::kMoe ? 2 : 1}, {}};
    RunConfig config = ConfigOf(run);
    config.steps = 2;
    config.bucket_bytes = 4096;
    const std::string whole = SavedBytes(config, PlanOf(run, Sharding::kNone), 1, "");
    for (const Sharding sharding : {Sharding::kOptimizer, Sharding::kParameters}) {
      config.sharding = sharding;
      for (const int processes : {1, 2}) {
        SCOPED_TRACE(absl::StrCat(NameOf(family), " ", NameOf(sharding), " ", processes));
        std::filesystem::remove_all(kept);
        config.seed = 5;
        EXPECT_TRUE(SavedBytes(config, PlanOf(run, sharding), processes, "") == whole);
        config.seed = 77;  // the loaded values differ from this seed's
        EXPECT_TRUE(SavedBytes(config, PlanOf(run, sharding), processes, kept) == whole);
        std::filesystem::remove_all(absl::StrCat(testing::TempDir(), "/sharded-", getpid()));
      }
    }
    std::filesystem::remove_all(kept);
  }
}

// A stage is gathered twice, and dropped in between; another is dropped after its gradients.
TEST(Sharding, APlanThatGathersItselfRunsAsItSays) {
  const Plan plan = LoweredFrom(
      "plan by_hand P=2 M=2\nstages 0 1\n"
      "rank 0: 0UNSHARD 0F0 0F1 0RESHARD 0UNSHARD 0B0 0B1 0RESHARD 0REDUCE_GRAD\n"
      "rank 1: 1UNSHARD 1F0 1B0 1F1 1B1 1REDUCE_GRAD 1RESHARD\n");
  RunConfig config = ConfigOf({TinyFamily::kLlama, "", 2, 2, {.data = 2}, {}});
  ToldRun whole, told;
  ASSERT_TRUE(Train(config, plan, Corpus(), HooksThatTell(&whole)).ok());
  config.sharding = Sharding::kParameters;
  const auto result = Train(config, plan, Corpus(), HooksThatTell(&told));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(told.losses, whole.losses);
  EXPECT_EQ(told.norms, whole.norms);
  ExpectSameBlocks(told.params, whole.params, 1, "a parameter");
}

// Each is found by the copy that owns it; the first in the order of the model is named.
TEST(Sharding, AGradientThatIsNotFiniteIsNamed) {
  RunConfig config = ConfigOf({TinyFamily::kMoe, "1f1b", 2, 4, {.data = 2}, {}});
  config.bucket_bytes = 4096;
  config.sharding = Sharding::kGradients;
  std::string name;
  TrainHooks hooks;
  hooks.gradients = [&](int64_t, Trainer& trainer) {
    const auto spoil = [&](int stage, int coordinate, bool expert, int first) {
      for (const OwnedBlock& one : trainer.OwnedBlocks(StageId(stage), coordinate)) {
        const int p = trainer.pieces(StageId(stage)).blocks()[one.block].param;
        const Param& param = trainer.programs()[stage].params[p];
        if (p < first || param.expert != expert || param.update == Update::kBalance) continue;
        one.gradient[0] = std::nanf("");
        name = param.name;
        return p;
      }
      return -1;
    };
    EXPECT_GE(spoil(1, 0, false, 0), 0);
    // Experts' parameters lie behind all others, wherever the model lists them.
    const int first = spoil(0, 1, true, 0);
    const std::string expected = name;
    EXPECT_TRUE(spoil(0, 0, false, first + 1) >= 0 || spoil(0, 1, false, first + 1) >= 0);
    name = expected;
  };
  const Plan plan = WithSums(LibraryPlan("1f1b", 2, 4).value(), config.mesh);
  const auto result = Train(config, plan, Corpus(), hooks);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_FALSE(name.empty());
  EXPECT_TRUE(absl::StrContains(result.status().message(),
                                absl::StrCat("the gradient of ", name, " (stage 0)")))
      << result.status();
}

TEST(Sharding, ParametersThatNobodyGathersAreNamed) {
  RunConfig config = ConfigOf({TinyFamily::kGpt, "1f1b", 2, 2, {.data = 2}, {}});
  config.sharding = Sharding::kParameters;
  const Plan plan = WithSums(LibraryPlan("1f1b", 2, 4).value(), config.mesh);
  const auto result = Train(config, plan, Corpus(), {});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(absl::StrContains(result.status().message(),
                                "rank 0 would run 0F0 without the parameters of stage 0"))
      << result.status();
  // A single copy has no state to shard: gathers do nothing.
  config.mesh = {};
  config.steps = 2;
  for (const int resident : {0, 2}) {
    const auto alone =
        Train(config, LibraryPlan("1f1b", 2, 4, CommLayout::kEdge, resident).value(), Corpus(), {});
    EXPECT_TRUE(alone.ok()) << alone.status();
  }
}

}  // namespace
}  // namespace stringline
