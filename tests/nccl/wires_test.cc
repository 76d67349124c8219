// Wires between processes: which connections there are, what is looked at for deadlines, and how a
// failure reaches processes that are not connected to the one that failed.
#include "executor/processes/wires.h"

#include <dirent.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "executor/processes/group.h"
#include "executor/processes/pooled_queues.h"
#include "executor/processes/sockets.h"
#include "executor/processes/tcp_world.h"
#include "executor/processes/wire_lanes.h"
#include "executor/processes/wire_peers.h"
#include "gtest/gtest.h"
#include "schedlang/base/clock.h"
#include "tests/counted_new.h"
#include "tests/executor/group_contract.h"
#include "tests/nccl/status_text.h"
#include "tests/nccl/world_processes.h"
#include "tools/gpu/processes.h"

namespace stringline {

bool IsCounted() { return true; }

namespace {

using Said = std::vector<std::string>;

int OpenSockets() {
  int sockets = 0;
  DIR* const files = opendir("/proc/self/fd");
  while (const dirent* const file = readdir(files)) {
    char link[64] = {};
    const std::string path = absl::StrCat("/proc/self/fd/", file->d_name);
    const ssize_t size = readlink(path.c_str(), link, sizeof(link) - 1);
    if (size > 0 && absl::StartsWith(link, "socket:")) ++sockets;
  }
  (void)closedir(files);
  return sockets;
}

// Neighbours in a chain of `count` members.
std::vector<MemberPair> Chain(int count) {
  std::vector<MemberPair> talks;
  for (int m = 0; m + 1 < count; ++m) talks.insert(talks.end(), {{m, m + 1}, {m + 1, m}});
  return talks;
}

// Four stages, twice, a process for each: the groups of messages and those of gradients.
TEST(Wires, AProcessIsConnectedToItsPeersOnly) {
  constexpr int kStages = 4, kProcesses = 2 * kStages;
  const Said said = RunInProcesses(kProcesses, 0, [&](World* world) {
    const auto device = *CpuDevice::Make(1);
    ProcessGroups groups(device.get(), world, {});
    for (int copy = 0; copy < 2; ++copy) {
      std::vector<int> ranks(kStages);
      std::iota(ranks.begin(), ranks.end(), copy * kStages);
      groups.New(ranks, Chain(kStages));
    }
    for (int stage = 0; stage < kStages; ++stage) groups.New({stage, kStages + stage});
    const int before = OpenSockets();
    absl::Status status = groups.Connect();
    const int opened = OpenSockets() - before;
    // A process that ends closes the others' connections to it.
    if (status.ok()) status = world->Exchange("").status();
    return status.ok() ? absl::StrCat(opened) : StatusText(status);
  });
  for (int p = 0; p < kProcesses; ++p) {
    std::set<int> peers = {0, 1, 2, (p + kStages) % kProcesses};
    if (p % kStages > 0) peers.insert(p - 1);
    if (p % kStages < kStages - 1) peers.insert(p + 1);
    peers.erase(p);
    EXPECT_EQ(said[p], absl::StrCat(p < 3 ? kProcesses - 1 : peers.size())) << p;
  }
}

// Process 1 needs connections to two others and may open no file more; all are told.
TEST(Wires, TooFewOpenFilesAreTold) {
  const Said said = RunInProcesses(3, 0, [&](World* world) {
    const auto device = *CpuDevice::Make(1);
    ProcessGroups groups(device.get(), world, {});
    groups.New({0, 1, 2});
    if (world->process() == 1) {
      const rlimit few = {24, 24};
      (void)setrlimit(RLIMIT_NOFILE, &few);
    }
    return StatusText(groups.Connect());
  });
  EXPECT_TRUE(absl::StartsWith(said[1], "RESOURCE_EXHAUSTED: a process may open 24 files here"))
      << said[1];
  EXPECT_TRUE(absl::StrContains(said[1], " are needed: 2 for connections to processes with which"))
      << said[1];
  for (const int p : {0, 2}) {
    EXPECT_EQ(said[p], absl::StrCat("ABORTED: rank 1 here: ", said[1].substr(20)));
  }
}

// Groups that are made later, with messages over old and new connections.
TEST(Wires, LaterGroupsAreConnectedToo) {
  constexpr int kProcesses = 6;
  const Said said = RunInProcesses(kProcesses, 0, [&](World* world) -> std::string {
    const auto device = *CpuDevice::Make(1);
    ProcessGroups groups(device.get(), world, {});
    const std::vector<MemberPair> talks = {{0, 1}, {1, 0}};
    Group* const first = groups.New({3, 4}, talks);
    if (const absl::Status status = groups.Connect(); !status.ok()) return StatusText(status);
    const int before = OpenSockets();
    Group* const second = groups.New({5, 3}, talks);
    if (const absl::Status status = groups.Connect(); !status.ok()) return StatusText(status);
    const int more = OpenSockets() - before;
    std::deque<float> values;
    std::deque<Call> calls;
    const auto talk = [&](Group* group, int member) {
      Call& call = calls.emplace_back(
          CallOf(member == 0 ? CallKind::kSend : CallKind::kRecv, 4, 1, 1 - member));
      values.push_back(static_cast<float>(10 * (group == second) + 1 + member));
      call.from = call.to = &values.back();
      group->Enqueue(member, device->NewStream({}, 4), &call);
    };
    const int own = world->process();
    if (own == 3 || own == 4) talk(first, own - 3);
    if (own == 5 || own == 3) talk(second, own == 5 ? 0 : 1);
    const absl::Status status = device->Synchronize();
    if (!status.ok()) return StatusText(status);
    (void)world->Exchange("");
    return absl::StrCat(more, ":", absl::StrJoin(values, ","));
  });
  EXPECT_EQ(said, Said({"0:", "0:", "0:", "1:1,11", "0:1", "1:11"}));
}

// Each process waits for the next one of a chain, and calls `before` first.
Said WaitInAChain(int processes, const std::function<void(int process)>& before) {
  return RunInProcesses(processes, 0, [&](World* world) -> std::string {
    const auto device = *CpuDevice::Make(1);
    ProcessGroups groups(device.get(), world, {});
    std::vector<int> ranks(processes);
    std::iota(ranks.begin(), ranks.end(), 0);
    Group* const group = groups.New(ranks, Chain(processes));
    if (const absl::Status status = groups.Connect(); !status.ok()) return StatusText(status);
    const int own = world->process();
    float value = 0;
    Call call = CallOf(CallKind::kRecv, 4, 7, own == processes - 1 ? own - 1 : own + 1);
    call.to = &value;
    before(own);
    group->Enqueue(own, device->NewStream({}, 4), &call);
    return StatusText(device->Synchronize());
  });
}

TEST(Wires, ADeathIsSaidAlikeByThoseWhoAreNoPeersOfTheDead) {
  constexpr int kProcesses = 8, kDead = 6;
  const Said said = WaitInAChain(kProcesses, [](int process) {
    if (process == kDead) KillMeAfter(0);
  });
  EXPECT_EQ(said[kDead], "killed by signal 9");
  for (int p = 0; p < kProcesses; ++p) {
    if (p == kDead) continue;
    EXPECT_TRUE(
        absl::StartsWith(said[p], "UNAVAILABLE: rank 6 here died, or ended without a word: "))
        << said[p];
    EXPECT_EQ(said[p], said[0]);
  }
}

// Nobody is left who is connected to all.
TEST(Wires, WhenAllWhoDecideDieTheOthersEndAllTheSame) {
  constexpr int kProcesses = 8;
  const Said said = WaitInAChain(kProcesses, [](int process) {
    if (process < kMostDeciders) KillMeAfter(0);
  });
  for (int p = 0; p < kProcesses; ++p) {
    if (p < kMostDeciders) {
      EXPECT_EQ(said[p], "killed by signal 9");
    } else {
      EXPECT_TRUE(absl::StartsWith(said[p], "UNAVAILABLE: rank ")) << said[p];
      EXPECT_TRUE(absl::StrContains(said[p], " here died, or ended without a word: ")) << said[p];
    }
  }
}

// Messages both ways and sums, of the size of a step's: their frames, lanes and waits have memory
// of the first step.
TEST(Wires, AStepAllocatesNothing) {
  const Said said = RunInProcesses(2, 0, [&](World* world) -> std::string {
    const auto device = *CpuDevice::Make(1);
    ProcessGroups groups(device.get(), world, {});
    Group* const group = groups.New({0, 1});
    if (const absl::Status status = groups.Connect(); !status.ok()) return StatusText(status);
    const int own = world->process();
    std::vector<float> values(2 * 30);
    std::vector<Call> calls;
    for (int i = 0; i < 30; ++i) {
      const CallKind kind = i % 3 == 2         ? CallKind::kAllReduce
                            : i % 3 - own == 0 ? CallKind::kSend
                                               : CallKind::kRecv;
      calls.push_back(CallOf(kind, 8, i, kind == CallKind::kAllReduce ? -1 : 1 - own));
      calls.back().from = calls.back().to = &values[2 * i];
    }
    const StreamId stream = device->NewStream({}, 100);
    std::string counts;
    for (int step = 0; step < 4; ++step) {
      const int64_t before = allocations;
      for (const Call& call : calls) group->Enqueue(own, stream, &call);
      const absl::Status status = device->Synchronize();
      if (!status.ok()) return StatusText(status);
      const int64_t more = allocations - before;
      if (step > 0) absl::StrAppend(&counts, more, " ");
      (void)world->Exchange("");
    }
    return counts;
  });
  EXPECT_EQ(said, Said(2, "0 0 0 "));
}

// The names of a run in this process alone.
class NamesOnly final : public World {
 public:
  NamesOnly(int processes, int own) : processes_(processes), local_({own}) {}
  int ranks() const override { return processes_; }
  absl::Span<const int> local() const override { return local_; }
  int processes() const override { return processes_; }
  int process() const override { return local_[0]; }
  absl::StatusOr<std::vector<std::string>> Exchange(absl::string_view) override {
    return absl::UnimplementedError("");
  }
  void Fail(const absl::Status&) override {}

 private:
  const int processes_;
  const std::vector<int> local_;
};

ProcessNames NamesOf(const std::vector<std::string>& hosts, int own) {
  ProcessNames names(NamesOnly(static_cast<int>(hosts.size()), own));
  for (int p = 0; p < static_cast<int>(hosts.size()); ++p) names.Add(p, hosts[p], {p});
  return names;
}

TEST(Wires, DecidersAreOfSeveralHosts) {
  using Deciders = std::vector<int>;
  EXPECT_EQ(DecidersOf(NamesOf({"a", "a", "a", "a"}, 0)), Deciders({0, 1, 2}));
  EXPECT_EQ(DecidersOf(NamesOf({"a", "a", "a", "b"}, 3)), Deciders({0, 3, 1}));
  EXPECT_EQ(DecidersOf(NamesOf({"a", "b", "a", "c", "d"}, 1)), Deciders({0, 1, 3}));
  EXPECT_EQ(DecidersOf(NamesOf({"a", "a"}, 0)), Deciders({0, 1}));
}

// Lanes of process 0 of many, one rank each, that are connected to nothing.
struct LanesOnly {
  explicit LanesOnly(int processes)
      : device(*CpuDevice::Make(1)),
        waits(device.get(), set.wake()),
        names(NamesOf(std::vector<std::string>(processes, "a"), 0)),
        ranks(processes) {
    for (int p = 0; p < processes; ++p) {
      connections.emplace_back(p, &waits, &set);
      connections.back().Open(socket(AF_INET, SOCK_STREAM, 0));
    }
    std::iota(ranks.begin(), ranks.end(), 0);
  }
  int64_t LookedAt(const std::function<void()>& work) const {
    const int64_t before = lanes.looked();
    work();
    return lanes.looked() - before;
  }

  std::unique_ptr<CpuDevice> device;
  WirePoll set;
  WireWaits waits;
  ProcessNames names;
  std::deque<WireConnection> connections;
  WireLanes lanes{&names, &connections, &waits};
  std::vector<int> ranks;
};

// A look at deadlines costs one end, and a list of what waits as much as waits, whatever the
// numbers of processes, groups and lanes.
TEST(WireLanes, WorkIsLinearInWhatWaits) {
  for (const int processes : {8, 64, 256}) {
    LanesOnly all(processes);
    for (int g = 0; g < 20; ++g) (void)all.lanes.NewGroup(all.ranks);
    const Call call = CallOf(CallKind::kRecv, 4, 7, 1);
    EXPECT_FALSE(all.lanes.Oldest().has_value());
    int waiting = 0;
    for (const int from : {5, 3, 3, 7}) {
      const Transfer receive = {.from = from, .to = 0, .bytes = 4, .call = &call};
      EXPECT_TRUE(all.lanes.PostReceive(from, receive, -1).ok());
      ++waiting;
      EXPECT_EQ(all.LookedAt([&] { EXPECT_EQ(all.lanes.Oldest()->peer, 5); }), 1);
      std::vector<int> peers;
      EXPECT_EQ(all.LookedAt([&] {
        all.lanes.ForWaitingEnds([&](const auto& end) { peers.push_back(end.peer); });
      }),
                waiting);
      // The first end of a lane waits for all others.
      const std::vector<int> order = {5, 3, 7};
      EXPECT_EQ(peers, std::vector<int>(order.begin(), order.begin() + std::min(waiting, 2) +
                                                           (waiting == 4 ? 1 : 0)));
    }
  }
}

TEST(WireLanes, FramesOfOtherProcessesAreRefused) {
  LanesOnly all(4);
  const int group = all.lanes.NewGroup({0, 2});
  (void)all.lanes.NewGroup({1, 2});
  const Call call = CallOf(CallKind::kRecv, 4, 7, 1);
  int32_t value = 0;
  EXPECT_TRUE(
      all.lanes
          .PostReceive(group, {.from = 1, .to = 0, .target = &value, .bytes = 4, .call = &call}, -1)
          .ok());
  void* target = nullptr;
  WireHeader header;
  header.kind = WireFrame::kData;
  header.group = group;
  header.from = 1;
  header.length = 4;
  EXPECT_TRUE(all.lanes.MayCome(2, header, &target));
  EXPECT_EQ(target, &value);
  EXPECT_FALSE(all.lanes.MayCome(1, header, &target));  // of a process that is not in the group
  header.kind = WireFrame::kReady;
  header.length = 0;
  EXPECT_FALSE(all.lanes.MayCome(2, header, &target));  // for a sender elsewhere
  std::swap(header.from, header.to);
  EXPECT_TRUE(all.lanes.MayCome(2, header, &target));
  header.group = 1;
  EXPECT_FALSE(all.lanes.MayCome(2, header, &target));  // of a group without this process
}

// A thousand processes of a host would probe their idle connections at the same moments.
TEST(Sockets, ConnectionsWithinAHostAreNotProbedAndMayBeBounded) {
  const std::vector<int> listeners = *ListenOn("127.0.0.1", 0);
  const int one = *ConnectTo("127.0.0.1", PortOf(listeners[0]), NowNs() + 10'000'000'000);
  int other = -1;
  while (other < 0) other = AcceptFrom(listeners[0]);
  for (const int fd : {one, other}) {
    int probed = -1;
    socklen_t size = sizeof(probed);
    EXPECT_EQ(getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &probed, &size), 0);
    EXPECT_EQ(probed, 0);
    BoundBuffers(fd);
    for (const int buffer : {SO_SNDBUF, SO_RCVBUF}) {
      int bytes = -1;
      EXPECT_EQ(getsockopt(fd, SOL_SOCKET, buffer, &bytes, &size), 0);
      EXPECT_LE(bytes, 1 << 19);  // the system doubles what is set
    }
    (void)close(fd);
  }
  (void)close(listeners[0]);
}

// Frames that the socket does not take wait in order, and are written when it takes them.
TEST(WireConnection, WhatIsNotTakenWaitsInOrder) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937 random(seed);
  class Reader final : public WireReader {
   public:
    bool reads() const override { return true; }
    bool BeginFrame(WireConnection* from) override {
      from->SetText();
      return true;
    }
    void EndFrame(WireConnection* from) override {
      got.push_back(absl::StrCat(from->header().index, " ", from->text()));
    }
    std::vector<std::string> got;
  };
  LanesOnly all(1);
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  ASSERT_TRUE(all.set.Open().ok());
  WireConnection writes(0, &all.waits, &all.set), reads(1, &all.waits, &all.set);
  writes.Open(ends[0]);
  reads.Open(ends[1]);
  Reader reader;
  std::vector<std::string> put;
  for (int i = 0; i < 3000; ++i) {
    Outgoing frame;
    frame.header.index = i;
    frame.text = std::string(random() % 2000, static_cast<char>('a' + i % 26));
    put.push_back(absl::StrCat(i, " ", frame.text));
    writes.Put(std::move(frame));
    if (random() % 200 != 0) continue;
    // As the reading thread would.
    for (const auto [process, events] : all.set.Wait(0)) {
      if (process == 0 && (events & EPOLLOUT) != 0) writes.Write();
      if (process == 1) {
        EXPECT_EQ(reads.Read(&reader), "");
      }
    }
  }
  EXPECT_TRUE(writes.unsent());
  while (writes.unsent()) {
    EXPECT_EQ(reads.Read(&reader), "");
    writes.Write();
  }
  EXPECT_EQ(reads.Read(&reader), "");
  EXPECT_EQ(reader.got, put);
}

TEST(PooledQueues, AreQueues) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937 random(seed);
  PooledQueues<int> pool;
  std::vector<PooledQueues<int>::Queue> queues(5);
  std::vector<std::deque<int>> oracle(queues.size());
  for (int i = 0; i < 2000; ++i) {
    const size_t of = random() % queues.size();
    if (random() % 2 == 0) {
      EXPECT_EQ(pool.at(pool.Push(&queues[of], i)), i);
      oracle[of].push_back(i);
    } else if (!oracle[of].empty()) {
      EXPECT_EQ(pool.Front(queues[of]), oracle[of].front());
      EXPECT_EQ(pool.Pop(&queues[of]), oracle[of].front());
      oracle[of].pop_front();
    }
    EXPECT_EQ(queues[of].empty(), oracle[of].empty());
  }
}

}  // namespace
}  // namespace stringline
