// Groups on NCCL between processes: the contract of groups, in every order of the stand-ins; groups
// made by several processes; and the errors of disagreement, or of a lost process.
#include <unistd.h>

#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "schedlang/base/clock.h"
#include "tests/cuda/host_work.h"
#include "tests/cuda/standin/nccl_standin.h"
#include "tests/cuda/standin/standin.h"
#include "tests/executor/group_contract.h"
#include "tests/nccl/nccl_processes.h"

namespace stringline {
namespace {

using Said = std::vector<std::string>;

struct Case {
  int members;
  NcclSettings settings;
};

NcclSettings SettingsOf(NcclRows rows, int64_t workspace_bytes) {
  NcclSettings settings;
  settings.rows = rows;
  settings.workspace_bytes = workspace_bytes;
  return settings;
}

class NcclGroupTest : public testing::TestWithParam<std::tuple<int, NcclRows, int64_t, unsigned>> {
};

TEST_P(NcclGroupTest, KeepsTheContract) {
  const auto [members, rows, workspace_bytes, seed] = GetParam();
  NcclRun run;
  run.processes = members;
  run.seed = seed;
  run.settings = SettingsOf(rows, workspace_bytes);
  for (const NamedContract& contract : GpuGroupContracts()) {
    const Said said = RunNccl(run, [&, seed = seed](World* world) -> std::string {
      SCOPED_TRACE(absl::StrCat(contract.name, " in process ", world->process()));
      contract.check([&] { return *NewMachine(world, run.settings); }, run.processes, seed);
      EXPECT_EQ(standin_pageable_copies(), 0);
      EXPECT_EQ(standin_alive(), 0);
      EXPECT_EQ(standin_nccl_alive(), 0);
      EXPECT_EQ(standin_nccl_aborted(), 0);
      return "kept";
    });
    EXPECT_EQ(said, Said(members, "kept")) << contract.name;
    EXPECT_STREQ(standin_nccl_fault(), "");
  }
}

INSTANTIATE_TEST_SUITE_P(MembersAndSeeds, NcclGroupTest,
                         testing::Combine(testing::Values(1, 2, 3, 5),
                                          testing::Values(NcclRows::kPadded, NcclRows::kCounted),
                                          testing::Values(100, 1 << 20), testing::Range(0U, 3U)));

TEST(NcclGroup, SumsOfNcclAreSums) {
  NcclRun run;
  run.processes = 3;
  run.settings.sums = NcclSums::kNccl;
  const Said said = RunNccl(run, [&](World* world) -> std::string {
    GroupMembers members(*NewMachine(world, run.settings), 3);
    const int own = world->process();
    constexpr int64_t kFloats = 1000;
    std::vector<float> values(3 * kFloats);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(100 * own + i);
    Call all = CallOf(CallKind::kAllReduce, kFloats * 4, 1);
    all.from = all.to = members.Put(own, values);
    members.Enqueue(own, all);
    const float* const sum = members.Fetch(own, static_cast<float*>(all.to), kFloats);
    Call scatter = CallOf(CallKind::kReduceScatter, kFloats * 4, 2);
    scatter.from = members.Put(own, values);
    scatter.to = members.Memory<float>(kFloats);
    members.Enqueue(own, scatter);
    const float* const mine = members.Fetch(own, static_cast<float*>(scatter.to), kFloats);
    Call gather = CallOf(CallKind::kAllGather, 4, 3);
    gather.from = members.Put(own, std::vector<float>{static_cast<float>(own)});
    gather.to = members.Memory<float>(3);
    members.Enqueue(own, gather);
    const float* const gathered = members.Fetch(own, static_cast<float*>(gather.to), 3);
    const absl::Status status = members.Run();
    if (!status.ok()) return status.ToString();
    for (int64_t i = 0; i < kFloats; ++i) {
      EXPECT_EQ(sum[i], static_cast<float>(300 + 3 * i)) << i;
      EXPECT_EQ(mine[i], static_cast<float>(300 + 3 * (own * kFloats + i))) << i;
    }
    for (int m = 0; m < 3; ++m) EXPECT_EQ(gathered[m], static_cast<float>(m));
    return "sums";
  });
  EXPECT_EQ(said, Said(3, "sums"));
}

// Few SMs for messages, more for sums, a power of two, and as the settings say.
TEST(NcclGroup, ACallTakesTheSmsItNeeds) {
  const struct {
    int min_ctas, max_ctas, messages, sums;
  } cases[] = {{0, 0, 2, 8}, {4, 0, 4, 8}, {0, 13, 8, 8}, {0, 1, 1, 1}, {0, 32, 32, 32}};
  for (const auto& test : cases) {
    NcclRun run;
    run.processes = 2;
    run.settings.min_ctas = test.min_ctas;
    run.settings.max_ctas = test.max_ctas;
    const Said said = RunNccl(run, [&](World* world) -> std::string {
      GroupMachine machine = *NewMachine(world, run.settings);
      const MemberPair down = {0, 1};
      machine.groups->New({0, 1}, {down});
      EXPECT_EQ(machine.groups->Connect(), absl::OkStatus());
      EXPECT_EQ(standin_nccl_ctas(), test.messages);
      machine.groups->New({0, 1});
      EXPECT_EQ(machine.groups->Connect(), absl::OkStatus());
      EXPECT_EQ(standin_nccl_ctas(), test.messages + test.sums);
      return "taken";
    });
    EXPECT_EQ(said, Said(2, "taken"));
  }
}

// Many groups at once: a pipeline's channels in each direction between neighbours, two groups with
// the same ranks, further pairs, single ranks, and larger groups. All are used in one step, and
// each call takes its share of the GPU.
TEST(NcclGroup, EveryGroupIsItsOwnCommunicator) {
  for (unsigned seed = 0; seed < 6; ++seed) {
    NcclRun run;
    run.processes = 4;
    run.seed = seed;
    const Said said = RunNccl(run, [&](World* world) -> std::string {
      GroupMachine machine = *NewMachine(world, run.settings);
      const int own = world->process();
      const std::vector<std::vector<int>> ranks = {{0, 1}, {1, 0}, {1, 2}, {2, 1},    {2, 3},
                                                   {3, 2}, {0, 1}, {0, 2}, {1, 3},    {3, 0},
                                                   {0},    {2},    {3, 1}, {1, 2, 3}, {0, 1, 2, 3}};
      std::vector<Group*> groups;
      for (const auto& of : ranks) groups.push_back(machine.groups->New(of));
      const absl::Status connected = machine.groups->Connect();
      if (!connected.ok()) return connected.ToString();
      // All fit side by side on the stand-in's 132 SMs, and leave some free.
      EXPECT_GE(standin_nccl_ctas(), 6 * 8);
      EXPECT_LE(standin_nccl_ctas(), 99);
      std::deque<Call> calls;
      std::vector<std::pair<int32_t*, std::vector<int>>> got;
      for (size_t g = 0; g < groups.size(); ++g) {
        const auto found = std::find(ranks[g].begin(), ranks[g].end(), own);
        if (found == ranks[g].end()) continue;
        const auto member = static_cast<int>(found - ranks[g].begin());
        const auto n = static_cast<int64_t>(ranks[g].size());
        Call& call = calls.emplace_back(CallOf(CallKind::kAllGather, 4, static_cast<int64_t>(g)));
        auto* const mine = static_cast<int32_t*>(*machine.device->Allocate(4));
        const int32_t value = static_cast<int32_t>(100 * g) + own;
        EXPECT_TRUE(machine.device->CopyNow(mine, &value, 4).ok());
        call.from = mine;
        call.to = *machine.device->Allocate(4 * n);
        groups[g]->Enqueue(member, machine.device->NewStream({}, 8), &call);
        std::vector<int> expected;
        for (const int rank : ranks[g]) expected.push_back(static_cast<int>(100 * g) + rank);
        got.emplace_back(static_cast<int32_t*>(call.to), expected);
      }
      const absl::Status checked = machine.groups->CheckCalls();
      if (!checked.ok()) return checked.ToString();
      const absl::Status status = machine.device->Synchronize();
      if (!status.ok()) return status.ToString();
      for (const auto& [values, expected] : got) {
        EXPECT_EQ(std::vector<int>(values, values + expected.size()), expected);
      }
      return "good";
    });
    EXPECT_EQ(said, Said(4, "good"));
    EXPECT_STREQ(standin_nccl_fault(), "");
  }
}

// Consecutive steps with the same calls, whose end times are recorded.
TEST(NcclGroup, StepsFollowEachOther) {
  const Said said = RunNccl({}, [&](World* world) -> std::string {
    GroupMembers members(*NewMachine(world, {}), 2);
    const int own = world->process();
    auto* const value = members.Memory<float>(1);
    const float one = 1;
    EXPECT_TRUE(members.device().CopyNow(value, &one, 4).ok());
    float expected = 1;
    for (int step = 0; step < 5; ++step) {
      int64_t ended_ns = 0;
      Call call = CallOf(CallKind::kAllReduce, 4, 1);
      call.from = call.to = value;
      call.ended_ns = &ended_ns;
      const int64_t before_ns = members.device().NowNs();
      members.Enqueue(own, call);
      const absl::Status status = members.Run();
      if (!status.ok()) return status.ToString();
      EXPECT_GT(ended_ns, before_ns);
      expected *= 2;
      float got = 0;
      EXPECT_TRUE(members.device().CopyNow(&got, value, 4).ok());
      EXPECT_EQ(got, expected);
    }
    return "good";
  });
  EXPECT_EQ(said, Said(2, "good"));
}

TEST(NcclErrors, GroupsThatOnlyOneMakesAreNamed) {
  const Said said = RunNccl({}, [&](World* world) -> std::string {
    GroupMachine machine = *NewMachine(world, {});
    machine.groups->New({0, 1});
    if (world->process() == 1) machine.groups->New({0, 1});
    return StatusText(machine.groups->Connect());
  });
  EXPECT_EQ(said, Said(2,
                       "INVALID_ARGUMENT: of the group of ranks 0, 1 one member makes 1 and rank 1 "
                       "makes 2"));
}

TEST(NcclErrors, CallsThatDifferAreNamedBeforeTheyRun) {
  struct Different {
    CallKind kinds[2];
    int64_t bytes[2];
    const char* text;
  };
  const Different cases[] = {
      {{CallKind::kSend, CallKind::kRecv},
       {64, 60},
       "a send of thing 7 (64 bytes) met a receive of thing 7 (60 bytes)"},
      {{CallKind::kAllReduce, CallKind::kAllGather},
       {64, 64},
       "an all-reduce of thing 7 (64 bytes) met an all-gather of thing 7 (64 bytes)"},
  };
  for (const Different& c : cases) {
    const Said said = RunNccl({}, [&](World* world) -> std::string {
      GroupMembers members(*NewMachine(world, {}), 2);
      const int own = world->process();
      members.Enqueue(own, CallOf(CallKind::kAllReduce, 16, 1));
      members.Enqueue(own, CallOf(c.kinds[own], c.bytes[own], 7, 1 - own));
      const absl::Status status = members.groups()->CheckCalls();
      EXPECT_EQ(members.Run(), status);
      return StatusText(status);
    });
    const std::string number = c.kinds[0] == CallKind::kSend ? "1" : "2";
    EXPECT_EQ(said, Said(2, absl::StrCat("INVALID_ARGUMENT: call ", number,
                                         " of ranks 0 and 1 differs: ", c.text)));
  }
}

TEST(NcclErrors, ACallTooManyIsNamed) {
  const Said said = RunNccl({}, [&](World* world) -> std::string {
    GroupMembers members(*NewMachine(world, {}), 2);
    const int own = world->process();
    for (int i = 0; i < 2 + own; ++i) members.Enqueue(own, CallOf(CallKind::kAllReduce, 16, i));
    return StatusText(members.groups()->CheckCalls());
  });
  EXPECT_EQ(said, Said(2,
                       "INVALID_ARGUMENT: call 3 of ranks 0 and 1 differs: nothing more met an "
                       "all-reduce of thing 2 (16 bytes)"));
}

// A rank that waits in vain names the call and ends its GPU's work, and so does its peer.
TEST(NcclErrors, APeerThatNeverCallsIsADeadline) {
  NcclRun run;
  run.settings.wait_ms = 500;
  const Said said = RunNccl(run, [&](World* world) -> std::string {
    GroupMembers members(*NewMachine(world, run.settings), 2);
    if (world->process() == 0) {
      Call recv = CallOf(CallKind::kRecv, 64, 7, 1);
      recv.to = members.Memory<char>(64);
      members.Enqueue(0, recv);
      const absl::Status status = members.Run();
      EXPECT_EQ(members.Run(), status);
      EXPECT_GT(standin_nccl_aborted(), 0);
      return StatusText(status);
    }
    for (int i = 0; i < 2000 && world->state().ok(); ++i) usleep(5000);
    return StatusText(world->state());
  });
  EXPECT_EQ(said,
            Said(2,
                 "DEADLINE_EXCEEDED: rank 0 waited 0.5 s for its GPU; rank 0 was in a receive "
                 "of thing 7 (64 bytes) from rank 1"));
}

// A hang in NCCL: the stand-in records its cause, and our error says that no data came.
TEST(NcclErrors, SizesThatDifferAreADeadline) {
  NcclRun run;
  run.settings.wait_ms = 300;
  const Said said = RunNccl(run, [&](World* world) -> std::string {
    GroupMembers members(*NewMachine(world, run.settings), 2);
    const int own = world->process();
    Call call = CallOf(own == 0 ? CallKind::kSend : CallKind::kRecv, 64 - 4 * own, 7, 1 - own);
    call.from = call.to = members.Memory<char>(64);
    members.Enqueue(own, call);
    return std::string(absl::StatusCodeToString(members.Run().code()));
  });
  for (const std::string& one : said) {
    EXPECT_TRUE(one == "DEADLINE_EXCEEDED" || one == "ABORTED") << one;
  }
  EXPECT_TRUE(absl::StrContains(standin_nccl_fault(),
                                "from 0 to 1 is sent with 64 bytes of type 0 and received with 60"))
      << standin_nccl_fault();
}

TEST(NcclErrors, ACommunicatorThatNobodyElseMakesIsADeadline) {
  NcclRun run;
  run.settings.start_ms = 300;
  const Said said = RunNccl(run, [&](World* world) -> std::string {
    if (world->process() == 0) return StatusText(NewMachine(world, run.settings).status());
    (void)world->Exchange("");  // for the unique id; no communicator is made
    for (int i = 0; i < 2000 && world->state().ok(); ++i) usleep(5000);
    return StatusText(world->state());
  });
  const std::string text =
      "ncclCommInitRankConfig of rank 0 was not over within 0.3 s: other ranks do not take part in "
      "it";
  EXPECT_EQ(said, Said(2, "DEADLINE_EXCEEDED: " + text));
}

TEST(NcclErrors, AnErrorOfNcclEndsAll) {
  const Said said = RunNccl({}, [&](World* world) -> std::string {
    GroupMembers members(*NewMachine(world, {}), 2);
    const int own = world->process();
    Call call = CallOf(CallKind::kRecv, 64, 7, 1 - own);  // both wait
    call.to = members.Memory<char>(64);
    members.Enqueue(own, call);
    if (own == 1) standin_nccl_async_error(nccl::kRemoteError);
    const absl::Status status = members.Run();
    EXPECT_GT(standin_nccl_aborted(), 0);
    return StatusText(status);
  });
  EXPECT_TRUE(absl::StartsWith(said[1], "UNAVAILABLE: ")) << said[1];
  EXPECT_TRUE(absl::StrContains(said[1],
                                " of rank 1: remote process exited or there was a network error "
                                "(the stand-in's last error)"))
      << said[1];
  EXPECT_TRUE(absl::StartsWith(said[0], "UNAVAILABLE: ")) << said[0];
  EXPECT_TRUE(
      absl::EndsWith(said[0], "; rank 0 was in a receive of thing 7 (64 bytes) from rank 1"))
      << said[0];
}

// Every call of NCCL fails once: a single status names the call, on both sides, and no process
// hangs.
TEST(NcclErrors, WhicheverCallFailsAllEnd) {
  int failures = 0;
  for (int n = 1;; ++n) {
    NcclRun run;
    run.settings.wait_ms = 20'000;
    run.settings.start_ms = 20'000;
    const Said said = RunNccl(run, [&](World* world) -> std::string {
      const int own = world->process();
      if (own == 1) standin_nccl_fail_call(n, nccl::kSystemError);
      absl::Status status;
      {
        auto machine = NewMachine(world, run.settings);
        status = machine.status();
        if (machine.ok()) {
          Group* const group = machine->groups->New({0, 1});
          status = machine->groups->Connect();
          std::deque<Call> calls;
          const StreamId stream = machine->device->NewStream({}, 16);
          char* const memory = static_cast<char*>(*machine->device->Allocate(1024));
          for (const CallKind kind :
               {CallKind::kSend, CallKind::kAllReduce, CallKind::kBroadcast}) {
            const CallKind mine = kind == CallKind::kSend && own == 1 ? CallKind::kRecv : kind;
            Call& call = calls.emplace_back(CallOf(mine, 64, 0, 1 - own));
            if (kind == CallKind::kBroadcast) call.peer = 0;
            call.from = call.to = memory;
            if (status.ok()) group->Enqueue(own, stream, &call);
          }
          if (status.ok()) status = machine->device->Synchronize();
        } else {
          world->Fail(status);
        }
      }
      const char* const failed = standin_nccl_failed_call();
      EXPECT_EQ(standin_nccl_alive(),
                failed != nullptr && absl::EqualsIgnoreCase(failed, "ncclCommDestroy") ? 1 : 0);
      return absl::StrCat(failed == nullptr ? "" : failed, "|", StatusText(status));
    });
    ASSERT_TRUE(absl::StrContains(said[1], "|")) << n << " " << said[1];
    const std::string call = said[1].substr(0, said[1].find('|'));
    const std::string text = said[1].substr(call.size() + 1);
    if (call.empty()) {
      EXPECT_EQ(said, Said(2, "|OK"));
      break;
    }
    // At the end communicators are destroyed, and errors are ignored.
    if (text == "OK") {
      EXPECT_TRUE(call == "ncclCommFinalize" || call == "ncclCommDestroy" ||
                  call == "ncclCommGetAsyncError")
          << call;
      EXPECT_EQ(said[0], "|OK") << n;
      continue;
    }
    ++failures;
    if (call == "ncclGetVersion") {
      EXPECT_TRUE(absl::StrContains(text, "UNAVAILABLE: NCCL 0.0.0 is too old")) << text;
    } else if (call != "ncclCommGetAsyncError") {  // the query of another call's status
      EXPECT_TRUE(absl::StrContains(text, absl::StrCat(call, " of rank 1: "))) << text;
    }
    EXPECT_FALSE(absl::StrContains(text, "DEADLINE")) << n << text;
    EXPECT_TRUE(absl::StrContains(said[0], "ABORTED: rank 1")) << n << " " << said[0];
  }
  EXPECT_GT(failures, 15);
}

// A lock of the stand-in, in shared memory, remains usable when its owner is killed, at any moment.
TEST(NcclErrors, WhoeverIsKilledTheStandinGoesOn) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    standin_nccl_reset();
    const int64_t killed_after_us = static_cast<int64_t>(2000 + random() % 6000);
    Processes all(3, [&](int p) -> std::string {
      if (p == 0) KillMeAfter(killed_after_us);
      const int64_t until_ns = NowNs() + 15'000'000;
      while (p == 0 || NowNs() < until_ns) {
        for (int i = 0; i < 1000; ++i) (void)standin_nccl_connections();
      }
      return "went on";
    });
    EXPECT_EQ(all.Wait(), (Said{"killed by signal 9", "went on", "went on"})) << "round " << round;
  }
}

// A process is killed at any moment of many steps: the others end soon, and name the rank.
TEST(NcclErrors, WhoeverIsKilledTheOthersEnd) {
  std::mt19937 random(11);
  for (int round = 0; round < 12; ++round) {
    constexpr int kProcesses = 3;
    const int victim = round % kProcesses;
    const int port = FreePort();
    const NcclRun run = {kProcesses, static_cast<unsigned>(round)};
    const int64_t killed_after_us = static_cast<int64_t>(random() % 200'000);
    const int64_t start_ns = NowNs();
    standin_nccl_reset();
    Processes all(kProcesses, [&](int p) -> std::string {
      standin_reset(p);
      const auto world = TcpWorld::Join(WorldSettings(run, p, port));
      if (!world.ok()) return StatusText(world.status());
      if (p == victim) KillMeAfter(killed_after_us);
      auto machine = NewMachine(world->get(), {});
      if (!machine.ok()) return StatusText(machine.status());
      Group* const group = machine->groups->New({0, 1, 2});
      absl::Status status = machine->groups->Connect();
      Call call = CallOf(CallKind::kAllReduce, 4096, 7);
      const StreamId stream = machine->device->NewStream({}, 8);
      if (status.ok()) call.from = call.to = *machine->device->Allocate(4096);
      while (status.ok()) {
        group->Enqueue(p, stream, &call);
        status = machine->device->Synchronize();
      }
      return StatusText(status);
    });
    const Said said = all.Wait();
    EXPECT_LT(NowNs() - start_ns, int64_t{20'000'000'000});
    for (int p = 0; p < kProcesses; ++p) {
      if (p == victim) continue;
      EXPECT_TRUE(absl::StrContains(
          said[p], absl::StrCat("rank ", victim, " here died, or ended without a word")))
          << said[p];
    }
  }
}

class NcclRowsErrors : public testing::TestWithParam<NcclRows> {};

// Members that send 1 and 2 rows to the receivers in their counts; `to_counts` are the rows that
// each expects.
Said RunRows(NcclRows rows, const std::vector<int32_t> (&to_counts)[2], int64_t room) {
  NcclRun run;
  run.settings.rows = rows;
  run.settings.wait_ms = 1000;
  return RunNccl(run, [&](World* world) -> std::string {
    GroupMembers members(*NewMachine(world, run.settings), 2);
    const int m = world->process();
    Call call = CallOf(CallKind::kAllToAllCounted, 4, 1);
    call.from = members.Put(m, std::vector<int32_t>(3, 5));
    call.to = members.Put(m, std::vector<char>(64, -1));
    call.rows = members.Keep(
        {members.Put(m, std::vector<int32_t>{1, 2}), members.Put(m, to_counts[m]), 1, room, 3});
    members.Enqueue(m, call);
    const absl::Status status = members.Run();
    // The other's error is returned by the next wait.
    if (status.ok()) return StatusText(world->Exchange("").status());
    world->Fail(status);
    return StatusText(status);
  });
}

TEST_P(NcclRowsErrors, RowsThatDoNotFitAreAnError) {
  const Said said = RunRows(GetParam(), {{1, 1}, {2, 2}}, 3);
  const std::string text =
      "a counted all-to-all of thing 1 (4 bytes a row): member 1 is sent 4 rows and has room for 3";
  EXPECT_EQ(said[1], "OUT_OF_RANGE: " + text);
  EXPECT_TRUE(absl::StartsWith(said[0], "ABORTED: rank 1 here: " + text)) << said[0];
}

INSTANTIATE_TEST_SUITE_P(Both, NcclRowsErrors,
                         testing::Values(NcclRows::kPadded, NcclRows::kCounted));

TEST(NcclErrors, CountsThatDoNotAgreeAreAnErrorWherePadded) {
  const Said said = RunRows(NcclRows::kPadded, {{1, 2}, {2, 2}}, 9);
  EXPECT_EQ(said[0],
            "INVALID_ARGUMENT: a counted all-to-all of thing 1 (4 bytes a row): member 1 sends 1 "
            "rows to member 0, which expects 2");
}

TEST(NcclLibrary, AMissingOneIsNamed) {
  const auto library = nccl::Library::Open("libnccl-of-nobody.so.2");
  EXPECT_EQ(library.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(library.status().message(), "libnccl-of-nobody.so.2"));
  EXPECT_TRUE(absl::StrContains(nccl::Library::Open("libm.so.6").status().message(),
                                "libm.so.6 has no ncclGetVersion"));
}

TEST(NcclLibrary, AConfigurationIsWhatTheVersionKnows) {
  nccl::Library library = *nccl::Library::Open();
  EXPECT_EQ(library.Version(), "2.28.9");
  EXPECT_EQ(library.NewConfig().size, sizeof(nccl::Config));
  library.version = 22705;
  EXPECT_EQ(library.NewConfig().size, offsetof(nccl::Config, channels_per_net_peer));
  EXPECT_EQ(library.NewConfig().version, 22705u);
  library.version = 21903;
  EXPECT_EQ(library.NewConfig().size, offsetof(nccl::Config, traffic_class));
}

}  // namespace
}  // namespace stringline
