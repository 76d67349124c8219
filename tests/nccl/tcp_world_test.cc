// Worlds of real processes over the loopback: their exchanges, and the reports if a process is a
// stranger, late or dead. No process may hang: every process has to end by itself.
#include "executor/processes/tcp_world.h"

#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "executor/engine/lost_process.h"
#include "executor/processes/hello.h"
#include "executor/processes/open_files.h"
#include "executor/processes/sockets.h"
#include "gtest/gtest.h"
#include "schedlang/base/clock.h"
#include "tests/nccl/status_text.h"
#include "tests/nccl/world_processes.h"
#include "tools/gpu/processes.h"

namespace stringline {
namespace {

const Change kNoChange = [](int, TcpWorldSettings*) {};
const Then kNothing = [](World*) { return std::string("joined"); };

TEST(TcpWorld, AProcessAloneNeedsNobody) {
  TcpWorldSettings settings;
  const auto world = TcpWorld::Join(settings);
  ASSERT_TRUE(world.ok()) << world.status();
  EXPECT_EQ((*world)->processes(), 1);
  EXPECT_EQ((*world)->local(), absl::MakeConstSpan({0}));
  EXPECT_EQ((*world)->Exchange("mine")->at(0), "mine");
  EXPECT_TRUE((*world)->state().ok());
}

TEST(TcpWorld, EverybodyGetsWhatEverybodyGave) {
  for (const int n : {2, 3, 8}) {
    const auto said = RunAll(n, kNoChange, [n](World* world) -> std::string {
      if (world->processes() != n || world->ranks() != n) return "another number";
      if (world->local() != absl::MakeConstSpan({world->process()})) return "other ranks";
      for (int round = 0; round < 200; ++round) {
        const auto give = [round](int p) { return std::string((round * 7 + p) % 40, 'a' + p); };
        const auto all = world->Exchange(give(world->process()));
        if (!all.ok()) return StatusText(all.status());
        for (int p = 0; p < n; ++p) {
          if ((*all)[p] != give(p)) return absl::StrCat("round ", round, " of ", p);
        }
      }
      return "good";
    });
    EXPECT_EQ(said, std::vector<std::string>(n, "good"));
  }
}

TEST(TcpWorld, LargeThingsGoThrough) {
  const auto said =
      RunAll(3, kNoChange, [](World* world) { return ExchangeTexts(world, 10'000'000); });
  EXPECT_EQ(said, std::vector<std::string>(3, "good"));
}

// GiveToFirst: the others learn when process 0 has the texts, and can exchange before and after.
TEST(TcpWorld, WhatIsForTheFirstOnlyItGets) {
  const auto said = RunAll(
      3, [](int, TcpWorldSettings*) {},
      [](World* world) -> std::string {
        std::string all;
        for (int round = 0; round < 3; ++round) {
          const std::string mine(size_t{1} << (4 + 8 * round),
                                 static_cast<char>('a' + world->process()));
          const auto given = round == 1 ? world->Exchange(mine) : world->GiveToFirst(mine);
          if (!given.ok()) return StatusText(given.status());
          for (const std::string& one : *given) {
            absl::StrAppend(&all, one.size(), one.substr(0, 1), " ");
          }
        }
        return all;
      });
  EXPECT_EQ(said[0], "16a 16b 16c 4096a 4096b 4096c 1048576a 1048576b 1048576c ");
  EXPECT_EQ(said[1], "0 0 0 4096a 4096b 4096c 0 0 0 ");
  EXPECT_EQ(said[2], said[1]);
}

// Sums modulo 2^64, between exchanges; without numbers a meeting.
TEST(TcpWorld, SumsAreThoseOfAll) {
  for (const int n : {1, 2, 5}) {
    const auto said = RunAll(n, kNoChange, [n](World* world) -> std::string {
      for (uint64_t round = 0; round < 50; ++round) {
        std::vector<uint64_t> numbers(round);
        const auto give = [](uint64_t p, uint64_t i) { return (p + 1) << (4 * i % 64); };
        for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = give(world->process(), i);
        const absl::Status status = world->Sum(absl::MakeSpan(numbers));
        if (!status.ok()) return StatusText(status);
        for (size_t i = 0; i < numbers.size(); ++i) {
          uint64_t expected = 0;
          for (int p = 0; p < n; ++p) expected += give(p, i);
          if (numbers[i] != expected) return absl::StrCat("round ", round, ", number ", i);
        }
        if (round % 10 == 0 && !world->Exchange("").ok()) return "no exchange";
      }
      return "good";
    });
    EXPECT_EQ(said, std::vector<std::string>(n, "good"));
  }
}

// Numbers of another count are an error everywhere, and no sum.
TEST(TcpWorld, SumsOfOtherSizesAreRefused) {
  const auto said = RunAll(3, kNoChange, [](World* world) {
    std::vector<uint64_t> numbers(world->process() == 2 ? 3 : 2);
    return StatusText(world->Sum(absl::MakeSpan(numbers)));
  });
  EXPECT_EQ(said, std::vector<std::string>(3, "INTERNAL: what all gave cannot be read"));
}

// In the middle of a sum: dead, late and gone processes are named as in an exchange.
TEST(TcpWorld, WhoFailsInASumIsNamed) {
  const auto sum = [](World* world) {
    uint64_t one = 1;
    return StatusText(world->Sum(absl::MakeSpan(&one, 1)));
  };
  const auto killed = RunAll(4, kNoChange, [&](World* world) {
    if (world->process() == 2) {
      (void)sum(world);
      KillMeAfter(0);
    }
    const std::string first = sum(world);
    return first == "OK" ? sum(world) : first;
  });
  for (const int p : {0, 1, 3}) {
    EXPECT_TRUE(absl::StartsWith(killed[p], "UNAVAILABLE: rank 2 here died, or ended"))
        << killed[p];
  }
  const auto late = RunAll(
      3, [](int, TcpWorldSettings* settings) { settings->exchange_ms = 400; },
      [&](World* world) {
        if (world->process() == 1) SleepMs(4000);
        return sum(world);
      });
  for (const std::string& text : late) {
    EXPECT_EQ(text, "DEADLINE_EXCEEDED: rank 1 here did not come within 0.4 s");
  }
  const auto left = RunAll(3, kNoChange, [&](World* world) {
    return world->process() == 1 ? std::string("OK") : sum(world);
  });
  EXPECT_EQ(left[0], "UNAVAILABLE: rank 1 here has ended its run, and the others go on");
  EXPECT_EQ(left[2], left[0]);
}

// A soft limit is raised; where the hard limit is too low, all are told how many are needed.
TEST(TcpWorld, TooFewOpenFilesAreTold) {
  const int port = FreePort();
  Processes all(2, [&](int p) {
    if (p == 0) {
      const rlimit few = {24, 24};
      (void)setrlimit(RLIMIT_NOFILE, &few);
    }
    return StatusText(TcpWorld::Join(SettingsOf(p, 2, port)).status());
  });
  const auto said = all.Wait();
  EXPECT_TRUE(
      absl::StartsWith(said[0], "RESOURCE_EXHAUSTED: a process may open 24 files here, and "))
      << said[0];
  EXPECT_TRUE(absl::StrContains(said[0],
                                " are needed: 2 for connections to the processes of a run "
                                "of 2; a higher limit (ulimit -Hn"))
      << said[0];
  EXPECT_EQ(said[1], absl::StrCat("ABORTED: process 0 here: ", said[0].substr(20)));

  Processes raised(1, [&](int) -> std::string {
    rlimit limit = {};
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    const rlim_t most = limit.rlim_max;
    limit.rlim_cur = 16;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    const absl::Status status = RaiseOpenFiles(100, "a test");
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur == most ? StatusText(status) : "not raised";
  });
  EXPECT_EQ(raised.Wait()[0], "OK");
}

TEST(TcpWorld, ProcessesMayComeInAnyOrder) {
  for (const int late : {0, 1}) {
    const auto said = RunAll(
        3,
        [late](int p, TcpWorldSettings*) {
          if (p == late) SleepMs(300);
        },
        ExchangeOnce);
    EXPECT_EQ(said, std::vector<std::string>(3, "from 0, from 1, from 2"));
  }
}

TEST(TcpWorld, Ipv6) {
  const int probe = socket(AF_INET6, SOCK_STREAM, 0);
  sockaddr_in6 address = {};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  const bool there =
      probe >= 0 && bind(probe, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  if (probe >= 0) (void)close(probe);
  if (!there) GTEST_SKIP() << "this machine has no IPv6";
  const auto said = RunAll(
      2, [](int, TcpWorldSettings* settings) { settings->identity.host = "::1"; }, ExchangeOnce);
  EXPECT_EQ(said, std::vector<std::string>(2, "from 0, from 1"));
}

TEST(TcpWorld, ANameOfThisHostDoesToo) {
  const auto said = RunAll(
      2, [](int, TcpWorldSettings* settings) { settings->identity.host = "localhost"; },
      ExchangeOnce);
  EXPECT_EQ(said, std::vector<std::string>(2, "from 0, from 1"));
}

// "127.1" is no address of the loopback to ListenOn, but a name that means the loopback here.
TEST(TcpWorld, ANameThatMeansTheLoopbackHereIsListenedToEverywhere) {
  const auto reached = [](const std::string& listens) {
    const int listener = ListenOn(listens, 0)->front();
    const auto fd = ConnectTo("127.0.0.2", PortOf(listener), NowNs() + 5'000'000'000);
    if (fd.ok()) (void)close(*fd);
    (void)close(listener);
    return fd.ok();
  };
  EXPECT_TRUE(reached("127.1"));
  EXPECT_TRUE(reached(HostName())) << HostName();
  EXPECT_FALSE(reached("127.0.0.1"));
  EXPECT_FALSE(reached("localhost"));
}

TEST(TcpWorld, ANameWithoutAnAddressIsSaid) {
  const auto said = RunAll(
      2,
      [](int, TcpWorldSettings* settings) {
        settings->identity.host = "no-such-host.invalid";
        settings->join_ms = 200;
      },
      kNothing);
  for (const std::string& one : said) {
    EXPECT_TRUE(absl::StrContains(one, "\"no-such-host.invalid\" has no address here: ")) << one;
    EXPECT_TRUE(absl::StrContains(one, "MASTER_ADDR, may name process 0 by a number")) << one;
  }
}

// The loopback is the address of each process if all come over it, whatever process 0's name is.
TEST(TcpWorld, OnTheHostOfProcess0TheAddressIsThatHosts) {
  const auto said = RunAll(
      2, [](int, TcpWorldSettings* settings) { settings->identity.host = "127.1"; },
      [](World* world) { return world->address(); });
  EXPECT_EQ(said, std::vector<std::string>(2, "127.0.0.1"));
}

// The stranger is sent away; the run goes on without it, and still waits for its own processes.
TEST(TcpWorld, AProcessOfAnotherRunIsSentAway) {
  const int port = FreePort();
  Processes all(3, [&](int p) {
    TcpWorldSettings settings = SettingsOf(p == 2 ? 1 : p, 2, port);
    if (p == 2) settings.identity.nonce = "run 7#1";
    if (p == 1) SleepMs(300);
    const auto world = TcpWorld::Join(settings);
    return world.ok() ? ExchangeOnce(world->get()) : StatusText(world.status());
  });
  const auto said = all.Wait();
  EXPECT_EQ(said[0], "from 0, from 1");
  EXPECT_EQ(said[1], "from 0, from 1");
  EXPECT_EQ(said[2],
            "FAILED_PRECONDITION: process 0 here belongs to the run \"run 7#0\", and not to \"run "
            "7#1\": another run listens on this port, or one that has ended");
}

TEST(TcpWorld, SettingsThatDifferAreNamedEverywhere) {
  const auto said = RunAll(
      3,
      [](int p, TcpWorldSettings* settings) {
        if (p != 1) return;
        settings->config = {{"NCCL", "2.27.3"}, {"seed", "4"}, {"steps", "10"}};
      },
      kNothing);
  EXPECT_EQ(said,
            std::vector<std::string>(
                3,
                "INVALID_ARGUMENT: process 1 here and process 0 here do not run the same: they "
                "differ in NCCL (\"2.27.3\" and \"2.28.9\"), seed (\"4\" and not set)"));
}

TEST(TcpWorld, OfManySettingsSomeAreNamed) {
  const auto said = RunAll(
      2,
      [](int p, TcpWorldSettings* settings) {
        settings->config.clear();
        for (int k = 0; k < 9; ++k) {
          settings->config.emplace_back(absl::StrCat("k", k), absl::StrCat(p));
        }
      },
      kNothing);
  EXPECT_EQ(
      said[1],
      "INVALID_ARGUMENT: process 1 here and process 0 here do not run the same: they differ in k0 "
      "(\"1\" and \"0\"), k1 (\"1\" and \"0\"), k2 (\"1\" and \"0\") and 6 more");
}

TEST(TcpWorld, OtherNumbersOfProcessesAreNamed) {
  const auto said = RunAll(
      2,
      [](int p, TcpWorldSettings* settings) {
        if (p == 1) settings->identity.processes = 4;
      },
      kNothing);
  EXPECT_EQ(said,
            std::vector<std::string>(
                2, "INVALID_ARGUMENT: process 1 here is one of 4, but process 0 here is one of 2"));
}

// Among P processes the last is number P - 1.
TEST(TcpWorld, ProcessesAreNumberedBelowTheirCount) {
  Hello first, other;
  first.processes = other.processes = 3;
  first.host = other.host = "here";
  for (const int process : {1, 2}) {
    other.process = process;
    EXPECT_TRUE(CheckPlace(first, other).ok()) << CheckPlace(first, other);
  }
  for (const int process : {-1, 0, 3, 4}) {
    other.process = process;
    EXPECT_EQ(
        CheckPlace(first, other).message(),
        absl::StrCat("process ", process,
                     " on here comes to process 0 on here, which waits for processes 1 to 2"));
  }
}

TEST(TcpWorld, ARankThatIsThereTwiceIsNamed) {
  const auto said = RunAll(
      3,
      [](int p, TcpWorldSettings* settings) {
        if (p == 2) settings->identity.process = 1;
        settings->join_ms = 2000;
      },
      kNothing);
  const std::string text =
      "INVALID_ARGUMENT: two processes say that they are process 1: here and here";
  EXPECT_EQ(said[0].substr(0, 64), text.substr(0, 64));
  EXPECT_EQ(said[1].substr(0, 64), text.substr(0, 64));
  EXPECT_EQ(said[2].substr(0, 64), text.substr(0, 64));
}

TEST(TcpWorld, OneThatNeverComesIsNamed) {
  const auto said = RunAll(
      4,
      [](int p, TcpWorldSettings* settings) {
        settings->join_ms = 500;
        if (p == 2 || p == 3) _exit(0);
      },
      kNothing);
  const std::string text =
      "DEADLINE_EXCEEDED: processes 2, 3 of 4 did not come to process 0 here within 0.5 s";
  EXPECT_EQ(said, std::vector<std::string>({text, text, "", ""}));
}

// A process that cannot run joins to say so, and all others hear its reason.
TEST(TcpWorld, TroubleIsToldToAll) {
  for (int which = 0; which < 3; ++which) {
    const auto said = RunAll(
        3,
        [&](int p, TcpWorldSettings* settings) {
          if (p != which) return;
          settings->config.clear();  // unknown to a process that cannot run
          settings->trouble = absl::UnavailableError("no GPU can be used");
        },
        [](World*) { return std::string("joined"); });
    for (int p = 0; p < 3; ++p) {
      EXPECT_EQ(said[p],
                p == which ? std::string("UNAVAILABLE: no GPU can be used")
                           : absl::StrCat("ABORTED: process ", which, " here: no GPU can be used"));
    }
  }
}

// Even if others never come, no process waits until the join deadline, which is longer than the
// limit of Processes::Wait.
TEST(TcpWorld, TroubleIsNotKeptForThoseThatDoNotCome) {
  for (int which = 0; which < 2; ++which) {
    // Rank 2 never comes; the process in trouble is alone, or with another.
    for (const bool alone : {true, false}) {
      const int port = FreePort();
      Processes all(2, [&](int p) {
        if (alone && p != which) return std::string();
        TcpWorldSettings settings = SettingsOf(p, 3, port);
        settings.join_ms = 600'000;
        settings.tell_ms = alone ? 100 : 5'000;
        if (p == which) settings.trouble = absl::UnavailableError("no GPU can be used");
        return StatusText(TcpWorld::Join(settings).status());
      });
      const auto said = all.Wait();
      EXPECT_EQ(said[which], "UNAVAILABLE: no GPU can be used");
      if (alone) continue;
      EXPECT_EQ(said[1 - which],
                absl::StrCat("ABORTED: process ", which, " here: no GPU can be used"));
    }
  }
}

TEST(TcpWorld, WithoutProcess0TheOthersSayWhereTheyLooked) {
  const int port = FreePort();
  Processes all(1, [&](int) {
    TcpWorldSettings settings = SettingsOf(1, 2, port);
    settings.join_ms = 300;
    return StatusText(TcpWorld::Join(settings).status());
  });
  EXPECT_EQ(all.Wait()[0],
            absl::StrCat("DEADLINE_EXCEEDED: process 1 here did not reach process 0 at 127.0.0.1:",
                         port, " within 0.3 s: Connection refused"));
}

// A socket of the test that listens on the loopback.
class Listener {
 public:
  explicit Listener(int port) : fd_(ListenOn("127.0.0.1", port)->front()) {}
  ~Listener() { (void)close(fd_); }
  int fd() const { return fd_; }

 private:
  const int fd_;
};

TEST(TcpWorld, APortThatIsTakenIsNamed) {
  const int port = FreePort();
  const Listener other(port);
  const auto world = TcpWorld::Join(SettingsOf(0, 2, port));
  EXPECT_EQ(StatusText(world.status()),
            absl::StrCat("UNAVAILABLE: process 0 cannot listen on port ", port, " of ", HostName(),
                         ": Address already in use; another run has it, or what started this one"));
}

TEST(TcpWorld, SomethingElseThatListensThereIsNotProcess0) {
  for (const bool talks : {false, true}) {
    const int port = FreePort();
    const Listener other(port);
    Processes all(1, [&](int) {
      TcpWorldSettings settings = SettingsOf(1, 2, port);
      settings.join_ms = 400;
      return StatusText(TcpWorld::Join(settings).status());
    });
    int fd = -1;
    while (talks && fd < 0) fd = AcceptFrom(other.fd());
    if (talks) {
      (void)!write(fd, "SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n", 32);
    }
    const std::string said = all.Wait()[0];
    EXPECT_TRUE(absl::StartsWith(said, "DEADLINE_EXCEEDED: process ")) << said;
    EXPECT_TRUE(absl::StrContains(said, absl::StrCat("127.0.0.1:", port))) << said;
    if (fd >= 0) (void)close(fd);
  }
}

TEST(TcpWorld, GarbageOnThePortDisturbsNobody) {
  const int port = FreePort();
  Processes all(2, [&](int p) {
    if (p == 1) SleepMs(700);
    const auto world = TcpWorld::Join(SettingsOf(p, 2, port));
    return world.ok() ? ExchangeOnce(world->get()) : StatusText(world.status());
  });
  std::mt19937 random(3);
  std::vector<int> open;
  for (int i = 0; i < 40; ++i) {
    const auto fd = ConnectTo("127.0.0.1", port, NowNs() + 1'000'000'000);
    if (!fd.ok()) {
      SleepMs(10);
      continue;
    }
    std::string bytes(random() % 200, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    (void)!send(*fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (i % 2 == 0) {
      (void)close(*fd);
    } else {
      open.push_back(*fd);  // and sends nothing more
    }
  }
  EXPECT_FALSE(open.empty());
  EXPECT_EQ(all.Wait(), std::vector<std::string>(2, "from 0, from 1"));
  for (const int fd : open) (void)close(fd);
}

TEST(TcpWorld, ALateOneIsNamedToAll) {
  for (const int late : {0, 2}) {
    const auto said = RunAll(
        3, [](int, TcpWorldSettings* settings) { settings->exchange_ms = 400; },
        [late](World* world) {
          if (world->process() == late) SleepMs(4000);
          return ExchangeOnce(world);
        });
    const std::string text =
        absl::StrCat("DEADLINE_EXCEEDED: rank ", late, " here did not come within 0.4 s");
    EXPECT_EQ(said[1], text);
    EXPECT_EQ(said[2 - late], text);
  }
}

// Process 0 comes late itself, and then waits its own time for the others.
TEST(TcpWorld, WhoWaitsForALatecomerHearsFromProcess0) {
  const auto said = RunAll(
      3, [](int, TcpWorldSettings* settings) { settings->exchange_ms = 1500; },
      [](World* world) {
        if (world->process() == 0) SleepMs(2500);
        if (world->process() == 2) SleepMs(3700);
        return ExchangeOnce(world);
      });
  EXPECT_EQ(said, std::vector<std::string>(3, "from 0, from 1, from 2"));
}

// A process that gets on is waited for as long as it takes: three times what others are.
TEST(TcpWorld, WhoTellsThatItWorksIsWaitedFor) {
  for (const int busy : {0, 2}) {
    const auto said = RunAll(
        3, [](int, TcpWorldSettings* settings) { settings->exchange_ms = 1500; },
        [busy](World* world) {
          const int64_t until_ns = NowNs() + 4'500'000'000;
          while (world->process() == busy && NowNs() < until_ns) {
            SleepMs(10);
            world->Working();
          }
          return ExchangeOnce(world);
        });
    EXPECT_EQ(said, std::vector<std::string>(3, "from 0, from 1, from 2"));
  }
}

TEST(TcpWorld, Process0AnswersWhileItIsThere) {
  const auto said = RunAll(2, kNoChange, [](World* world) -> std::string {
    if (world->process() == 1 && !world->FirstAnswers(10'000)) return "no answer";
    const std::string exchanged = ExchangeOnce(world);  // process 0 answers while it waits here
    if (world->process() == 0) {
      SleepMs(2500);
      return exchanged;
    }
    SleepMs(300);  // until process 0 looks no more
    return world->FirstAnswers(100) ? "an answer" : exchanged;
  });
  EXPECT_EQ(said, std::vector<std::string>(2, "from 0, from 1"));
}

TEST(TcpWorld, RanksAndProcessesHaveNames) {
  const auto said = RunAll(
      2, [](int, TcpWorldSettings* settings) { settings->ranks = 5; },
      [](World* world) {
        return absl::StrCat(world->NameOfRank(1), "; ", world->NameOfRank(4), "; ",
                            world->NameOfProcess(1));
      });
  const std::string names = absl::StrCat("rank 1 on ", HostName(), "; rank 4 on ", HostName(),
                                         "; process 1 with ranks 2, 3, 4 on ", HostName());
  EXPECT_EQ(said, std::vector<std::string>(2, names));
}

// Losses are told apart from failures of a process's own, by all.
TEST(TcpWorld, WhetherAProcessWasLostIsKnownToAll) {
  // Process 1 fails once all have met: an earlier failure may end the others while they join.
  const auto ends = [](World* world, const std::function<void()>& fail) {
    const absl::Status met = world->Exchange("").status();
    if (!met.ok()) return absl::StrCat("before the failure: ", StatusText(met));
    if (world->process() == 1) fail();
    const absl::Status end = world->Exchange("").status();
    return absl::StrCat(IsLost(end) ? "lost: " : "", StatusText(end));
  };
  const auto lost = RunAll(3, kNoChange, [&](World* world) {
    return ends(world, [&] { world->Fail(AsLost(absl::DeadlineExceededError("rank 2 is late"))); });
  });
  EXPECT_EQ(lost, std::vector<std::string>(3, "lost: DEADLINE_EXCEEDED: rank 2 is late"));
  const auto full = RunAll(3, kNoChange, [&](World* world) {
    return ends(world, [&] { world->Fail(absl::UnavailableError("the disk is full")); });
  });
  EXPECT_EQ(full, std::vector<std::string>(3, "ABORTED: rank 1 here: the disk is full"));
  const auto killed =
      RunAll(3, kNoChange, [&](World* world) { return ends(world, [] { KillMeAfter(0); }); });
  EXPECT_TRUE(absl::StartsWith(killed[0], "lost: UNAVAILABLE: rank 1 here died")) << killed[0];
  EXPECT_EQ(killed[2], killed[0]);
}

// Also of a process that dies while others are still awaited; the last one comes after its death.
TEST(TcpWorld, ALossBeforeAllHaveJoinedIsKnownAsALoss) {
  int death[2] = {-1, -1};  // a pipe that ends with process 1
  ASSERT_EQ(pipe(death), 0);
  const int port = FreePort();
  Processes all(4, [&](int p) {
    if (p != 1) (void)close(death[1]);
    char byte = 0;
    if (p == 3) return std::string(read(death[0], &byte, 1) == 0 ? "came too late" : "no pipe");
    if (p == 1) KillMeAfter(1'000'000);
    const absl::Status end = TcpWorld::Join(SettingsOf(p, 4, port)).status();
    return absl::StrCat(IsLost(end) ? "lost: " : "", StatusText(end));
  });
  for (const int end : death) (void)close(end);
  const auto said = all.Wait();
  EXPECT_TRUE(absl::StartsWith(said[2], "lost: UNAVAILABLE: rank 1 here died")) << said[2];
  EXPECT_EQ(said[0], said[2]);
  EXPECT_EQ(said[3], "came too late");
}

TEST(TcpWorld, WhoEndsEarlyIsNamed) {
  for (const int early : {0, 1}) {
    const auto said = RunAll(3, kNoChange, [early](World* world) {
      if (world->process() == early) return std::string("done");
      return ExchangeOnce(world);
    });
    const std::string text =
        absl::StrCat("UNAVAILABLE: rank ", early, " here has ended its run, and the others go on");
    for (int p = 0; p < 3; ++p) EXPECT_EQ(said[p], p == early ? "done" : text) << p;
  }
}

TEST(TcpWorld, WhoHasEndedIsNoFaultToWhoNeedsNobody) {
  const auto said = RunAll(3, kNoChange, [](World* world) {
    if (world->process() == 1) return std::string("OK");
    SleepMs(300);
    const std::string text = StatusText(world->state());
    SleepMs(300);  // stays in the run while the others read their state
    return text;
  });
  EXPECT_EQ(said, std::vector<std::string>(3, "OK"));
}

TEST(TcpWorld, AFailureIsTheSameEverywhere) {
  for (const int failing : {0, 1}) {
    for (const bool in_exchange : {false, true}) {
      const auto said = RunAll(3, kNoChange, [=](World* world) {
        if (world->process() == failing) {
          SleepMs(100);
          world->Fail(absl::InternalError("the GPU is gone"));
          return StatusText(world->Exchange("").status());
        }
        if (in_exchange) return ExchangeOnce(world);
        for (int i = 0; i < 1000; ++i) {
          if (!world->state().ok()) return StatusText(world->state());
          SleepMs(5);
        }
        return std::string("nobody told me");
      });
      EXPECT_EQ(said, std::vector<std::string>(
                          3, absl::StrCat("ABORTED: rank ", failing, " here: the GPU is gone")));
    }
  }
}

// A process is killed at any moment: the others learn of its death by the same message, long before
// any deadline.
TEST(TcpWorld, WhoIsKilledIsNamed) {
  std::mt19937 random(5);
  for (int round = 0; round < 24; ++round) {
    constexpr int kProcesses = 3;
    const int port = FreePort();
    const int victim = round % kProcesses;
    const bool polls = round % 2 == 1;
    const int64_t killed_after_us = static_cast<int64_t>(random() % 200'000);
    const int64_t start_ns = NowNs();
    Processes all(kProcesses, [&](int p) {
      const auto world = TcpWorld::Join(SettingsOf(p, kProcesses, port));
      if (!world.ok()) return StatusText(world.status());
      if (p == victim) KillMeAfter(killed_after_us);
      for (int64_t i = 0; i < 1'000'000; ++i) {
        if (polls) SleepMs(1);
        const absl::Status status =
            polls ? (*world)->state() : (*world)->Exchange(std::string(i % 3000, 'x')).status();
        if (!status.ok()) return StatusText(status);
      }
      return std::string("went on");
    });
    const auto said = all.Wait();
    EXPECT_LT(NowNs() - start_ns, int64_t{15'000'000'000});
    std::string first;
    for (int p = 0; p < kProcesses; ++p) {
      if (p == victim) {
        EXPECT_EQ(said[p], "killed by signal 9");
        continue;
      }
      EXPECT_TRUE(absl::StartsWith(said[p], absl::StrCat("UNAVAILABLE: rank ", victim,
                                                         " here died, or ended without a word: ")))
          << said[p];
      // Every process notices the death of process 0 by itself.
      if (!first.empty() && victim != 0) {
        EXPECT_EQ(said[p], first);
      }
      first = said[p];
    }
  }
}

}  // namespace
}  // namespace stringline
