// The backend for a run file's device on this machine, with or without a GPU.
#include "tools/training/choose_backend.h"

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace stringline {
namespace {

absl::StatusOr<std::unique_ptr<Backend>> BackendOf(const RunConfig& config, int processes = 1) {
  Identity identity;
  identity.processes = processes;
  identity.source = "a test";
  identity.host = "127.0.0.1";
  return MakeBackend(config, Plan(), identity);
}

absl::StatusOr<std::unique_ptr<Backend>> BackendOf(DeviceKind device, int processes = 1) {
  RunConfig config;
  config.device = device;
  return BackendOf(config, processes);
}

TEST(ChooseBackend, TheCpusIsTheTrainersOwn) {
  const auto backend = BackendOf(DeviceKind::kCpu);
  ASSERT_TRUE(backend.ok()) << backend.status();
  EXPECT_EQ(*backend, nullptr);
}

TEST(ChooseBackend, AGpuIsThereOrTheErrorSaysWhatIsMissing) {
  const auto backend = BackendOf(DeviceKind::kCuda);
  const auto any = BackendOf(DeviceKind::kAuto);
  ASSERT_TRUE(any.ok()) << any.status();
  EXPECT_EQ(*any != nullptr, backend.ok());
  if (backend.ok()) {
    ASSERT_NE(*backend, nullptr);
    EXPECT_GT((*backend)->available().bytes, 0);
    return;
  }
  EXPECT_EQ(backend.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StartsWith(backend.status().message(), "device: cuda: ")) << backend.status();
}

// A key that is not honoured is refused.
TEST(ChooseBackend, ACpuIsDeterministic) {
  RunConfig config;
  config.deterministic = false;
  if (BackendOf(DeviceKind::kCuda).ok()) GTEST_SKIP() << "there is a GPU";
  for (const int processes : {1, 4}) {
    EXPECT_EQ(BackendOf(config, processes).status().message(),
              "deterministic: there is no GPU, and a CPU has nothing else than on");
  }
}

TEST(ChooseBackend, AProcessHasARankAtLeast) {
  EXPECT_EQ(BackendOf(DeviceKind::kCpu, 4).status().message(),
            "a test says that there are 4 processes, but the run has 0 ranks");
}

TEST(ChooseBackend, MpiIsTakenWhereItCan) {
  RunConfig config;
  config.device = DeviceKind::kCpu;
  config.transport = TransportKind::kMpi;
  for (const int processes : {1, 4}) {
    EXPECT_EQ(BackendOf(config, processes).status().message(),
              "transport: mpi: MPI does not know the processes of a test: mpirun and srun "
              "--mpi=pmix start some that it knows");
  }
  config.heal_every = 1;
  EXPECT_EQ(BackendOf(config, 4).status().message(),
            "transport: mpi: a run with 'heal' goes on without a lost process, and MPI does not");
}

TEST(ChooseBackend, ProcessesDoNotShareOutGpus) {
  RunConfig several, groups;
  several.gpus.count = 2;
  groups.sms_per_rank = 32;
  for (const DeviceKind device : {DeviceKind::kAuto, DeviceKind::kCuda}) {
    several.device = groups.device = device;
    const absl::Status status = BackendOf(several, 4).status();
    if (absl::StrContains(status.message(), "built without CUDA")) continue;
    EXPECT_TRUE(absl::StrContains(status.message(),
                                  "gpus: a test says that there are 4 processes, and each has a "
                                  "GPU of its own; one process alone can have several"))
        << status;
    EXPECT_TRUE(absl::StrContains(BackendOf(groups, 4).status().message(),
                                  "sms_per_rank: a test says that there are 4 processes, and each "
                                  "has a GPU of its own, whole"));
  }
}

}  // namespace
}  // namespace stringline
