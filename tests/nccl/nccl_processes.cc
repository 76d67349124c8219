#include "tests/nccl/nccl_processes.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/cuda/host_work.h"
#include "tests/cuda/standin/nccl_standin.h"
#include "tests/cuda/standin/standin.h"

namespace stringline {

TcpWorldSettings WorldSettings(const NcclRun& run, int process, int port) {
  TcpWorldSettings settings;
  settings.identity.process = process;
  settings.identity.processes = run.processes;
  settings.identity.local = process;
  settings.identity.host = "127.0.0.1";
  settings.identity.port = port;
  settings.join_ms = 30'000;
  settings.exchange_ms = run.exchange_ms;
  return settings;
}

std::vector<std::string> RunNccl(const NcclRun& run,
                                 const std::function<std::string(World* world)>& body) {
  const int port = FreePort();
  standin_nccl_reset();
  Processes all(run.processes, [&](int p) -> std::string {
    (void)setenv("NCCL_LAUNCH_ORDER_IMPLICIT", run.seed % 2 == 1 ? "1" : "0", 1);
    standin_reset(run.seed + p);
    const auto world = TcpWorld::Join(WorldSettings(run, p, port));
    if (!world.ok()) return world.status().ToString();
    const std::string said = body(world->get());
    return testing::Test::HasFailure() ? "failed" : said;
  });
  return all.Wait();
}

absl::StatusOr<GroupMachine> NewMachine(World* world, const NcclSettings& settings) {
  const auto library = nccl::Library::Open();
  if (!library.ok()) return library.status();
  GroupMachine machine;
  auto device = CudaDevice::Make();
  if (!device.ok()) return device.status();
  auto groups = NcclGroups::Make(device->get(), world, *library, settings);
  if (!groups.ok()) return groups.status();
  machine.device = *std::move(device);
  machine.work_of = HostWork::Kept();
  machine.groups = *std::move(groups);
  machine.local = {world->process()};
  return machine;
}

}  // namespace stringline
