#include "tests/nccl/world_processes.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
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

void SleepMs(int64_t ms) { usleep(static_cast<useconds_t>(ms * 1000)); }

std::string ExchangeOnce(World* world) {
  const auto all = world->Exchange(absl::StrCat("from ", world->process()));
  return all.ok() ? absl::StrJoin(*all, ", ") : StatusText(all.status());
}

}  // namespace stringline
