// Worlds of real processes with a tree between them: what they sum up and exchange, whom they name
// when one in the tree dies or stands still, and the bytes that process 0 moves.
#include "executor/processes/tree_world.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <random>
#include <thread>

#include "absl/base/casts.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "executor/engine/exact_sum.h"
#include "executor/engine/lost_process.h"
#include "executor/processes/process_tree.h"
#include "executor/processes/sockets.h"
#include "gtest/gtest.h"
#include "schedlang/base/clock.h"
#include "tests/nccl/status_text.h"
#include "tests/nccl/world_processes.h"
#include "tools/gpu/processes.h"

namespace stringline {
namespace {

// Every process is in the block of its parent's child, and blocks of children are the rest of a
// block, one behind the other and as even as possible.
TEST(ProcessTree, BlocksShareOutAllProcesses) {
  for (const int fan_out : {1, 2, 8}) {
    for (const int n : {1, 2, 3, 9, 10, 17, 40, 73, 1000}) {
      std::vector<int> parents(n, -2);
      parents[0] = -1;
      for (int p = 0; p < n; ++p) {
        const TreePlace place = PlaceInTree(p, n, fan_out);
        EXPECT_EQ(place.block.first, p);
        int next = p + 1, least = n, most = 0;
        for (const ProcessBlock& child : place.children) {
          EXPECT_EQ(child.first, next);
          next = child.end;
          least = std::min(least, child.size());
          most = std::max(most, child.size());
          EXPECT_EQ(parents[child.first], -2);
          parents[child.first] = p;
        }
        EXPECT_EQ(next, place.block.end);
        EXPECT_LE(place.children.size(), static_cast<size_t>(fan_out));
        EXPECT_LE(most - least, 1);
      }
      int deepest = 0;
      for (int p = 0; p < n; ++p) {
        EXPECT_EQ(PlaceInTree(p, n, fan_out).parent, parents[p]);
        int depth = 0;
        for (int at = p; at > 0; at = parents[at]) ++depth;
        deepest = std::max(deepest, depth);
      }
      EXPECT_TRUE(n > fan_out + 1 || deepest <= 1) << n;
      EXPECT_TRUE(n != 1000 || fan_out != 8 || deepest == 4) << deepest;
    }
  }
}

Change Tree(int fan_out, int64_t exchange_ms = 20'000) {
  return [=](int, TcpWorldSettings* settings) {
    settings->fan_out = fan_out;
    settings->exchange_ms = exchange_ms;
  };
}

// The terms of a process: of all sizes and signs, so that an order would show.
std::vector<double> TermsOf(int process, unsigned seed) {
  std::mt19937 random(seed * 1000 + static_cast<unsigned>(process));
  std::vector<double> terms(random() % 20);
  for (double& term : terms) {
    const double mantissa = static_cast<double>(random()) / 1e9 - 2;
    term = std::ldexp(mantissa, static_cast<int>(random() % 600) - 300);
  }
  return terms;
}

class TreeSizes : public testing::TestWithParam<std::pair<int, int>> {};

// Sums are those of one process that adds all terms, bit by bit; texts come in their order.
TEST_P(TreeSizes, SumsAreThoseOfOneProcess) {
  const auto [n, fan_out] = GetParam();
  const unsigned seed = std::random_device{}() % 100'000;
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  const auto said = RunAll(n, Tree(fan_out), [n = n, seed](World* world) -> std::string {
    for (unsigned round = 0; round < 10; ++round) {
      ExactSum mine, all;
      for (int p = 0; p < n; ++p) {
        for (const double term : TermsOf(p, seed + round)) {
          all.Add(term);
          if (p == world->process()) mine.Add(term);
        }
      }
      ExactSum::Words words = mine.words();
      const absl::Status status = world->Sum(absl::MakeSpan(words));
      if (!status.ok()) return StatusText(status);
      const double sum = ExactSum::FromWords(words).Rounded();
      if (absl::bit_cast<uint64_t>(sum) != absl::bit_cast<uint64_t>(all.Rounded())) {
        return absl::StrCat("round ", round, ": ", sum, ", not ", all.Rounded());
      }
      const auto text_of = [&](int p) { return std::string((p * 7 + round) % 30, 'a' + p % 26); };
      const auto texts = round % 2 == 0 ? world->Exchange(text_of(world->process()))
                                        : world->GiveToFirst(text_of(world->process()));
      if (!texts.ok()) return StatusText(texts.status());
      for (int p = 0; p < n; ++p) {
        const bool gets = round % 2 == 0 || world->process() == 0;
        if ((*texts)[p] != (gets ? text_of(p) : "")) return absl::StrCat("text ", p);
      }
      if (!world->Sum({}).ok()) return "no meeting";
    }
    return absl::StrCat(world->NameOfProcess(n - 1) == world->NameOfRank(n - 1));
  });
  EXPECT_EQ(said, std::vector<std::string>(n, "1"));
}

INSTANTIATE_TEST_SUITE_P(Trees, TreeSizes,
                         testing::Values(std::pair(1, 8), std::pair(2, 1), std::pair(3, 1),
                                         std::pair(9, 2), std::pair(17, 8), std::pair(17, 3),
                                         std::pair(40, 8), std::pair(40, 2)));

// Texts larger than any socket takes at once, through processes that hand them on.
TEST(TreeWorld, LargeTextsGoThrough) {
  const auto said = RunAll(7, Tree(2), [](World* world) -> std::string {
    const std::string said = ExchangeTexts(world, 3'000'000);
    if (said != "good") return said;
    // The last that a process does in a run.
    return world->Exchange(std::string(3'000'000, 'x')).ok() ? "good" : "no end";
  });
  EXPECT_EQ(said, std::vector<std::string>(7, "good"));
}

TEST(TreeWorld, SumsOfOtherSizesAreRefused) {
  const auto said = RunAll(7, Tree(2), [](World* world) {
    std::vector<uint64_t> numbers(world->process() == 3 ? 3 : 2);
    return StatusText(world->Sum(absl::MakeSpan(numbers)));
  });
  EXPECT_EQ(said, std::vector<std::string>(7, "INTERNAL: what all gave cannot be read"));
}

// In a tree of seven with two children each: process 0, 1 and 4 below it, and their leaves.
constexpr int kSeven = 7;
constexpr int kPlaces[] = {0, 1, 3, 4, 6};

enum class Meeting : uint8_t { kSum, kGather, kExchange };

absl::Status Meet(World* world, Meeting how) {
  if (how == Meeting::kSum) {
    uint64_t one = 1;
    return world->Sum(absl::MakeSpan(&one, 1));
  }
  const std::string mine(2'000, 'x');
  return how == Meeting::kGather ? world->GiveToFirst(mine).status()
                                 : world->Exchange(mine).status();
}

// A process is killed at any moment of many meetings: all name it, long before any deadline.
TEST(TreeWorld, WhoIsKilledInATreeIsNamedByAll) {
  const unsigned seed = std::random_device{}() % 100'000;
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937 random(seed);
  for (const int victim : kPlaces) {
    for (const Meeting how : {Meeting::kSum, Meeting::kGather, Meeting::kExchange}) {
      SCOPED_TRACE(absl::StrCat("process ", victim, " in ", static_cast<int>(how)));
      const auto after_us = static_cast<int64_t>(random() % 100'000);
      const int64_t start_ns = NowNs();
      const auto said = RunAll(kSeven, Tree(2, 120'000), [&](World* world) {
        if (world->process() == victim) KillMeAfter(after_us);
        absl::Status status;
        while (status.ok()) status = Meet(world, how);
        return absl::StrCat(IsLost(status) ? "lost: " : "", StatusText(status));
      });
      EXPECT_LT(NowNs() - start_ns, int64_t{30'000'000'000});
      for (int p = 0; p < kSeven; ++p) {
        if (p == victim) {
          EXPECT_EQ(said[p], "killed by signal 9");
        } else {
          EXPECT_TRUE(absl::StartsWith(said[p], absl::StrCat("lost: UNAVAILABLE: rank ", victim,
                                                             " here died, or ended without a")))
              << p << ": " << said[p];
        }
      }
    }
  }
}

// Stops this process after so long, until so many bytes have come; then it is killed. Done by
// another process, which has none of its connections.
void StandStill(int64_t after_ms, int ended, int count) {
  const pid_t own = getpid();
  if (fork() != 0) return;
  const int kept = dup2(ended, 3);
  (void)close_range(4, ~0U, 0);
  SleepMs(after_ms);
  (void)kill(own, SIGSTOP);
  char byte = 0;
  for (int left = count; left > 0 && read(kept, &byte, 1) == 1;) --left;
  (void)kill(own, SIGKILL);
  _exit(0);
}

// A process stands still before a meeting, or in the midst of many; the deadline is short.
TEST(TreeWorld, WhoStandsStillInATreeIsNamedByAll) {
  constexpr int64_t kShortMs = 1'000;
  for (const int victim : kPlaces) {
    for (const bool midst : {false, true}) {
      SCOPED_TRACE(absl::StrCat("process ", victim, midst ? " in the midst" : " before"));
      int ended[2];
      ASSERT_EQ(pipe(ended), 0);
      const auto said = RunAll(kSeven, Tree(2, kShortMs), [&](World* world) {
        if (world->process() == victim) {
          StandStill(midst ? 50 : 0, ended[0], kSeven - 1);
          if (!midst) SleepMs(1'000);
        }
        absl::Status status;
        for (int i = 0; status.ok(); ++i) status = Meet(world, static_cast<Meeting>(i % 3));
        EXPECT_EQ(write(ended[1], "", 1), 1);
        return absl::StrCat(IsLost(status) ? "lost: " : "", StatusText(status));
      });
      for (const int end : ended) (void)close(end);
      for (int p = 0; p < kSeven; ++p) {
        EXPECT_EQ(said[p], p == victim ? "killed by signal 9"
                                       : absl::StrCat("lost: DEADLINE_EXCEEDED: rank ", victim,
                                                      " here did not come within 1 s"))
            << p;
      }
    }
  }
}

// A process that ends its run early is named, wherever in the tree it is.
TEST(TreeWorld, WhoEndsEarlyInATreeIsNamed) {
  for (const int early : kPlaces) {
    const auto said = RunAll(kSeven, Tree(2), [early](World* world) {
      const absl::Status met = world->Sum({});
      if (!met.ok() || world->process() == early) return StatusText(met);
      return StatusText(world->Sum({}));
    });
    for (int p = 0; p < kSeven; ++p) {
      EXPECT_EQ(said[p], p == early ? "OK"
                                    : absl::StrCat("UNAVAILABLE: rank ", early,
                                                   " here has ended its run, and the others go on"))
          << p;
    }
  }
}

// The last meeting comes to all, though those above them have gone.
TEST(TreeWorld, TheLastMeetingComesToAll) {
  for (int round = 0; round < 20; ++round) {
    const auto said = RunAll(kSeven, Tree(1), [](World* world) {
      return StatusText(world->Exchange(std::string(50'000, 'x')).status());
    });
    EXPECT_EQ(said, std::vector<std::string>(kSeven, "OK"));
  }
}

TEST(TreeWorld, AFailureIsTheSameEverywhere) {
  for (const int failing : kPlaces) {
    const auto said = RunAll(kSeven, Tree(2), [failing](World* world) {
      if (world->process() == failing) world->Fail(absl::InternalError("the GPU is gone"));
      return StatusText(world->Sum({}));
    });
    for (const std::string& one : said) {
      EXPECT_EQ(one, absl::StrCat("ABORTED: rank ", failing, " here: the GPU is gone"));
    }
  }
}

struct Moved {
  int64_t received = 0, sent = 0;
};

// The bytes that all connections of this process have moved, as the system counts them.
Moved BytesMoved() {
  Moved moved;
  for (int fd = 3; fd < 1000; ++fd) {
    tcp_info info = {};
    socklen_t size = sizeof(info);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) continue;
    moved.received += static_cast<int64_t>(info.tcpi_bytes_received);
    moved.sent += static_cast<int64_t>(info.tcpi_bytes_sent);
  }
  return moved;
}

// The meeting of a test's processes before or after they count: nobody goes on before all have.
class Barrier {
 public:
  Barrier() { EXPECT_EQ(pipe(ends_), 0); }
  void Come() {
    char byte = 0;
    Leave();
    EXPECT_EQ(read(ends_[0], &byte, 1), 0);
  }
  void Leave() { (void)close(ends_[1]); }

 private:
  int ends_[2] = {-1, -1};
};

// In sums, a process moves numbers for its neighbours in the tree alone; in exchanges process 0
// hands the texts to its children alone.
TEST(TreeWorld, BytesAreThoseOfNeighbours) {
  constexpr int kMany = 40, kSums = 10, kText = 100;
  constexpr int64_t kNumbers = 143;
  for (const int fan_out : {2, 8}) {
    const int port = FreePort();
    Barrier before, between, after;
    Processes all(kMany, [&](int p) -> std::string {
      TcpWorldSettings settings = SettingsOf(p, kMany, port);
      settings.fan_out = fan_out;
      const auto world = TcpWorld::Join(settings);
      if (!world.ok()) return StatusText(world.status());
      before.Come();
      const Moved at_first = BytesMoved();
      between.Come();
      std::vector<uint64_t> numbers(kNumbers, 1);
      for (int i = 0; i < kSums; ++i) {
        if (!(*world)->Sum(absl::MakeSpan(numbers)).ok()) return "no sum";
      }
      if (!(*world)->Exchange(std::string(kText, 'x')).ok()) return "no exchange";
      const Moved at_last = BytesMoved();
      after.Come();
      return absl::StrCat(at_last.received - at_first.received, " ", at_last.sent - at_first.sent);
    });
    for (Barrier* const barrier : {&before, &between, &after}) barrier->Leave();
    const auto said = all.Wait();
    for (int p = 0; p < kMany; ++p) {
      const TreePlace place = PlaceInTree(p, kMany, fan_out);
      const auto children = static_cast<int64_t>(place.children.size());
      const int64_t sums = kSums * TreeWorld::BytesOfSum(place, kNumbers);
      const int64_t own = place.block.size() * (4 + kText), whole = kMany * (4 + kText);
      const int64_t up = children * 16 + own - (4 + kText);
      const int64_t above = p == 0 ? 0 : 16 + whole, given = p == 0 ? 0 : 16 + own;
      EXPECT_EQ(said[p],
                absl::StrCat(sums + up + above, " ", sums + given + children * (16 + whole)))
          << p;
      EXPECT_LE(children, fan_out);
    }
  }
}

// Several that are late are all named, and none of those behind them in the tree.
TEST(TreeWorld, AllThatAreLateAreNamed) {
  const auto said = RunAll(kSeven, Tree(2, 1'500), [](World* world) {
    if (world->process() == 1 || world->process() == 6) SleepMs(5'000);
    const std::string text = StatusText(world->Sum({}));
    std::string late;
    for (const int p : world->late()) absl::StrAppend(&late, " ", p);
    return text + late;
  });
  for (const int p : {0, 2, 3, 4, 5}) {
    EXPECT_EQ(said[p], "DEADLINE_EXCEEDED: rank 1 here, rank 6 here did not come within 1.5 s 1 6")
        << p;
  }
}

// A process that gets on is waited for, by those behind it too, three times as long.
TEST(TreeWorld, WhoTellsThatItWorksIsWaitedFor) {
  for (const int busy : {0, 1, 3}) {
    const auto said = RunAll(kSeven, Tree(2, 1'000), [busy](World* world) {
      const int64_t until_ns = NowNs() + 3'500'000'000;
      while (world->process() == busy && NowNs() < until_ns) {
        SleepMs(10);
        world->Working();
      }
      return StatusText(world->Sum({}));
    });
    EXPECT_EQ(said, std::vector<std::string>(kSeven, "OK")) << busy;
  }
}

// Worlds on threads, whose words are put into each other's boxes; none comes from one of two
// neighbours to the other.
struct PostOffice {
  std::mutex mutex;
  std::condition_variable came;
  struct Word {
    int from = 0;
    FrameKind kind = FrameKind::kBye;
    std::string bytes;
  };
  std::vector<std::deque<Word>> boxes;  // by process
  std::pair<int, int> severed = {-1, -1};
};

class PostedWorld final : public TreeWorld {
 public:
  PostedWorld(PostOffice* office, int process, int64_t wait_ms)
      : TreeWorld({process, static_cast<int>(office->boxes.size()), 0, 2, HostName()}, wait_ms),
        office_(*office) {}

 private:
  void Send(int process, FrameKind kind, absl::string_view bytes) override {
    const std::lock_guard lock(office_.mutex);
    const int own = this->process();
    if (std::minmax(own, process) == std::minmax(office_.severed.first, office_.severed.second)) {
      return;
    }
    office_.boxes[process].push_back({own, kind, std::string(bytes)});
    office_.came.notify_all();
  }
  bool HasUnsent(int /*process*/) const override { return false; }
  void Look(int64_t most_ns) override {
    std::deque<PostOffice::Word> words;
    {
      std::unique_lock lock(office_.mutex);
      std::deque<PostOffice::Word>& box = office_.boxes[process()];
      office_.came.wait_for(lock, std::chrono::nanoseconds(std::max<int64_t>(most_ns, 0)),
                            [&] { return !box.empty(); });
      words.swap(box);
    }
    for (PostOffice::Word& word : words) Handle(word.from, word.kind, std::move(word.bytes));
  }

  PostOffice& office_;
};

// All are there, and a part does not come: no process is late, and both ends are named.
TEST(TreeWorld, WhereNothingPassesBetweenTwoBothAreNamed) {
  for (const auto& [parent, child] : {std::pair(1, 2), {0, 4}, {4, 6}}) {
    PostOffice office;
    office.boxes.resize(kSeven);
    office.severed = {parent, child};
    std::vector<std::string> said(kSeven);
    std::vector<std::thread> threads;
    for (int p = 0; p < kSeven; ++p) {
      threads.emplace_back([&, p] {
        PostedWorld world(&office, p, /*wait_ms=*/500);
        said[p] = StatusText(world.Sum({}));
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (int p = 0; p < kSeven; ++p) {
      // Process 0 has no other way to a child of its own.
      if (parent == 0) {
        EXPECT_TRUE(absl::StartsWith(said[p], "DEADLINE_EXCEEDED: rank ")) << said[p];
        continue;
      }
      EXPECT_EQ(said[p],
                absl::StrCat("DEADLINE_EXCEEDED: what rank ", child, " here gave did not come to ",
                             "rank ", parent,
                             " here within 0.5 s, though both answer: nothing passes between them"))
          << p;
    }
  }
}

}  // namespace
}  // namespace stringline
