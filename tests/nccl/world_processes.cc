#include "tests/nccl/world_processes.h"

#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "tests/nccl/status_text.h"
#include "tools/gpu/processes.h"

namespace stringline {

TcpWorldSettings SettingsOf(int process, int processes, int port) {
  TcpWorldSettings settings;
  settings.identity.process = process;
  settings.identity.processes = processes;
  settings.identity.host = "127.0.0.1";
  settings.identity.port = port;
  settings.identity.nonce = "run 7#0";
  settings.identity.secret = Secret("a secret of sixteen or more", "this test");
  settings.config = {{"steps", "10"}, {"NCCL", "2.28.9"}};
  settings.join_ms = 20'000;
  settings.exchange_ms = 20'000;
  return settings;
}

std::vector<std::string> RunAll(int processes, const Change& change, const Then& then) {
  const int port = FreePort();
  Processes all(processes, [&](int p) {
    TcpWorldSettings settings = SettingsOf(p, processes, port);
    change(p, &settings);
    const auto world = TcpWorld::Join(settings);
    return world.ok() ? then(world->get()) : StatusText(world.status());
  });
  return all.Wait();
}

std::vector<std::string> RunInProcesses(int processes, int ranks, const Then& body) {
  const auto change = [ranks](int, TcpWorldSettings* settings) {
    settings->ranks = ranks;
    settings->join_ms = settings->exchange_ms = 30'000;
  };
  return RunAll(processes, change, [&body](World* world) {
    const std::string said = body(world);
    return testing::Test::HasFailure() ? "failed" : said;
  });
}

void ExpectDeathNamed(const std::vector<std::string>& said, int victim) {
  EXPECT_EQ(said[victim], "killed by signal 9");
  const std::string& first = said[victim == 0 ? 1 : 0];
  for (int p = 0; p < static_cast<int>(said.size()); ++p) {
    if (p == victim) continue;
    EXPECT_TRUE(absl::StartsWith(said[p], absl::StrCat("UNAVAILABLE: rank ", victim,
                                                       " here died, or ended without a word: ")))
        << said[p];
    EXPECT_EQ(said[p], first);
  }
}

std::string ExchangeTexts(World* world, size_t bytes) {
  const std::string mine(bytes, static_cast<char>('a' + world->process()));
  for (int round = 0; round < 2; ++round) {
    const auto all = world->Exchange(mine);
    if (!all.ok()) return StatusText(all.status());
    for (int p = 0; p < world->processes(); ++p) {
      if ((*all)[p] != std::string(bytes, static_cast<char>('a' + p))) return "other bytes";
    }
  }
  return "good";
}

void SleepMs(int64_t ms) { usleep(static_cast<useconds_t>(ms * 1000)); }

std::string ExchangeOnce(World* world) {
  const auto all = world->Exchange(absl::StrCat("from ", world->process()));
  return all.ok() ? absl::StrJoin(*all, ", ") : StatusText(all.status());
}

}  // namespace stringline
