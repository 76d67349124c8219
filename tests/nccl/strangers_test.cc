// Worlds at whose ports strangers knock: they learn nothing, cost little, and delay nobody; a wrong
// secret is named at both honest ends.
#include "tests/nccl/strangers.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <deque>
#include <iostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "executor/cpu/device.h"
#include "executor/processes/gate.h"
#include "executor/processes/newcomers.h"
#include "executor/processes/proof.h"
#include "executor/processes/sockets.h"
#include "executor/processes/tcp_world.h"
#include "executor/processes/wire_connect.h"
#include "executor/processes/wire_connection.h"
#include "executor/processes/wire_poll.h"
#include "executor/processes/wire_waits.h"
#include "gtest/gtest.h"
#include "schedlang/base/clock.h"
#include "tests/nccl/status_text.h"
#include "tools/gpu/processes.h"

namespace stringline {
namespace {

const Secret kRunSecret("the secret of the run itself", "STRINGLINE_SECRET");
const Secret kOtherSecret("another secret of another run", "STRINGLINE_SECRET");

TcpWorldSettings SecretSettings(int process, int processes, int port) {
  TcpWorldSettings settings;
  settings.identity.process = process;
  settings.identity.processes = processes;
  settings.identity.host = "127.0.0.1";
  settings.identity.port = port;
  settings.identity.nonce = "run";
  settings.identity.secret = kRunSecret;
  return settings;
}

// Sends this process's number over the wire to each other process, and receives those of all.
// Returns "sum" and their sum, or an error.
std::string SumOverWires(World* world, const TcpWorldSettings& settings) {
  const auto device = *CpuDevice::Make(1);
  WirePoll set;
  WireWaits waits(device.get(), set.wake());
  std::deque<WireConnection> wires;
  for (int p = 0; p < world->processes(); ++p) wires.emplace_back(p, &waits, &set);
  ProcessNames names(*world);
  const auto others = [&] {
    std::vector<bool> all(static_cast<size_t>(world->processes()), true);
    all[world->process()] = false;
    return all;
  };
  const auto open = [&](int process, int fd) { wires[process].Open(fd); };
  std::vector<int> late;
  const absl::Status status =
      ConnectProcesses(world, {settings.identity.secret, settings.identity.nonce}, settings.join_ms,
                       &names, {others, open}, &late);
  if (!status.ok()) return StatusText(status);
  const int32_t own = world->process();
  for (const WireConnection& wire : wires) {
    if (wire.fd() >= 0 && send(wire.fd(), &own, sizeof(own), MSG_NOSIGNAL) != sizeof(own)) {
      return "a wire takes nothing";
    }
  }
  int sum = own;
  for (const WireConnection& wire : wires) {
    if (wire.process() == own) continue;
    int32_t other = -1;
    pollfd there = {wire.fd(), POLLIN, 0};
    if (poll(&there, 1, 60'000) != 1 ||
        recv(wire.fd(), &other, sizeof(other), 0) != sizeof(other) || other != wire.process()) {
      return absl::StrCat("the wire to ", wire.process(), " is one to ", other);
    }
    sum += other;
  }
  // Nobody closes before all have read.
  const auto all = world->Exchange("");
  return all.ok() ? absl::StrCat("sum ", sum) : StatusText(all.status());
}

// Everything that a process does with others: it joins, exchanges, and sums over wires.
std::string Meet(const TcpWorldSettings& settings) {
  const auto world = TcpWorld::Join(settings);
  if (!world.ok()) return StatusText(world.status());
  const auto all = (*world)->Exchange(absl::StrCat((*world)->process()));
  if (!all.ok()) return StatusText(all.status());
  return SumOverWires(world->get(), settings);
}

void ExpectMeeting(int processes, int64_t most_ms) {
  const int port = FreePort();
  const Strangers strangers(10, port);
  const int64_t begin_ns = NowNs();
  Processes all(processes, [&](int p) {
    if (p > 0) strangers.Await(100);
    return Meet(SecretSettings(p, processes, port));
  });
  const std::vector<std::string> said = all.Wait(most_ms);
  const std::string sum = absl::StrCat("sum ", processes * (processes - 1) / 2);
  for (int p = 0; p < processes; ++p) EXPECT_EQ(said[p], sum) << p;
  std::cout << processes << " processes met in " << (NowNs() - begin_ns) / 1'000'000
            << " ms, beside " << strangers.had() << " connections of strangers\n";
}

TEST(Strangers, KeepNobodyFromMeeting) { ExpectMeeting(12, 120'000); }

TEST(StrangersLong, KeepNobodyOf256FromMeeting) { ExpectMeeting(256, 550'000); }

// The wrong one of the two is another process's, or another program's.
TEST(Strangers, AWrongSecretIsNamedByTheProcessThatComes) {
  std::vector<int> listeners = *ListenOn("127.0.0.1", 0);
  const int port = PortOf(listeners.front());
  std::atomic<bool> ended = false;
  std::thread other([&] {
    Gate gate(std::move(listeners), &kOtherSecret, {kWorldPurpose, 0, 0});
    while (!ended) {
      std::vector<pollfd> polled;
      gate.AddTo(&polled);
      (void)poll(polled.data(), polled.size(), 1);
      EXPECT_TRUE(gate.Admit()->empty());
    }
    EXPECT_GT(gate.refused(), 20);
  });
  const std::string said = Meet(SecretSettings(1, 2, port));
  ended = true;
  other.join();
  EXPECT_EQ(said,
            absl::StrCat("FAILED_PRECONDITION: rank 1 here and the listener at 127.0.0.1:", port,
                         " do not have the same secret: rank 1 has the secret of "
                         "STRINGLINE_SECRET; STRINGLINE_SECRET has to be the same for all "
                         "processes of a run, or another program listens there"));
}

TEST(Strangers, AWrongSecretIsNamedByProcess0) {
  const int port = FreePort();
  Processes all(1, [&](int) {
    TcpWorldSettings settings = SecretSettings(0, 2, port);
    settings.join_ms = 1'000;
    return Meet(settings);
  });
  absl::StatusOr<int> fd = absl::UnavailableError("");
  while (!fd.ok()) fd = ConnectTo("127.0.0.1", port, NowNs() + 1'000'000'000);
  Prover prover(*fd, &kOtherSecret, {kWorldPurpose, 1, 0});
  while (prover.Advance() == Prover::State::kUnderWay) usleep(1000);
  EXPECT_EQ(
      all.Wait()[0],
      "DEADLINE_EXCEEDED: process 1 of 2 did not come to process 0 here within 1 s; 1 connection "
      "did not prove the secret of STRINGLINE_SECRET, which has to be the same for all "
      "processes of a run");
}

// The others come when it has given up, and meet all the same.
TEST(Strangers, AProcessWithoutTheSecretIsAlone) {
  const int port = FreePort();
  int gave_up[2];
  ASSERT_EQ(pipe2(gave_up, O_CLOEXEC), 0);
  Processes all(4, [&](int p) {
    TcpWorldSettings settings = SecretSettings(p == 3 ? 2 : p, 3, port);
    char byte = 0;
    if (p == 0) return Meet(settings);
    if (p < 3) return read(gave_up[0], &byte, 1) == 1 ? Meet(settings) : "nobody said when";
    settings.identity.secret = Secret();
    const std::string said = Meet(settings);
    return write(gave_up[1], "..", 2) == 2 ? said : "it cannot say when";
  });
  const auto said = all.Wait();
  for (int p = 0; p < 3; ++p) EXPECT_EQ(said[p], "sum 3") << p;
  EXPECT_TRUE(absl::StrContains(said[3], "rank 2 has no secret (STRINGLINE_SECRET)")) << said[3];
  for (const int end : gave_up) (void)close(end);
}

TEST(Strangers, NoSecretNoOtherHost) {
  for (int p = 0; p < 2; ++p) {
    TcpWorldSettings settings = SecretSettings(p, 2, 29500);
    settings.identity.host = "gpu1.invalid";
    settings.identity.secret = Secret();
    const absl::Status status = TcpWorld::Join(settings).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    EXPECT_TRUE(absl::StrContains(status.message(), "the run has no secret")) << status;
  }
}

int64_t PeakKib() {
  rusage usage = {};
  (void)getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// 600 connections, each with a megabyte of a frame that never ends, to process 0, which waits for
// process 1.
TEST(Strangers, CostLittleMemory) {
  const int port = FreePort();
  int ready[2];
  ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
  Processes all(2, [&](int p) {
    char byte = 0;
    if (p == 1 && read(ready[0], &byte, 1) != 1) return std::string("nobody said when");
    const int64_t before = PeakKib();
    const std::string said = Meet(SecretSettings(p, 2, port));
    return absl::StrCat(said, " ", (PeakKib() - before) / 1024, " MiB");
  });
  const std::string begin("SLW1\1\0\0\0\0\0\x10\0\0\0\0\0", 16);  // frames.h
  const std::string bytes(1 << 20, 'x');
  std::vector<int> open;
  for (int i = 0; i < 600; ++i) {
    const auto fd = ConnectTo("127.0.0.1", port, NowNs() + 1'000'000'000);
    if (!fd.ok()) {
      usleep(10'000);
      --i;
      continue;
    }
    open.push_back(*fd);
    (void)!send(*fd, begin.data(), begin.size(), MSG_NOSIGNAL);
    for (size_t sent = 0; sent + 1 < bytes.size();) {
      const ssize_t took = send(*fd, bytes.data() + sent, bytes.size() - 1 - sent, MSG_NOSIGNAL);
      if (took < 0 && errno != EAGAIN) break;  // closed, as it should be
      sent += static_cast<size_t>(std::max<ssize_t>(took, 0));
    }
  }
  ASSERT_EQ(write(ready[1], "", 1), 1);
  const auto said = all.Wait();
  for (const int fd : open) (void)close(fd);
  int mib = -1;
  ASSERT_EQ(std::sscanf(said[0].c_str(), "sum 1 %d MiB", &mib), 1) << said[0];
  EXPECT_LT(mib, 16);
  std::cout << "600 strangers cost process 0 " << mib << " MiB\n";
  (void)close(ready[0]);
  (void)close(ready[1]);
}

// The address on which a socket listens.
std::string ListensAt(const std::string& host) {
  const auto listeners = ListenOn(host, 0);
  if (!listeners.ok()) return listeners.status().ToString();
  std::string at = LocalAddressOf(listeners->front());
  for (const int fd : *listeners) (void)close(fd);
  return at;
}

TEST(Strangers, PortsListenOnTheInterfaceOfTheRun) {
  EXPECT_EQ(ListensAt("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(ListensAt("127.0.0.2"), "127.0.0.2");
  // The address of this machine by which it reaches another, if it has one; nothing is sent.
  const int probe = socket(AF_INET, SOCK_DGRAM, 0);
  sockaddr_in other = {};
  other.sin_family = AF_INET;
  other.sin_port = htons(9);
  other.sin_addr.s_addr = htonl(0xCB00714D);  // 203.0.113.77, of documents (RFC 5737)
  if (connect(probe, reinterpret_cast<sockaddr*>(&other), sizeof(other)) == 0) {
    const std::string own = LocalAddressOf(probe);
    EXPECT_EQ(ListensAt(own), own);
  }
  (void)close(probe);
  // An address of another machine may be forwarded to this one.
  const std::string forwarded = ListensAt("203.0.113.77");
  EXPECT_TRUE(forwarded == "::" || forwarded == "0.0.0.0") << forwarded;
}

}  // namespace
}  // namespace stringline
