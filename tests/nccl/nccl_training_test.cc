// Whole runs with a process for every rank, on stand-ins for the GPU and for NCCL: bitwise equal to
// one process with all ranks on its GPU; and the reports after the loss of a process.
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <map>

#include "absl/base/casts.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "executor/checkpoint/model_folder.h"
#include "executor/cuda/backend/cuda_backend.h"
#include "executor/nccl/nccl_backend.h"
#include "executor/run/train.h"
#include "executor/training/trainer.h"
#include "gtest/gtest.h"
#include "tests/cuda/standin/cublas_standin.h"
#include "tests/cuda/standin/nccl_standin.h"
#include "tests/cuda/standin/standin.h"
#include "tests/executor/plans.h"
#include "tests/executor/small_run.h"
#include "tests/executor/tiny_models.h"
#include "tests/nccl/nccl_processes.h"

namespace stringline {
namespace {

struct TrainingCase {
  TinyFamily family;
  const char* schedule;
  int pipeline;
  Mesh mesh;
  NcclRows rows = NcclRows::kPadded;
  CommLayout layout = CommLayout::kEdge;
  bool capture = false;
  Sharding sharding = Sharding::kNone;
};

Plan PlanOf(const TrainingCase& run) {
  const int resident = run.sharding == Sharding::kParameters ? 2 : 0;
  return WithSums(LibraryPlan(run.schedule, run.pipeline, 8, run.layout, resident).value(),
                  run.mesh);
}

RunConfig ConfigOf(const TrainingCase& run, const Plan& plan) {
  RunConfig config = SmallRun(run.capture ? 5 : 3);
  const size_t stages = plan.pipes.empty() ? plan.stages.size() : plan.pipes[0].stages;
  config.shape = TinyModel(run.family, static_cast<int>(stages));
  std::visit([](auto& shape) { shape.vocabulary = 256; }, config.shape.family);
  config.mesh = run.mesh;
  config.sharding = run.sharding;
  if (run.sharding != Sharding::kNone) config.bucket_bytes = 4096;
  config.layout = run.layout;
  return config;
}

uint64_t HashOf(const std::vector<float>& values) {
  uint64_t hash = 14695981039346656037U;
  for (const float value : values) {
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    hash = (hash ^ bits) * 1099511628211U;
  }
  return hash;
}

// A process's results as lines: its losses, norms and number of replayed steps; and a line for
// every block of a parameter that it updates, with its bits.
std::vector<std::string> LinesOf(const RunConfig& config, const Plan& plan,
                                 std::unique_ptr<Backend> backend,
                                 std::function<void(int64_t step)> after_step = {}) {
  std::string sums;
  std::vector<std::string> lines;
  TrainHooks hooks;
  hooks.after_step = [&](const TrainStep& step, Trainer&) {
    absl::StrAppend(&sums, absl::Hex(absl::bit_cast<uint64_t>(step.grad_norm)), " ");
    if (after_step) after_step(step.step);
    return absl::OkStatus();
  };
  hooks.end = [&](int64_t, Trainer& trainer) {
    for (int c = 0; c < trainer.mesh().coordinates(); ++c) {
      for (size_t s = 0; s < trainer.programs().size(); ++s) {
        const StageId stage(static_cast<int32_t>(s));
        if (!trainer.holds(stage, c)) continue;
        for (const OwnedBlock& owned : trainer.OwnedBlocks(stage, c)) {
          std::vector<float> copy(owned.values.size());
          const absl::Status status = trainer.device()->CopyNow(
              copy.data(), owned.values.data(), static_cast<int64_t>(copy.size() * sizeof(float)));
          if (!status.ok()) return status;
          lines.push_back(absl::StrCat(c, " ", s, " ", owned.block, ": ", absl::Hex(HashOf(copy))));
        }
      }
    }
    return absl::OkStatus();
  };
  const auto result = Train(config, plan, Corpus(), hooks, std::move(backend));
  if (!result.ok()) return {result.status().ToString()};
  for (const double loss : result->losses_nats) {
    absl::StrAppend(&sums, absl::Hex(absl::bit_cast<uint64_t>(loss)), " ");
  }
  absl::StrAppend(&sums, result->host.captured_steps, " captured");
  lines.insert(lines.begin(), sums);
  return lines;
}

TrainingCase SharedOut(TinyFamily family, const char* schedule, const Mesh& mesh,
                       Sharding sharding) {
  TrainingCase run = {family, schedule, 8 / mesh.coordinates() > 2 ? 2 : 1, mesh};
  run.sharding = sharding;
  return run;
}

TrainingCase InLayout(CommLayout layout, const char* schedule, int pipeline) {
  TrainingCase run = {TinyFamily::kGpt, schedule, pipeline, {}};
  run.layout = layout;
  return run;
}

// So few launches fit into a stream that most actions fill it.
constexpr int kStreamLaunches = 4;

class NcclTraining : public testing::TestWithParam<TrainingCase> {};

TEST_P(NcclTraining, IsInEveryBitThatOfOneProcess) {
  const TrainingCase& run = GetParam();
  const Plan plan = PlanOf(run);
  const RunConfig config = ConfigOf(run, plan);
  standin_reset(3);
  standin_cublas_reset();
  standin_nccl_reset();
  auto copies = CudaBackend::Make();
  ASSERT_TRUE(copies.ok()) << copies.status();
  const std::vector<std::string> expected = LinesOf(config, plan, *std::move(copies));
  ASSERT_GT(expected.size(), 1u) << expected[0];

  NcclRun ranks;
  ranks.processes = run.pipeline * run.mesh.coordinates();
  ranks.settings.rows = run.rows;
  ranks.settings.capture = run.capture;
  ranks.settings.wait_ms = 120'000;  // reached only by a hang, even on a busy machine
  ranks.settings.stream_launches = kStreamLaunches;
  const int port = FreePort();
  Processes all(ranks.processes, [&](int p) -> std::string {
    standin_reset(p);
    standin_set_stream_depth(kStreamLaunches, /*blocked_ms=*/20'000);
    standin_load_late(true);
    auto backend = NcclBackend::Make(WorldSettings(ranks, p, port), ranks.settings);
    if (!backend.ok()) return backend.status().ToString();
    const std::string text = absl::StrJoin(LinesOf(config, plan, *std::move(backend)), "\n");
    if (standin_blocked() != nullptr) return standin_blocked();
    return standin_alive() + standin_nccl_alive() == 0 ? text : "something is left";
  });
  std::map<std::string, int> params;
  for (const std::string& said : all.Wait(600'000)) {
    std::vector<std::string> lines = absl::StrSplit(said, '\n');
    EXPECT_EQ(lines[0], expected[0]);
    for (size_t i = 1; i < lines.size(); ++i) ++params[lines[i]];
  }
  EXPECT_EQ(params.size(), expected.size() - 1);
  for (size_t i = 1; i < expected.size(); ++i) EXPECT_EQ(params[expected[i]], 1) << expected[i];
  EXPECT_STREQ(standin_nccl_fault(), "");
}

INSTANTIATE_TEST_SUITE_P(
    All, NcclTraining,
    testing::Values(TrainingCase{TinyFamily::kGpt, "1f1b", 2, {}},
                    TrainingCase{TinyFamily::kGpt, "1f1b", 4, {}},
                    TrainingCase{TinyFamily::kLlama, "zb_v", 2, {}},
                    TrainingCase{TinyFamily::kLlama, "dualpipe_v", 2, {}},
                    TrainingCase{TinyFamily::kGpt, "interleaved", 4, {}},
                    TrainingCase{TinyFamily::kGpt, "dualpipe", 4, {}},
                    TrainingCase{TinyFamily::kLlama, "1f1b", 2, {.data = 2}},
                    TrainingCase{TinyFamily::kMoe, "1f1b", 2, {.expert = 2}},
                    TrainingCase{TinyFamily::kMoe, "1f1b", 2, {.expert = 2}, NcclRows::kCounted},
                    TrainingCase{TinyFamily::kMoe, "dualpipe_v", 2, {.expert = 2}},
                    InLayout(CommLayout::kPair, "zb_v", 4),
                    InLayout(CommLayout::kUpDown, "zb_v", 4),
                    InLayout(CommLayout::kShared, "zb_v", 4),
                    InLayout(CommLayout::kPair, "dualpipe", 4),
                    InLayout(CommLayout::kUpDown, "interleaved", 4),
                    InLayout(CommLayout::kShared, "dualpipe", 4),
                    SharedOut(TinyFamily::kLlama, "1f1b", {.data = 2}, Sharding::kParameters),
                    SharedOut(TinyFamily::kMoe, "zb_v", {.data = 2}, Sharding::kGradients),
                    SharedOut(TinyFamily::kGpt, "gpipe", {4, 1, 2}, Sharding::kGradients),
                    SharedOut(TinyFamily::kGpt, "gpipe", {.data = 3}, Sharding::kOptimizer),
                    TrainingCase{TinyFamily::kGpt, "1f1b", 4, {}, {}, {}, true},
                    TrainingCase{TinyFamily::kLlama, "zb_v", 2, {.data = 2}, {}, {}, true},
                    TrainingCase{TinyFamily::kMoe, "dualpipe_v", 2, {.expert = 2}, {}, {}, true}),
    [](const testing::TestParamInfo<TrainingCase>& info) {
      return absl::StrCat(NameOf(info.param.family), "_", info.param.schedule, "_",
                          info.param.pipeline, "_data", info.param.mesh.data, "_expert",
                          info.param.mesh.expert, "_", NameOf(info.param.sharding),
                          info.param.rows == NcclRows::kCounted ? "_counted" : "",
                          info.param.capture ? "_captured" : "", "_", NameOf(info.param.layout));
    });

// The files of a folder, concatenated.
std::string FilesOf(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    files[entry.path().filename().string()] =
        ReadBytes(entry.path().string(), uint64_t{1} << 30).value_or("");
  }
  return absl::StrJoin(files, "\n", absl::PairFormatter(": "));
}

// From the memory of several GPUs, over TCP.
TEST(NcclSave, WritesWhatOneProcessDoes) {
  const TrainingCase run = {TinyFamily::kMoe, "1f1b", 2, {.expert = 2}};
  const Plan plan = PlanOf(run);
  const RunConfig config = ConfigOf(run, plan);
  const std::string folder = absl::StrCat(testing::TempDir(), "/nccl-save-", getpid());
  std::filesystem::create_directories(folder + "/one");
  std::filesystem::create_directories(folder + "/apart");
  const auto hooks_of = [&](const std::string& to) {
    TrainHooks hooks;
    hooks.end = [&config, to](int64_t step, Trainer& trainer) {
      return SaveModelFolder(to, config.shape, step, PlacesOf(trainer).all(), trainer.world());
    };
    return hooks;
  };
  standin_reset(3);
  standin_cublas_reset();
  standin_nccl_reset();
  auto copies = CudaBackend::Make();
  ASSERT_TRUE(copies.ok()) << copies.status();
  const auto one = Train(config, plan, Corpus(), hooks_of(folder + "/one"), *std::move(copies));
  ASSERT_TRUE(one.ok()) << one.status();

  NcclRun ranks;
  ranks.processes = 4;
  const int port = FreePort();
  Processes all(ranks.processes, [&](int p) -> std::string {
    standin_reset(p);
    auto backend = NcclBackend::Make(WorldSettings(ranks, p, port), ranks.settings);
    if (!backend.ok()) return backend.status().ToString();
    return Train(config, plan, Corpus(), hooks_of(folder + "/apart"), *std::move(backend))
        .status()
        .ToString();
  });
  for (const std::string& said : all.Wait(60'000)) EXPECT_EQ(said, "OK");
  const std::string files = FilesOf(folder + "/one");
  EXPECT_TRUE(absl::StrContains(files, "model.safetensors: "));
  EXPECT_TRUE(FilesOf(folder + "/apart") == files);
  std::filesystem::remove_all(folder);
}

// As `check --layout` says: fewer communicators, each with more to do.
TEST(NcclCommunicators, AreAsManyAsTheLayoutSays) {
  // For ranks 0 to 3 with messages between neighbours: the communicators that groups were split
  // from, and then the groups'.
  const std::map<CommLayout, std::vector<int>> expected = {{CommLayout::kEdge, {3, 5, 5, 3}},
                                                           {CommLayout::kPair, {2, 3, 3, 2}},
                                                           {CommLayout::kUpDown, {3, 3, 3, 3}},
                                                           {CommLayout::kShared, {2, 2, 2, 2}}};
  for (const auto& [layout, of_rank] : expected) {
    TrainingCase run = InLayout(layout, "1f1b", 4);
    const Plan plan = PlanOf(run);
    RunConfig config = ConfigOf(run, plan);
    config.steps = 1;
    NcclRun ranks;
    ranks.processes = 4;
    standin_nccl_reset();
    const int port = FreePort();
    Processes all(ranks.processes, [&](int p) -> std::string {
      standin_reset(p);
      auto backend = NcclBackend::Make(WorldSettings(ranks, p, port), ranks.settings);
      if (!backend.ok()) return backend.status().ToString();
      std::string alive;
      LinesOf(config, plan, *std::move(backend), [&](int64_t) {
        // Each connects with the peers of its messages in the plan, and with no other.
        alive = absl::StrCat(standin_nccl_alive(), " ", standin_nccl_connections());
      });
      return alive;
    });
    const auto said = all.Wait(60'000);
    for (int p = 0; p < 4; ++p) {
      EXPECT_EQ(said[p], absl::StrCat(of_rank[p], " ", p == 0 || p == 3 ? 2 : 4)) << NameOf(layout);
    }
  }
}

// The memory of communicators is taken before a run counts memory, and reported.
TEST(NcclCommunicators, TakeMemoryBeforeItIsCounted) {
  TrainingCase run = InLayout(CommLayout::kEdge, "1f1b", 2);
  const Plan plan = PlanOf(run);
  RunConfig config = ConfigOf(run, plan);
  config.steps = 1;
  constexpr int64_t kBytes = int64_t{200} << 20;
  for (const bool fits : {true, false}) {
    NcclRun ranks;
    standin_nccl_reset();
    const int port = FreePort();
    Processes all(2, [&](int p) -> std::string {
      standin_reset(p);
      // Two split communicators and their parent leave almost no memory on one of the GPUs.
      standin_nccl_comm_bytes(kBytes);
      if (p == 1 && !fits) standin_set_memory(3 * kBytes + 100'000);
      auto backend = NcclBackend::Make(WorldSettings(ranks, p, port), ranks.settings);
      if (!backend.ok()) return backend.status().ToString();
      Groups* const groups = (*backend)->groups();
      std::string described;
      const auto lines = LinesOf(config, plan, *std::move(backend),
                                 [&](int64_t) { described = groups->Describe(); });
      return fits ? described : lines[0];
    });
    const auto said = all.Wait(60'000);
    for (const std::string& one : said) {
      if (fits) {
        EXPECT_EQ(one, "3 communicators of NCCL, which took 629.1 MB of this GPU's memory");
      } else {
        EXPECT_TRUE(absl::StrContains(one, "this run needs ")) << one;
        EXPECT_TRUE(absl::StrContains(one, "are available (the GPU's free memory)")) << one;
      }
    }
  }
}

// NCCL ends joined calls of a communicator together; a plan may need one of them to end first.
TEST(NcclCommunicators, JoinedCallsNeedOneEach) {
  const Plan plan = PlanFrom(
      "plan joined P=2 M=2 lowered\n"
      "pipe down M=1 stages 0 1\n"
      "pipe up M=1 stages 1 0\n"
      "rank 0: down[0]F0 down[0]SEND_F0&up[1]RECV_F0 up[1]F0 up[1]B0 "
      "up[1]SEND_B0&down[0]RECV_B0 down[0]B0 down[0]REDUCE_GRAD up[1]REDUCE_GRAD\n"
      "rank 1: up[0]F0 up[0]SEND_F0&down[1]RECV_F0 down[1]F0 down[1]B0 "
      "down[1]SEND_B0&up[0]RECV_B0 up[0]B0 up[0]REDUCE_GRAD down[1]REDUCE_GRAD\n");
  for (const CommLayout layout : {CommLayout::kEdge, CommLayout::kPair}) {
    TrainingCase run = InLayout(layout, "joined", 2);
    const RunConfig config = ConfigOf(run, plan);
    NcclRun ranks;
    standin_nccl_reset();
    const int port = FreePort();
    Processes all(2, [&](int p) -> std::string {
      standin_reset(p);
      auto backend = NcclBackend::Make(WorldSettings(ranks, p, port), ranks.settings);
      if (!backend.ok()) return backend.status().ToString();
      return LinesOf(config, plan, *std::move(backend))[0];
    });
    for (const std::string& said : all.Wait(60'000)) {
      EXPECT_EQ(absl::StrContains(said, "are one call on communicator 0-1 of layout pair"),
                layout == CommLayout::kPair)
          << said;
      EXPECT_EQ(absl::StrContains(said, "UNIMPLEMENTED") || absl::StrContains(said, "ABORTED"),
                layout == CommLayout::kPair)
          << said;
    }
  }
}

// The claim of nccl_groups.h about NCCL_LAUNCH_ORDER_IMPLICIT.
TEST(NcclTrainingEnds, WhereCallsStartInTheOrderOfTheListsAndCannot) {
  const TrainingCase run = {TinyFamily::kGpt, "zb_v", 2, {}};
  Plan plan = PlanOf(run);
  const std::string file = STRINGLINE_SOURCE_DIR "/schedules/zb_v.sched";
  plan.source = std::make_shared<const Source>(*ReadSource(file));
  const RunConfig config = ConfigOf(run, plan);
  NcclRun ranks;
  ranks.settings.wait_ms = 3000;
  standin_nccl_reset();
  const int port = FreePort();
  Processes all(2, [&](int p) -> std::string {
    (void)setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 1);
    standin_reset(p);
    auto backend = NcclBackend::Make(WorldSettings(ranks, p, port), ranks.settings);
    if (!backend.ok()) return backend.status().ToString();
    return LinesOf(config, plan, *std::move(backend))[0];
  });
  for (const std::string& said : all.Wait()) {
    EXPECT_TRUE(absl::StrContains(said, "waited 3 s for its GPU; rank")) << said;
    // The message under way, and its line in the schedule.
    EXPECT_TRUE(absl::StrContains(said, absl::StrCat(" (", file, ":"))) << said;
  }
}

TEST(NcclTrainingEnds, WhereARankIsKilled) {
  const TrainingCase run = {TinyFamily::kGpt, "1f1b", 4, {}};
  const Plan plan = PlanOf(run);
  RunConfig config = ConfigOf(run, plan);
  config.steps = 1000;
  for (const int victim : {0, 2, 3}) {
    NcclRun ranks;
    ranks.processes = 4;
    // A process is lost while steps are replayed.
    ranks.settings.capture = victim == 3;
    const int64_t at = ranks.settings.capture ? 5 : 2;
    standin_nccl_reset();
    standin_reset(1);
    const int port = FreePort();
    Processes all(ranks.processes, [&](int p) -> std::string {
      standin_reset(p);
      auto backend = NcclBackend::Make(WorldSettings(ranks, p, port), ranks.settings);
      if (!backend.ok()) return backend.status().ToString();
      return LinesOf(config, plan, *std::move(backend), [&](int64_t step) {
        if (p == victim && step == at) (void)raise(SIGKILL);
      })[0];
    });
    const auto said = all.Wait(60'000);
    for (int p = 0; p < ranks.processes; ++p) {
      if (p == victim) continue;
      EXPECT_TRUE(absl::StrContains(said[p], absl::StrCat("rank ", victim, " on "))) << said[p];
      EXPECT_TRUE(absl::StrContains(said[p], "died, or ended without a word")) << said[p];
    }
    EXPECT_STREQ(standin_nccl_fault(), "");
  }
}

TEST(NcclBackend, SettingsThatDifferAreNamed) {
  standin_reset(1);
  standin_nccl_reset();
  const int port = FreePort();
  Processes all(2, [&](int p) -> std::string {
    NcclRun ranks;
    if (p == 1) ranks.settings.rows = NcclRows::kCounted;
    return NcclBackend::Make(WorldSettings(ranks, p, port), ranks.settings).status().ToString();
  });
  for (const std::string& said : all.Wait()) {
    EXPECT_TRUE(absl::StrContains(said, "differ in nccl.rows (\"counted\" and \"padded\")"))
        << said;
  }
}

// A fault of one process's GPU is reported to all.
TEST(NcclBackend, AGpuThatIsNotThereIsToldToAll) {
  standin_reset(1);
  standin_nccl_reset();
  const int port = FreePort();
  Processes all(2, [&](int p) -> std::string {
    if (p == 1) standin_fail_call(2, cudaErrorNoDevice);
    return NcclBackend::Make(WorldSettings({}, p, port), {}).status().ToString();
  });
  const auto said = all.Wait();
  EXPECT_TRUE(absl::StartsWith(said[1], "UNAVAILABLE: no GPU can be used: ")) << said[1];
  EXPECT_TRUE(absl::StartsWith(said[0], "ABORTED: process 1 on ")) << said[0];
  EXPECT_TRUE(absl::StrContains(said[0], "no GPU can be used: ")) << said[0];
}

}  // namespace
}  // namespace stringline
