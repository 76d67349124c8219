#include "tools/training/choose_backend.h"

#include <algorithm>
#include <cstdint>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/mpi/mpi_backend.h"
#include "executor/mpi/mpi_world.h"
#include "executor/processes/backend.h"
#include "schedlang/base/status.h"
#ifdef STRINGLINE_HAS_CUDA
#include "executor/cuda/backend/cuda_backend.h"
#include "executor/cuda/gpus.h"
#include "executor/nccl/nccl_backend.h"
#endif

namespace stringline {
namespace {

bool HasGpu() {
#ifdef STRINGLINE_HAS_CUDA
  return cuda::CountGpus().ok();
#else
  return false;
#endif
}

bool TakesGpu(const RunConfig& config) {
  return config.device == DeviceKind::kCuda || (config.device == DeviceKind::kAuto && HasGpu());
}

// The keys for several GPUs are for a single process.
absl::Status CheckForProcesses(const RunConfig& config, const Identity& identity) {
  if (!config.gpus.IsDefault()) {
    return absl::InvalidArgumentError(
        absl::StrCat("gpus: ", identity.source, " says that there are ", identity.processes,
                     " processes, and each has a GPU of its own; one process alone can have "
                     "several"));
  }
  if (config.sms_per_rank > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("sms_per_rank: ", identity.source, " says that there are ", identity.processes,
                     " processes, and each has a GPU of its own, whole"));
  }
  return absl::OkStatus();
}

// `timeout` in whole milliseconds; 0, wait for ever, only where the run file says so.
int64_t WaitMs(const RunConfig& config) { return (config.timeout_ns + 999'999) / 1'000'000; }

constexpr int64_t kHealedJoinMs = 20'000;

TcpWorldSettings WorldOf(const RunConfig& config, const Identity& identity, ConfigLines agreement,
                         const char* device) {
  constexpr int64_t kForeverMs = int64_t{1} << 40;
  TcpWorldSettings world;
  world.identity = identity;
  world.config = std::move(agreement);
  world.config.emplace_back("device", device);
  const int64_t wait_ms = WaitMs(config);
  // Processes of a run that goes on are all there.
  if (identity.healed > 0) world.join_ms = std::min<int64_t>(world.join_ms, kHealedJoinMs);
  world.exchange_ms = wait_ms > 0 ? wait_ms : kForeverMs;
  return world;
}

// True if MPI carries the messages of ranks on CPUs, and what their hosts tell each other.
absl::StatusOr<bool> TakesMpi(const RunConfig& config, const Identity& identity) {
  if (config.transport == TransportKind::kTcp) return false;
  if (config.heal_every > 0) {
    if (config.transport == TransportKind::kAuto) return false;
    return absl::InvalidArgumentError(
        "transport: mpi: a run with 'heal' goes on without a lost process, and MPI does not");
  }
  const absl::Status usable = CanUseMpi(identity);
  if (usable.ok() || config.transport == TransportKind::kAuto) return usable.ok();
  return absl::Status(usable.code(), absl::StrCat("transport: mpi: ", usable.message()));
}

// Some of the ranks on threads of this process, in blocks.
absl::StatusOr<std::unique_ptr<Backend>> MakeThreads(const RunConfig& config, const Plan& plan,
                                                     const Identity& identity,
                                                     const ConfigLines& agreement) {
  SL_RETURN_IF_ERROR(CheckForProcesses(config, identity));
  SL_ASSIGN_OR_RETURN(const bool mpi, TakesMpi(config, identity));
  TcpWorldSettings world = WorldOf(config, identity, agreement, "cpu");
  world.ranks = plan.ranks() * config.mesh.coordinates();
  if (world.ranks < identity.processes) {
    return absl::InvalidArgumentError(
        absl::StrCat(identity.source, " says that there are ", identity.processes,
                     " processes, but the run has ", world.ranks, " ranks"));
  }
  int threads = config.threads;
  if (threads == 0) {
    const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
    const int here = (world.ranks + identity.processes - 1) / identity.processes;
    threads = std::min(here, static_cast<int>(cores));
  }
  WireSettings wires;
  wires.wait_ms = WaitMs(config);
  wires.link = config.link;
  return mpi ? MakeMpiBackend(world, wires, threads)
             : ProcessesBackend::Make(world, wires, threads);
}

#ifdef STRINGLINE_HAS_CUDA
// All ranks in this process.
absl::StatusOr<std::unique_ptr<Backend>> MakeRanks(const RunConfig& config, const Plan& plan) {
  CudaSettings settings;
  settings.ranks = std::max(1, plan.ranks() * config.mesh.coordinates());
  settings.sms_per_rank = config.sms_per_rank;
  settings.deterministic = config.deterministic;
  settings.timeout_ns = config.timeout_ns;
  settings.link = config.link;
  SL_ASSIGN_OR_RETURN(settings.gpus, cuda::ChooseGpus(config.gpus, settings.ranks));
  return CudaBackend::Make(settings);
}

absl::StatusOr<std::unique_ptr<Backend>> MakeRank(const RunConfig& config, const Identity& identity,
                                                  const ConfigLines& agreement) {
  SL_RETURN_IF_ERROR(CheckForProcesses(config, identity));
  if (config.heal_every > 0) {
    return absl::InvalidArgumentError("heal: only processes on CPUs can go on without a lost one");
  }
  if (config.link.latency_ns > 0 || config.link.bytes_per_s > 0) {
    return absl::InvalidArgumentError("--link: messages of NCCL cannot be made slower");
  }
  TcpWorldSettings world = WorldOf(config, identity, agreement, "cuda");
  NcclSettings nccl;
  nccl.min_ctas = config.nccl.min_ctas;
  nccl.max_ctas = config.nccl.max_ctas;
  nccl.rows = config.nccl.counted_rows ? NcclRows::kCounted : NcclRows::kPadded;
  nccl.sums = config.nccl.own_sums ? NcclSums::kNccl : NcclSums::kOrdered;
  nccl.capture = config.nccl.capture;
  nccl.wait_ms = WaitMs(config);
  return NcclBackend::Make(
      world, nccl, {.deterministic = config.deterministic, .free_sms = config.nccl.free_sms});
}
#endif

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(const RunConfig& config, const Plan& plan,
                                                     const Identity& identity,
                                                     const ConfigLines& agreement) {
  const bool alone = identity.processes == 1;
  const auto on_cpu = [&]() -> absl::StatusOr<std::unique_ptr<Backend>> {
    if (!config.deterministic) {
      return absl::InvalidArgumentError(
          "deterministic: there is no GPU, and a CPU has nothing else than on");
    }
    if (alone) SL_RETURN_IF_ERROR(TakesMpi(config, identity).status());
    return alone ? std::unique_ptr<Backend>() : MakeThreads(config, plan, identity, agreement);
  };
  if (config.device == DeviceKind::kCpu || (!alone && !TakesGpu(config))) return on_cpu();
  if (config.transport == TransportKind::kMpi && TakesGpu(config)) {
    return absl::InvalidArgumentError(
        "transport: mpi: a GPU was found, and has NCCL for messages, and tcp beside it; 'device: "
        "cpu' would take mpi");
  }
#ifdef STRINGLINE_HAS_CUDA
  absl::StatusOr<std::unique_ptr<Backend>> backend =
      alone ? MakeRanks(config, plan) : MakeRank(config, identity, agreement);
  if (backend.ok()) return backend;
  const absl::Status status = backend.status();
#else
  (void)plan;
  const absl::Status status = absl::UnavailableError(
      "this stringline was built without CUDA (-DSTRINGLINE_CUDA=ON needs nvcc and the headers of "
      "CUDA 13)");
#endif
  const bool wanted = config.device == DeviceKind::kCuda || !alone;
  if (!wanted && absl::IsUnavailable(status)) return on_cpu();
  return absl::Status(status.code(), absl::StrCat("device: cuda: ", status.message()));
}

void TellOthers(const RunConfig& config, const Identity& identity, const absl::Status& trouble) {
  if (identity.processes == 1) return;
  TcpWorldSettings world;
  world.identity = identity;
  world.trouble = trouble;
  if (!TakesGpu(config) && TakesMpi(config, identity).value_or(false)) {
    (void)MpiWorld::Join(world);
  } else {
    (void)TcpWorld::Join(world);
  }
}

}  // namespace stringline
