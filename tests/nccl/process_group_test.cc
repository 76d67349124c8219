// Groups between processes on CPUs: the contract, and the reports of a process's failure.
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "executor/engine/lost_process.h"
#include "executor/processes/group.h"
#include "executor/processes/tcp_world.h"
#include "gtest/gtest.h"
#include "schedlang/base/clock.h"
#include "tests/executor/group_contract.h"
#include "tests/nccl/status_text.h"
#include "tests/nccl/world_processes.h"
#include "tools/gpu/processes.h"

namespace stringline {
namespace {

using Said = std::vector<std::string>;

struct ProcessRun {
  int processes = 2;
  int ranks = 2;
  WireSettings wires;
  int64_t exchange_ms = 30'000;
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
    settings.exchange_ms = run.exchange_ms;
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
  machine.work_of = WorkOfThreads();
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
    EXPECT_TRUE(absl::StrContains(text, " of rank 2 here")) << text;
    EXPECT_TRUE(absl::StrContains(text, " met an all-reduce of thing 7 (")) << text;
    EXPECT_EQ(text, said[0]);
  }
}

// A message from member 0 to member 1, each in a process of its own. Process 0 calls `before`
// before its end of the message. `tell` runs the step in each process, and returns its text.
Said SendOne(const WireSettings& wires, const std::function<void()>& before,
             const std::function<std::string(const std::function<absl::Status()>& run)>& tell) {
  const ProcessRun run = {2, 2, wires};
  return RunProcesses(run, [&](World* world) {
    GroupMembers members(NewMachine(world, 2, run.wires), 2);
    const int own = world->process();
    Call call = CallOf(own == 0 ? CallKind::kSend : CallKind::kRecv, 4, 7, 1 - own);
    auto* const value = members.Memory<float>(1);
    call.from = call.to = value;
    (void)world->Exchange("");  // begin together
    return tell([&] {
      if (own == 0) before();
      members.Enqueue(own, call);
      return members.Run();
    });
  });
}

// At least the given time: the excess depends on the load of the machine.
TEST(ProcessGroups, ASlowLinkHoldsBothEnds) {
  WireSettings wires;
  wires.link = {.latency_ns = 40'000'000, .bytes_per_s = 100};  // 40 ms more for the four bytes
  const auto tell = [](const std::function<absl::Status()>& run) -> std::string {
    const int64_t begin_ns = NowNs();
    const absl::Status status = run();
    if (!status.ok()) return StatusText(status);
    return NowNs() - begin_ns >= 80'000'000 ? "slow" : "at once";
  };
  EXPECT_EQ(SendOne(
                wires, [] {}, tell),
            Said(2, "slow"));
}

// On one way the second message begins when the first has been held, and an exchange is held for
// the bytes that a member sends to others.
TEST(ProcessGroups, ASlowLinkHoldsWhateverTravels) {
  ProcessRun run = {2, 2, {}};
  run.wires.link = {.latency_ns = 20'000'000, .bytes_per_s = 200};  // 20 ms more for four bytes
  const auto took = [&run](int calls, CallKind kind) {
    return RunProcesses(run, [&](World* world) -> std::string {
      GroupMembers members(NewMachine(world, 2, run.wires), 2);
      const int own = world->process();
      const bool message = kind == CallKind::kSend;
      (void)world->Exchange("");  // they begin together
      const int64_t begin_ns = NowNs();
      for (int i = 0; i < calls; ++i) {
        Call call = CallOf(message && own == 1 ? CallKind::kRecv : kind, 4, i, 1 - own);
        call.from = members.Memory<float>(2);
        call.to = members.Memory<float>(2);
        members.Enqueue(own, call);
      }
      const absl::Status status = members.Run();
      if (!status.ok()) return StatusText(status);
      return NowNs() - begin_ns >= calls * int64_t{40'000'000} ? "held" : "not held";
    });
  };
  EXPECT_EQ(took(1, CallKind::kSend), Said(2, "held"));
  EXPECT_EQ(took(3, CallKind::kSend), Said(2, "held"));
  EXPECT_EQ(took(1, CallKind::kAllGather), Said(2, "held"));
  EXPECT_EQ(took(3, CallKind::kAllGather), Said(2, "held"));
}

// Only member 0 sends a row: the receiver is held, too, for what it was told.
TEST(ProcessGroups, ASlowLinkHoldsARowUntilItsCountWasTold) {
  ProcessRun run = {2, 2, {}};
  run.wires.link = {.latency_ns = 20'000'000, .bytes_per_s = 400};  // 40 ms more for 16 bytes
  EXPECT_EQ(RunProcesses(run,
                         [&](World* world) -> std::string {
                           GroupMembers members(NewMachine(world, 2, run.wires), 2);
                           const int own = world->process();
                           const std::vector<int32_t> sent = {0, own == 0 ? 1 : 0};
                           const std::vector<int32_t> rows(3, 5);
                           std::vector<int32_t> told(2, -1), got(6, -1);
                           Call call = CallOf(CallKind::kAllToAllCounted, 12, 1);
                           call.from = rows.data();
                           call.to = got.data();
                           call.rows = members.Keep({sent.data(), nullptr, 1, 2, 1, told.data()});
                           (void)world->Exchange("");  // they begin together
                           const int64_t begin_ns = NowNs();
                           members.Enqueue(own, call);
                           const absl::Status status = members.Run();
                           if (!status.ok()) return StatusText(status);
                           const bool held = NowNs() - begin_ns >= 60'000'000;
                           return absl::StrCat(held ? "held " : "not held ",
                                               absl::StrJoin(told, ","), " ", got[0]);
                         }),
            Said({"held 0,0 -1", "held 1,0 5"}));
}

TEST(ProcessGroups, APieceOfToldRowsThatDoesNotFitIsAnErrorInEveryProcess) {
  const ProcessRun run = {2, 2, {}};
  for (const int64_t room : {2, 1}) {
    const Said said = RunProcesses(run, [&](World* world) -> std::string {
      GroupMembers members(NewMachine(world, 1, run.wires), 2);
      const std::vector<int32_t> sent = {1, 2}, rows = {5, 6, 7};
      std::vector<int32_t> told(2, -1), got(4, -1);
      Call call = CallOf(CallKind::kAllToAllCounted, 4, 1);
      call.from = rows.data();
      call.to = got.data();
      call.rows = members.Keep({sent.data(), nullptr, 1, 2 * room, room, told.data()});
      members.Enqueue(world->process(), call);
      const std::string text = StatusText(members.Run());
      return absl::StrCat(text, " ", absl::StrJoin(told, ","), " ", absl::StrJoin(got, ","));
    });
    if (room == 2) {
      EXPECT_EQ(said[0].substr(0, 11), "OK 1,1 5,5,");
      EXPECT_EQ(said[1], "OK 2,2 6,7,6,7");
      continue;
    }
    for (const std::string& text : said) {
      EXPECT_TRUE(absl::StrContains(text, " sends 2 rows to member 1, which has room for 1"))
          << text;
    }
  }
}

// The same number of bytes a row, in one array here and two there.
TEST(ProcessGroups, RowsOfOtherArraysAreNamed) {
  const ProcessRun run = {2, 2, {}};
  const Said said = RunProcesses(run, [&](World* world) {
    GroupMembers members(NewMachine(world, 1, run.wires), 2);
    const int own = world->process();
    const std::vector<int32_t> counts = {1, 1};
    std::vector<int32_t> from(4, 5), to(4, -1);
    Call call = CallOf(CallKind::kAllToAllCounted, 4, 1);
    call.from = from.data();
    call.to = to.data();
    RowCounts rows = {counts.data(), counts.data(), 1, 2};
    if (own == 1) rows.more.push_back({from.data() + 2, to.data() + 2, 4});
    call.rows = members.Keep(rows);
    members.Enqueue(own, call);
    return StatusText(members.Run());
  });
  for (const std::string& text : said) {
    EXPECT_TRUE(
        absl::StrContains(text, "a counted all-to-all of thing 1 (4 bytes a row) of rank 0"))
        << text;
    EXPECT_TRUE(
        absl::StrContains(text, "a counted all-to-all of thing 1 (4 + 4 bytes a row) of rank 1"))
        << text;
  }
}

TEST(ProcessGroups, RowsThatDoNotFitAreAnErrorInEveryProcess) {
  const ProcessRun run = {2, 2, {}};
  for (const int64_t room : {4, 3}) {
    const Said said = RunProcesses(run, [&](World* world) -> std::string {
      GroupMembers members(NewMachine(world, 1, run.wires), 2);
      const int own = world->process();
      const std::vector<int32_t> sent = {1, 2}, expected = {own + 1, own + 1};
      const std::vector<int32_t> rows(3, 5);
      std::vector<int32_t> got(4, -1);
      Call call = CallOf(CallKind::kAllToAllCounted, 4, 1);
      call.from = rows.data();
      call.to = got.data();
      call.rows = members.Keep({sent.data(), expected.data(), 1, room});
      members.Enqueue(own, call);
      const std::string text = StatusText(members.Run());
      return absl::StrCat(text, " ", absl::StrJoin(got, ","));
    });
    if (room == 4) {
      EXPECT_EQ(said, Said({"OK 5,5,-1,-1", "OK 5,5,5,5"}));
      continue;
    }
    for (const std::string& text : said) {
      EXPECT_TRUE(absl::StrContains(text, "is sent 4 rows and has room for 3")) << text;
    }
    EXPECT_TRUE(absl::EndsWith(said[1], " -1,-1,-1,-1")) << said[1];
  }
}

TEST(ProcessGroups, ASlowLinkKeepsTheContract) {
  const unsigned seed = std::random_device{}();
  ProcessRun run = {2, 3, {}};
  run.wires.link = {.latency_ns = 20'000, .bytes_per_s = 1e9};
  for (const NamedContract& contract : GroupContracts()) {
    SCOPED_TRACE(absl::StrCat(contract.name, ", seed ", seed));
    const Said said = RunProcesses(run, [&](World* world) -> std::string {
      contract.check([&] { return NewMachine(world, 2, run.wires); }, run.ranks, seed);
      return "kept";
    });
    EXPECT_EQ(said, Said(2, "kept"));
  }
}

// A process that waits for a message sleeps: a spinning process would use all of its processor's
// time.
TEST(ProcessGroups, WhoWaitsLeavesTheProcessorToOthers) {
  const auto processor_us = [] {
    rusage used = {};
    (void)getrusage(RUSAGE_SELF, &used);
    const auto us = [](const timeval& time) { return time.tv_sec * 1'000'000 + time.tv_usec; };
    return us(used.ru_utime) + us(used.ru_stime);
  };
  const auto tell = [&](const std::function<absl::Status()>& run) -> std::string {
    const int64_t begin_us = processor_us();
    const absl::Status status = run();
    if (!status.ok()) return StatusText(status);
    const int64_t used_us = processor_us() - begin_us;
    return used_us < 200'000 ? "slept" : absl::StrCat("used ", used_us, " us");
  };
  EXPECT_EQ(SendOne(
                {}, [] { usleep(1'000'000); }, tell),
            Said(2, "slept"));
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
        absl::StartsWith(said[p], "UNAVAILABLE: rank 1 here died, or ended without a word: "))
        << said[p];
    EXPECT_TRUE(absl::StrContains(said[p], "s for it in a receive of thing 7 (4 bytes)"))
        << said[p];
    EXPECT_EQ(said[p], said[0]);
  }
}

// The same in rows whose counts would be told: of each process several messages wait.
TEST(ProcessGroups, WhoDiesIsNamedWithTheRowsThatWaitedForIt) {
  const ProcessRun run = {2, 2, {}};
  const Said said = RunProcesses(run, [&](World* world) {
    GroupMembers members(NewMachine(world, 1, run.wires), 2);
    const int own = world->process();
    if (own == 1) KillMeAfter(0);
    const std::vector<int32_t> counts = {1, 1}, rows(4, 5);
    std::vector<int32_t> told(2), got(8);
    Call call = CallOf(CallKind::kAllToAllCounted, 4, 7);
    call.from = rows.data();
    call.to = got.data();
    call.rows = members.Keep(
        {counts.data(), nullptr, 1, 4, 2, told.data(), {{rows.data() + 2, got.data() + 4, 4}}});
    members.Enqueue(own, call);
    return StatusText(members.Run());
  });
  EXPECT_TRUE(absl::StartsWith(said[0], "UNAVAILABLE: rank 1 here died, or ended without a word: "))
      << said[0];
  EXPECT_TRUE(absl::StrContains(
      said[0], "s for it in a counted all-to-all of thing 7 (4 + 4 bytes a row, and counts)"))
      << said[0];
}

// Every process waits for the next in a cycle, except `which`, which first stays away until the
// others have ended.
class WaitingProcesses {
 public:
  explicit WaitingProcesses(int others = 0) : others_(others) { EXPECT_EQ(pipe(ended_), 0); }
  ~WaitingProcesses() {
    for (const int end : ended_) (void)close(end);
  }

  // Returns each process's text. Process `which` calls `away` before it waits too.
  Said Run(int processes, int which, const std::function<void(GroupMembers* members)>& away) {
    others_ = processes - 1;
    ProcessRun run;
    run.processes = run.ranks = processes;
    run.wires.wait_ms = 1500;
    run.wires.decide_ms = 2000;
    return RunProcesses(run, [&](World* world) {
      GroupMembers members(NewMachine(world, 1, run.wires), processes);
      const int own = world->process();
      Call call = CallOf(CallKind::kRecv, 4, 7, (own + 1) % processes);
      call.to = members.Memory<float>(1);
      (void)world->Exchange("");  // begin to wait together
      if (own == which) away(&members);
      members.Enqueue(own, call);
      const std::string said = StatusText(members.Run());
      EXPECT_EQ(write(ended_[1], "", 1), 1);
      return said;
    });
  }

  void HasEnded() { EXPECT_EQ(write(ended_[1], "", 1), 1); }
  void WaitForOthers() {
    char byte = 0;
    for (int left = others_; left > 0 && read(ended_[0], &byte, 1) == 1;) --left;
  }
  // Stops this process. Another process kills it when the others have ended.
  void StandStill() {
    const pid_t own = getpid();
    if (fork() == 0) {
      WaitForOthers();
      (void)kill(own, SIGKILL);
      _exit(0);
    }
    (void)raise(SIGSTOP);
  }

 private:
  int ended_[2] = {-1, -1};  // a pipe with a byte of each that has ended
  int others_ = 0;
};

TEST(ProcessGroups, WhoWaitInACycleAreToldSo) {
  const Said said = WaitingProcesses().Run(3, -1, nullptr);
  for (const std::string& text : said) EXPECT_EQ(text, said[0]);
  EXPECT_TRUE(absl::StartsWith(said[0], "DEADLINE_EXCEEDED: rank ")) << said[0];
  EXPECT_TRUE(
      absl::StrContains(said[0], " here waits for others that wait for it in a cycle; rank "))
      << said[0];
  EXPECT_TRUE(absl::StrContains(said[0], " s for it in a receive of thing 7 (4 bytes)")) << said[0];
}

TEST(ProcessGroups, TheOneAtTheEndOfTheChainIsNamed) {
  WaitingProcesses processes;
  const Said said = processes.Run(
      4, 3, [&](GroupMembers* members) { members->Do(3, [&] { processes.WaitForOthers(); }); });
  for (const std::string& text : said) EXPECT_EQ(text, said[0]);
  EXPECT_TRUE(absl::StartsWith(said[0],
                               "DEADLINE_EXCEEDED: rank 3 here still computes, or waits inside its "
                               "process; rank 2 here waited "))
      << said[0];
}

TEST(ProcessGroups, AProcessThatWasStoppedIsNamed) {
  WaitingProcesses processes;
  const Said said = processes.Run(4, 3, [&](GroupMembers*) { processes.StandStill(); });
  EXPECT_EQ(said[3], "killed by signal 9");
  for (int p = 0; p < 3; ++p) {
    EXPECT_TRUE(absl::StartsWith(said[p],
                                 "DEADLINE_EXCEEDED: rank 3 here does not answer: its process was "
                                 "stopped, or its host is lost; rank 2 here waited "))
        << said[p];
  }
}

// A process that does not answer, and dies while the others ask: it is dead, not late.
TEST(ProcessGroups, ALateProcessThatTurnsOutDeadIsNamedAsDead) {
  constexpr int kProcesses = 3;
  ProcessRun run = {kProcesses, kProcesses, {}};
  run.wires.wait_ms = 300;
  run.wires.ask_ms = run.wires.decide_ms = 60'000;
  const Said said = RunProcesses(run, [&](World* world) {
    GroupMembers members(NewMachine(world, 1, run.wires), kProcesses);
    const int own = world->process();
    Call call = CallOf(CallKind::kRecv, 4, 7, (own + 1) % kProcesses);
    call.to = members.Memory<float>(1);
    (void)world->Exchange("");  // they begin to wait together
    if (own == 2) {
      const pid_t still = getpid();
      if (fork() == 0) {
        usleep(3'000'000);  // long after the others have begun to ask
        (void)kill(still, SIGKILL);
        _exit(0);
      }
      (void)raise(SIGSTOP);
    }
    members.Enqueue(own, call);
    return StatusText(members.Run());
  });
  ExpectDeathNamed(said, 2);
}

TEST(ProcessGroups, ProcessZeroThatWasStoppedIsNamedToo) {
  WaitingProcesses processes;
  const Said said = processes.Run(2, 0, [&](GroupMembers*) { processes.StandStill(); });
  EXPECT_EQ(said[0], "killed by signal 9");
  EXPECT_TRUE(absl::StartsWith(said[1],
                               "DEADLINE_EXCEEDED: rank 0 here does not answer: its process was "
                               "stopped, or its host is lost; rank 1 here waited "))
      << said[1];
}

// A world that calls `behind` after the first exchange of the hosts, with its result.
class FirstExchange final : public World {
 public:
  using Result = absl::StatusOr<std::vector<std::string>>;
  FirstExchange(World* of, std::function<Result(Result)> behind)
      : of_(*of), behind_(std::move(behind)) {}
  int ranks() const override { return of_.ranks(); }
  absl::Span<const int> local() const override { return of_.local(); }
  int processes() const override { return of_.processes(); }
  int process() const override { return of_.process(); }
  std::string address() const override { return of_.address(); }
  Result Exchange(absl::string_view mine) override {
    Result result = of_.Exchange(mine);
    return std::exchange(first_, false) ? behind_(std::move(result)) : result;
  }
  void Fail(const absl::Status& status) override { of_.Fail(status); }
  absl::Status state() override { return of_.state(); }
  bool FirstAnswers(int64_t most_ms) override { return of_.FirstAnswers(most_ms); }

 private:
  World& of_;
  const std::function<Result(Result)> behind_;
  bool first_ = true;
};

// The processes connect after an exchange of addresses; `behind` follows it in each. Who talks with
// whom: as in Groups::New.
Said Connect(int processes, WaitingProcesses* stops,
             const std::function<FirstExchange::Result(int process, FirstExchange::Result)>& behind,
             const std::vector<MemberPair>& talks = {}) {
  ProcessRun run;
  run.processes = run.ranks = processes;
  run.wires.wait_ms = run.exchange_ms = 2000;
  return RunProcesses(run, [&](World* world) {
    FirstExchange watched(world, [&](FirstExchange::Result result) {
      return behind(world->process(), std::move(result));
    });
    const auto device = *CpuDevice::Make(1);
    ProcessGroups groups(device.get(), &watched, run.wires);
    std::vector<int> all(processes);
    std::iota(all.begin(), all.end(), 0);
    (void)groups.New(all, talks);
    const absl::Status status = groups.Connect();
    stops->HasEnded();
    return absl::StrCat(IsLost(status) ? "lost: " : "", StatusText(status));
  });
}

// Stopped between the exchange of addresses and the connections; the others name it, and not who
// waits for it.
TEST(ProcessGroups, OneThatStandsStillInConnectIsNamed) {
  for (int stopped = 0; stopped < 4; ++stopped) {
    WaitingProcesses stops(3);
    const Said said = Connect(4, &stops, [&](int process, FirstExchange::Result result) {
      if (process == stopped) stops.StandStill();
      return result;
    });
    const std::string late =
        stopped == 0
            ? "lost: DEADLINE_EXCEEDED: rank 0 here does not answer: its process was stopped, or "
              "its host is lost; rank 0 here did not connect to "
            : absl::StrCat("lost: DEADLINE_EXCEEDED: rank ", stopped, " here did not connect to ");
    for (int p = 0; p < 4; ++p) {
      if (p == stopped) continue;
      EXPECT_TRUE(absl::StartsWith(said[p], late)) << said[p] << late;
    }
  }
}

// The same in a chain, by those too that are not connected to it: process 7 hears it from others.
TEST(ProcessGroups, OneThatStandsStillInConnectIsNamedByAll) {
  WaitingProcesses stops(7);
  std::vector<MemberPair> chain;
  for (int m = 0; m < 7; ++m) chain.push_back({m, m + 1});
  const Said said = Connect(
      8, &stops,
      [&](int process, FirstExchange::Result result) {
        if (process == 4) stops.StandStill();
        return result;
      },
      chain);
  for (int p = 0; p < 8; ++p) {
    if (p == 4) continue;
    EXPECT_TRUE(
        absl::StartsWith(said[p], "lost: DEADLINE_EXCEEDED: rank 4 here did not connect to rank "))
        << said[p];
  }
}

// Process 0 is stopped in the middle of handing out the addresses: process 2 has none.
TEST(ProcessGroups, Process0IsNamedWhereItHandedOutToSome) {
  WaitingProcesses stops(3);
  const Said said = Connect(4, &stops, [&](int process, FirstExchange::Result result) {
    if (process == 0) stops.StandStill();
    if (process == 2) {
      usleep(4'000'000);
      return FirstExchange::Result(AsLost(absl::DeadlineExceededError("rank 0 did not come")));
    }
    return result;
  });
  EXPECT_EQ(said[2], "lost: DEADLINE_EXCEEDED: rank 0 did not come");
  EXPECT_TRUE(absl::StartsWith(said[1],
                               "lost: DEADLINE_EXCEEDED: rank 0 here does not answer: its process "
                               "was stopped, or its host is lost; rank 2 here did not connect"))
      << said[1];
  // The last process waits for no connection.
  EXPECT_TRUE(absl::StartsWith(said[3], "lost: DEADLINE_EXCEEDED: rank 0 here ")) << said[3];
}

// Rank 1 waits longest for rank 2, which waits for rank 1; its next computation needs rank 0's
// message.
TEST(WireInquiry, OfSeveralWaitsTheOneThatHoldsUpIsFollowed) {
  WireAnswers answers;
  answers.names = {"rank 0", "rank 1", "rank 2"};
  answers.answered = {true, true, true};
  WireAnswer answer;
  answer.waits = {{1, 2, 1'500'000'000, "a receive of g", 9},
                  {1, 0, 1'200'000'000, "a receive of a", 7},
                  {2, 1, 1'600'000'000, "a receive of b", 3}};
  answer.states = {{0, "", 0, false, -1, "", 0}, {1, "", 0, false, 7, "", 0}};
  answers.Add(answer);
  EXPECT_EQ(DescribeBlame(answers),
            "rank 0 still computes, or waits inside its process; rank 1 waited 1.2 s for it in a "
            "receive of a");
}

// The experts of 1F0 exchange rows: rank 1 computes it, and waits for rank 2, which was stopped.
TEST(WireInquiry, ARankIsHeldUpByTheAllToAllOfItsComputation) {
  WireAnswers answers;
  answers.names = {"rank 0", "rank 1", "rank 2"};
  answers.answered = {true, true, false};
  WireAnswer answer;
  answer.waits = {{0, 1, 1'600'000'000, "a receive of g", 3},
                  {1, 0, 1'700'000'000, "a receive of a", 9},
                  {1, 2, 1'500'000'000, "an all-to-all of rows for 1F0", 7}};
  answer.states = {{0}, {1, "computes 1F0", 1'500'000'000, true, 7, "1RECV_F0", 0}};
  answers.Add(answer);
  const std::string blame = DescribeBlame(answers);
  EXPECT_EQ(blame,
            "rank 2 does not answer: its process was stopped, or its host is lost; rank 1 waited "
            "1.5 s for it in an all-to-all of rows for 1F0");
  answers.all.waits.pop_back();  // it computes, and waits for its next message already
  EXPECT_TRUE(absl::StartsWith(DescribeBlame(answers), "rank 1 computes 1F0, for 1.5 s now; "));
}

TEST(WireInquiry, OfAProcessThatIsLateTheRankThatComputesIsNamed) {
  WireAnswers answers;
  answers.names = {"rank 0", "rank 1", "rank 2"};
  answers.answered = {true, true, true};
  WireAnswer answer;
  answer.states = {{1, "", 0, false, -1, "1W3", 9}, {2, "computes 2W3", 1'300'000'000, true}};
  answers.Add(answer);
  EXPECT_EQ(DescribeDoing(answers, {1, 2}), "rank 2 computes 2W3, for 1.3 s now");
  EXPECT_EQ(DescribeDoing(answers, {0, 1}), "rank 0 still computes, or waits inside its process");
}

// The same in a step: rank 1 has its part of the exchange and waits for rank 2, which still waits
// for its own part.
TEST(ProcessGroups, Process0IsNamedWhereOthersWaitForWhoWaitsForIt) {
  WaitingProcesses stops(2);
  ProcessRun run;
  run.processes = run.ranks = 3;
  run.wires.wait_ms = 1500;
  run.wires.decide_ms = 1000;
  const Said said = RunProcesses(run, [&](World* world) {
    GroupMembers members(NewMachine(world, 1, run.wires), 3);
    Call call = CallOf(CallKind::kRecv, 4, 7, 2);
    call.to = members.Memory<float>(1);
    (void)world->Exchange("");
    if (world->process() == 0) stops.StandStill();
    if (world->process() == 2) {
      usleep(5'000'000);
      stops.HasEnded();
      return std::string("in an exchange");
    }
    members.Enqueue(1, call);
    const std::string text = StatusText(members.Run());
    stops.HasEnded();
    return text;
  });
  EXPECT_TRUE(absl::StartsWith(said[1],
                               "DEADLINE_EXCEEDED: rank 0 here does not answer: its process was "
                               "stopped, or its host is lost; rank 1 here waited "))
      << said[1];
  EXPECT_TRUE(absl::StrContains(said[1], " s for rank 2 here in a receive of thing 7")) << said[1];
}

// Process 0 was stopped while it handed out an exchange: rank 1 has its part, and waits for rank 2,
// which has not.
TEST(WireInquiry, WhoWaitsInAnExchangeIsNotToBlame) {
  WireAnswers answers;
  answers.names = {"rank 0", "rank 1", "rank 2"};
  answers.answered = {false, true, true};
  WireAnswer answer;
  answer.waits = {{1, 2, 1'500'000'000, "a receive of g", 9}};
  answer.states = {{1, "", 0, false, 9, "1F0", 2'000'000'000},
                   {2, "has computed its gradients, and exchanges losses", 1'600'000'000}};
  answers.Add(answer);
  EXPECT_EQ(DescribeBlame(answers),
            "rank 0 does not answer: its process was stopped, or its host is lost; rank 1 waited "
            "1.5 s for rank 2 in a receive of g, and rank 2 has computed its gradients, and "
            "exchanges losses, for 1.6 s now");
  // A rank that computes is late itself.
  answers.all.states[1].computes = true;
  EXPECT_TRUE(absl::StartsWith(DescribeBlame(answers), "rank 2 has computed its gradients"));
}

// The deciding process is dead; the next process decides.
TEST(ProcessGroups, WhenProcessZeroDiesTheOthersAgreeAllTheSame) {
  const ProcessRun run = {4, 4, {}};
  const Said said = RunProcesses(run, [&](World* world) {
    GroupMembers members(NewMachine(world, 1, run.wires), 4);
    const int own = world->process();
    if (own == 0) KillMeAfter(0);
    Call call = CallOf(CallKind::kRecv, 4, 7, own == 1 ? 0 : 1);
    call.to = members.Memory<float>(1);
    members.Enqueue(own, call);
    return StatusText(members.Run());
  });
  EXPECT_EQ(said[0], "killed by signal 9");
  for (int p = 1; p < 4; ++p) {
    EXPECT_TRUE(
        absl::StartsWith(said[p], "UNAVAILABLE: rank 0 here died, or ended without a word: "))
        << said[p];
    EXPECT_EQ(said[p], said[1]);
  }
}

TEST(ProcessGroups, WhenTheOnesThatDecideAreStoppedTheNextDoes) {
  WaitingProcesses processes;
  const Said said = processes.Run(4, 0, [&](GroupMembers*) { processes.StandStill(); });
  EXPECT_EQ(said[0], "killed by signal 9");
  for (int p = 1; p < 4; ++p) {
    EXPECT_TRUE(absl::StartsWith(said[p], "DEADLINE_EXCEEDED: rank 0 here does not answer: "))
        << said[p];
    EXPECT_EQ(said[p], said[1]);
  }
}

TEST(WireInquiry, WhatIsPackedIsUnpackedWithTheLongestWaitsFirst) {
  WireAnswer answer;
  answer.waits = {{1, 2, 50, "a"}, {3, 4, 900, "b", 8}, {5, 6, 100, "c"}};
  answer.messages = {{1, 6, 70, "m"}};
  answer.states = {{1, "computes 1F0", 40, true, -1, "1F1", 80}, {3, "", 0, false, 7, "3F1", 20}};
  const auto all = UnpackAnswer(PackAnswer(answer, 1000), 7);
  ASSERT_TRUE(all.has_value());
  ASSERT_EQ(all->waits.size(), 3u);
  EXPECT_EQ(all->waits[0].call, "b");
  EXPECT_EQ(all->waits[0].peer, 4);
  EXPECT_EQ(all->waits[0].action, 8);
  ASSERT_EQ(all->messages.size(), 1u);
  EXPECT_EQ(all->messages[0].ago_ns, 70);
  ASSERT_EQ(all->states.size(), 2u);
  EXPECT_EQ(all->states[0].doing, "computes 1F0");
  EXPECT_TRUE(all->states[0].computes);
  EXPECT_EQ(all->states[0].ago_ns, 80);
  EXPECT_EQ(all->states[1].completed, "3F1");
  EXPECT_EQ(all->states[1].needs, 7);
  const auto few = UnpackAnswer(PackAnswer(answer, 50), 7);
  ASSERT_TRUE(few.has_value());
  ASSERT_EQ(few->waits.size(), 1u);
  EXPECT_EQ(few->waits[0].call, "b");
  EXPECT_TRUE(few->states.empty());
  EXPECT_FALSE(UnpackAnswer(PackAnswer(answer, 1000), 6).has_value());
  EXPECT_FALSE(UnpackAnswer("no waits", 7).has_value());
}

// The others' knowledge of a dead process, and of a busy one.
TEST(WireInquiry, WhatIsKnownOfTheOneToBlameIsSaid) {
  WireAnswers answers;
  answers.names = {"rank 0 on a", "rank 1 on a", "rank 2 on b"};
  answers.answered = {true, true, false};
  WireAnswer answer;
  answer.waits = {{0, 1, 1'500'000'000, "a receive of x"}, {1, 2, 1'400'000'000, "a send of y"}};
  answer.messages = {{0, 2, 1'900'000'000, "a send of v"}, {1, 2, 1'600'000'000, "a send of w"}};
  answers.Add(answer);
  EXPECT_EQ(DescribeBlame(answers),
            "rank 2 on b does not answer: its process was stopped, or its host is lost; rank 1 on "
            "a waited 1.4 s for it in a send of y; the last known of rank 2 on b: rank 1 on a "
            "completed a send of w with it, 1.6 s ago");
  EXPECT_EQ(DescribeLost(answers, {2}),
            "; rank 1 on a waited 1.4 s for it in a send of y; the last known of rank 2 on b: rank "
            "1 on a completed a send of w with it, 1.6 s ago");
  answers.answered[2] = true;
  WireAnswer other;
  other.states = {
      {2, "computes 2F1 (x.sched:3)", 1'300'000'000, true, -1, "2F0 (x.sched:3)", 1'350'000'000}};
  // Rank 2 already waits for its next message.
  other.waits = {{2, 1, 1'200'000'000, "a receive of z"}};
  answers.Add(other);
  EXPECT_EQ(DescribeBlame(answers),
            "rank 2 on b computes 2F1 (x.sched:3), for 1.3 s now; rank 1 on a waited 1.4 s for it "
            "in a send of y; rank 2 on b completed 2F0 (x.sched:3) last, 1.4 s ago");
}

}  // namespace
}  // namespace stringline
