// A parameter's copy that changes by a bit in one of several processes: all end with the same
// message before a model is saved, and it names the tensor, the rank and its host.
#include <unistd.h>

#include <bit>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/checkpoint/checkpoint_folder.h"
#include "executor/processes/backend.h"
#include "executor/processes/sockets.h"
#include "executor/run/train.h"
#include "executor/training/trainer.h"
#include "gtest/gtest.h"
#include "tests/executor/plans.h"
#include "tests/executor/small_run.h"
#include "tools/gpu/processes.h"

namespace stringline {
namespace {

namespace fs = std::filesystem;

struct Drift {
  int copies;
  int process;           // whose copy changes
  int64_t check_copies;  // 0: checkpoints alone compare, every 4 steps
  const char* step;      // that notices a change in step 3
};

// The two ranks of a copy are in one process.
std::vector<std::string> TrainDrifting(const Drift& drift, const std::string& folder) {
  const int port = FreePort();
  Processes all(drift.copies, [&](int p) -> std::string {
    RunConfig config = SmallRun(/*steps=*/6);
    config.mesh.data = drift.copies;
    config.check_copies = drift.check_copies;
    config.checkpoint = {4, folder, 3};
    TcpWorldSettings world;
    world.identity.process = p;
    world.identity.processes = drift.copies;
    world.identity.host = "127.0.0.1";
    world.identity.port = port;
    world.ranks = 2 * drift.copies;
    auto backend = ProcessesBackend::Make(world, WireSettings(), 1);
    if (!backend.ok()) return backend.status().ToString();
    TrainHooks hooks;
    hooks.after_step = [&](const TrainStep& step, Trainer& trainer) {
      if (p == drift.process && step.step == 3) {
        float& value = trainer.param(StageId(1), 2, p)[7];
        value = std::bit_cast<float>(std::bit_cast<uint32_t>(value) ^ 1U << 20);
      }
      return absl::OkStatus();
    };
    hooks.end = [](int64_t, Trainer&) { return absl::InternalError("a model is saved"); };
    const Plan plan = WithSums(LibraryPlan("1f1b", 2, 2).value(), config.mesh);
    return Train(config, plan, Corpus(), hooks, *std::move(backend)).status().ToString();
  });
  return all.Wait();
}

TEST(Drift, IsNamedByAll) {
  const std::string folder = absl::StrCat(testing::TempDir(), "/stringline-drift-", getpid());
  const std::string host = HostName();
  for (const Drift& drift : {Drift{3, 1, 1, "3"}, Drift{3, 2, 0, "4"}, Drift{2, 1, 3, "3"}}) {
    fs::remove_all(folder);
    const std::vector<std::string> said = TrainDrifting(drift, folder);
    const std::string rank = absl::StrCat("rank ", 2 * drift.process + 1, " on ", host);
    const std::string begin = absl::StrCat("DATA_LOSS: after step ", drift.step, " the cop");
    for (const std::string& one : said) {
      EXPECT_EQ(one, said[0]);
      EXPECT_EQ(one.substr(0, begin.size()), begin);
      EXPECT_NE(
          one.find(drift.copies == 2 ? absl::StrCat(" on ", rank, " (stage 1) and on rank 1")
                                     : absl::StrCat(" on ", rank, " (stage 1) has drifted: ")),
          std::string::npos)
          << one;
    }
    // No checkpoint is taken of copies that differ.
    EXPECT_TRUE(FindCheckpoints(folder).empty());
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace stringline
