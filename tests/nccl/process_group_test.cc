// Groups between processes on CPUs: the contract, and what is said when a process fails.
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "executor/processes/group.h"
#include "executor/processes/tcp_world.h"
#include "gtest/gtest.h"
#include "tests/executor/group_contract.h"
#include "tests/nccl/status_text.h"
#include "tools/gpu/processes.h"

namespace stringline {
namespace {

using Said = std::vector<std::string>;

struct ProcessRun {
  int processes = 2;
  int ranks = 2;
  WireSettings wires;
};

Said RunProcesses(const ProcessRun& run, const std::function<std::string(World* world)>& body) {
  const int port = FreePort();
  Processes all(run.processes, [&](int p) -> std::string {
    TcpWorldSettings settings;
    settings.identity.process = p;
    settings.identity.processes = run.processes;
    settings.identity.host = "127.0.0.1";
    settings.identity.port = port;
    settings.ranks = run.ranks;
    settings.join_ms = 30'000;
    settings.exchange_ms = 30'000;
    const auto world = TcpWorld::Join(settings);
    if (!world.ok()) return world.status().ToString();
    const std::string said = body(world->get());
    return testing::Test::HasFailure() ? "failed" : said;
  });
  return all.Wait();
}

GroupMachine NewMachine(World* world, int threads, const WireSettings& settings) {
  GroupMachine machine;
  auto device = *CpuDevice::Make(threads);
  machine.groups = std::make_unique<ProcessGroups>(device.get(), world, settings);
  machine.device = std::move(device);
  machine.local.assign(world->local().begin(), world->local().end());
  machine.work_of = [kept = std::make_shared<std::deque<std::function<void()>>>()](auto run) {
    const auto call = [](const void* self, int64_t, NativeStream) {
      (*static_cast<const std::function<void()>*>(self))();
    };
    return Work{call, &kept->emplace_back(std::move(run)), 0};
  };
  return machine;
}

class ProcessGroupTest : public testing::TestWithParam<std::tuple<int, int, int>> {};

TEST_P(ProcessGroupTest, KeepsTheContract) {
  const auto [processes, ranks, threads] = GetParam();
  if (ranks < processes) GTEST_SKIP() << "a process without a rank";
  const unsigned seed = std::random_device{}();
  for (const NamedContract& contract : GroupContracts()) {
    SCOPED_TRACE(absl::StrCat(contract.name, ", seed ", seed));
    const ProcessRun run = {processes, ranks, {}};
    const Said said = RunProcesses(run, [&, threads = threads](World* world) -> std::string {
      SCOPED_TRACE(absl::StrCat(contract.name, " in process ", world->process()));
      contract.check([&] { return NewMachine(world, threads, run.wires); }, run.ranks, seed);
      return "kept";
    });
    EXPECT_EQ(said, Said(processes, "kept"));
  }
}

INSTANTIATE_TEST_SUITE_P(ProcessesRanksAndThreads, ProcessGroupTest,
                         testing::Combine(testing::Values(1, 2, 3), testing::Values(1, 2, 5),
                                          testing::Values(1, 3)));

TEST(ProcessGroups, CallsThatDifferAreNamedEverywhere) {
  const ProcessRun run = {3, 3, {}};
  const Said said = RunProcesses(run, [&](World* world) {
    GroupMembers members(NewMachine(world, 1, run.wires), 3);
    const int own = world->process();
    const int64_t floats = own == 2 ? 8 : 16;
    auto* const values = members.Memory<float>(16);
    Call call = CallOf(CallKind::kAllReduce, floats * 4, 7);
    call.from = call.to = values;
    members.Enqueue(own, call);
    return StatusText(members.Run());
  });
  for (const std::string& text : said) {
    EXPECT_TRUE(absl::StrContains(text, "INVALID_ARGUMENT: an all-reduce of thing 7 (")) << text;
    EXPECT_TRUE(absl::StrContains(text, " met an all-reduce of thing 7 (")) << text;
    EXPECT_EQ(text, said[0]);
  }
}

TEST(ProcessGroups, WhoDiesIsNamedWithWhatWaitedForIt) {
  const ProcessRun run = {3, 3, {}};
  const Said said = RunProcesses(run, [&](World* world) {
    GroupMembers members(NewMachine(world, 1, run.wires), 3);
    const int own = world->process();
    if (own == 1) KillMeAfter(0);
    Call call = CallOf(CallKind::kRecv, 4, 7, 1);
    call.to = members.Memory<float>(1);
    members.Enqueue(own, call);
    return StatusText(members.Run());
  });
  EXPECT_EQ(said[1], "killed by signal 9");
  for (const int p : {0, 2}) {
    EXPECT_TRUE(
        absl::StartsWith(said[p], "UNAVAILABLE: process 1 here died, or ended without a word: "))
        << said[p];
  }
}

TEST(ProcessGroups, AnEndThatNobodyMeetsHasADeadline) {
  ProcessRun run;
  run.wires.wait_ms = 300;
  const Said said = RunProcesses(run, [&](World* world) {
    GroupMembers members(NewMachine(world, 1, run.wires), 2);
    const int own = world->process();
    Call call = CallOf(CallKind::kRecv, 4, 7, 1 - own);
    call.to = members.Memory<float>(1);
    members.Enqueue(own, call);
    return StatusText(members.Run());
  });
  EXPECT_EQ(said[0], said[1]);
  EXPECT_TRUE(
      absl::StrContains(said[0], "waited 0.3 s in a receive of thing 7 (4 bytes) for rank "))
      << said[0];
}

}  // namespace
}  // namespace stringline
