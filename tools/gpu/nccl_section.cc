// Ranks as processes, all on one GPU: NCCL takes each for a host of its own and sends over the
// loopback. Slow, but real: losses must be bitwise those of a single process with copies; and if a
// rank is killed, all others must report it, and end. On a machine with several GPUs, the same with
// ranks on all of them, over their own connections.
#include <signal.h>
#include <stdlib.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "absl/base/casts.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "executor/cuda/backend/cuda_backend.h"
#include "executor/cuda/gpus.h"
#include "executor/nccl/nccl_backend.h"
#include "executor/run/train.h"
#include "schedlang/ask/library_plan.h"
#include "schedlang/base/clock.h"
#include "schedlang/lower/message_order.h"
#include "stages/models/model.h"
#include "tools/gpu/processes.h"
#include "tools/gpu/sections.h"

namespace stringline {
namespace {

constexpr int64_t kMostMs = 60'000;

RunConfig SmallConfig(bool experts, int layers) {
  DecoderShape shape;
  shape.layers = layers;
  shape.width = 32;
  shape.heads = 4;
  shape.kv_heads = 2;
  shape.head_dim = 8;
  shape.hidden = 48;
  shape.context = 16;
  shape.microbatch = 2;
  if (experts) {
    shape.moe.experts = 4;
    shape.moe.top_k = 2;
    shape.moe.expert_hidden = 24;
  }
  RunConfig config;
  config.shape = shape;
  config.steps = 3;
  return config;
}

// The bits of all losses and the number of replayed steps, or the error.
std::string LossesOf(const RunConfig& config, const Plan& plan, std::unique_ptr<Backend> backend,
                     int64_t killed_after = 0) {
  std::string text;
  for (int i = 0; i < 2000; ++i) absl::StrAppend(&text, i * 7919 % 1013, " ");
  TrainHooks hooks;
  hooks.after_step = [killed_after](const TrainStep& step, Trainer&) {
    if (step.step == killed_after) (void)raise(SIGKILL);
    return absl::OkStatus();
  };
  const auto result = Train(config, plan, text, hooks, std::move(backend));
  if (!result.ok()) return result.status().ToString();
  std::string losses = "losses";
  for (const double loss : result->losses_nats) {
    absl::StrAppend(&losses, " ", absl::Hex(absl::bit_cast<uint64_t>(loss)));
  }
  const std::string& why = result->not_captured;
  return absl::StrCat(losses, ", ", result->host.captured_steps, " steps replayed",
                      config.nccl.capture && !why.empty() ? ": " : "",
                      config.nccl.capture ? why : "");
}

std::string InOneProcess(const RunConfig& config, const Plan& plan) {
  Processes one(1, [&](int) -> std::string {
    auto backend = CudaBackend::Make();
    return backend.ok() ? LossesOf(config, plan, *std::move(backend)) : backend.status().ToString();
  });
  return one.Wait(kMostMs)[0];
}

// The number of GPUs, counted by another process, so that this process stays without CUDA.
int Gpus() {
  Processes one(1, [](int) -> std::string { return absl::StrCat(cuda::CountGpus().value_or(0)); });
  int count = 0;
  return absl::SimpleAtoi(one.Wait(kMostMs)[0], &count) ? count : 0;
}

// Makes ranks on one GPU hosts of their own for NCCL, which otherwise refuses them.
void PretendToBeAHost(int rank) {
  const std::string host = absl::StrCat("rank", rank);
  for (const auto& [name, value] :
       {std::pair<const char*, const char*>{"NCCL_HOSTID", host.c_str()},
        {"NCCL_NET", "Socket"},
        {"NCCL_SOCKET_IFNAME", "lo"},
        {"NCCL_PROTO", "Simple"},
        {"NCCL_P2P_DISABLE", "1"},
        {"NCCL_SHM_DISABLE", "1"}}) {
    (void)setenv(name, value, 1);
  }
}

// Every rank's text, each on a GPU of its own or all on the first; rank `victim` is killed after
// its second step.
std::vector<std::string> InProcesses(const RunConfig& config, const Plan& plan, bool own_gpus,
                                     int victim) {
  const int ranks = plan.ranks() * config.mesh.coordinates();
  const int port = FreePort();
  Processes all(ranks, [&](int rank) -> std::string {
    if (!own_gpus) PretendToBeAHost(rank);
    TcpWorldSettings world;
    world.identity.local = own_gpus ? rank : 0;
    world.identity.process = rank;
    world.identity.processes = ranks;
    world.identity.host = "127.0.0.1";
    world.identity.port = port;
    world.join_ms = world.exchange_ms = kMostMs / 2;
    NcclSettings nccl;
    nccl.start_ms = nccl.wait_ms = kMostMs / 2;
    nccl.capture = config.nccl.capture;
    auto backend = NcclBackend::Make(world, nccl);
    if (!backend.ok()) return backend.status().ToString();
    return LossesOf(config, plan, *std::move(backend), rank == victim ? 2 : 0);
  });
  return all.Wait(kMostMs);
}

void CompareLosses(const std::string& name, const RunConfig& config, const Plan& plan,
                   bool own_gpus, CheckRows* rows) {
  const std::string expected = InOneProcess(config, plan);
  if (!absl::StartsWith(expected, "losses")) return rows->Fail(name, "one process: " + expected);
  const int64_t begin_ns = NowNs();
  const std::vector<std::string> said = InProcesses(config, plan, own_gpus, -1);
  const double seconds = static_cast<double>(NowNs() - begin_ns) * 1e-9;
  for (size_t rank = 0; rank < said.size(); ++rank) {
    if (said[rank] == expected) continue;
    return rows->Fail(name, absl::StrCat("rank ", rank, ": ", said[rank], ", and not ", expected));
  }
  rows->Pass(name, absl::StrFormat("%d processes, in every bit as with copies; %.1f s", said.size(),
                                   seconds));
}

// As many ranks as GPUs, in the sizes used on one GPU.
void CompareOnGpus(const std::string& folder, CheckRows* rows) {
  constexpr const char* kName = "each rank on a GPU of its own";
  const int gpus = Gpus();
  if (gpus < 2) return rows->Skip(kName, "this machine has one GPU");
  for (const auto& [schedule, pipeline, experts] :
       {std::tuple<const char*, int, bool>{"zb_v", gpus < 4 ? 2 : 4, false},
        {"dualpipe_v", gpus < 4 ? 1 : 2, true}}) {
    std::optional<Plan> plan = PlanOfSchedule(folder, schedule, pipeline, 2 * pipeline);
    const std::string name = absl::StrCat(schedule, experts ? " experts" : "", ", ", kName);
    if (!plan.has_value()) {
      rows->Fail(name, "no plan");
      continue;
    }
    RunConfig config = SmallConfig(experts, static_cast<int>(plan->stages.size()));
    if (experts) {
      config.mesh.expert = 2;
      plan = ReduceGradients(*plan);
    }
    CompareLosses(name, config, *plan, /*own_gpus=*/true, rows);
  }
}

}  // namespace

void CheckNccl(const std::string& folder, CheckRows* rows) {
  const auto library = nccl::Library::Open();
  if (!library.ok()) return rows->Skip("NCCL", std::string(library.status().message()));
  rows->Pass("NCCL", library->Version());
  const struct {
    const char* schedule;
    int pipeline;
    bool experts;
    const char* with = "";
    bool captured = false;
    int chunks = 1;
    Sharding sharding = Sharding::kNone;
  } runs[] = {
      {"1f1b", 2, false},
      {"zb_v", 4, false},
      {"dualpipe_v", 2, true},
      {"1f1b", 2, false, ", calls captured", true},
      {"dualpipe_v", 2, true, ", calls captured", true},
      {"1f1b", 2, true, ", chunks 2", false, 2},
      {"1f1b", 2, false, ", parameters shared out by buckets", false, 1, Sharding::kParameters},
  };
  for (const auto& run : runs) {
    const bool shared = run.sharding != Sharding::kNone;
    std::optional<Plan> plan =
        PlanOfSchedule(folder, run.schedule, run.pipeline, 2 * run.pipeline, CommLayout::kEdge,
                       CollectivesFor(run.sharding, shared ? 2 : 1));
    const std::string name = absl::StrCat(run.schedule, run.experts ? " experts" : "", run.with);
    if (!plan.has_value()) {
      rows->Fail(name, "no plan");
      continue;
    }
    plan->chunks = run.chunks;
    RunConfig config = SmallConfig(run.experts, static_cast<int>(plan->stages.size()));
    if (run.experts) config.mesh.expert = 2;
    if (shared) config.mesh.data = 2;
    if (run.experts || shared) plan = ReduceGradients(*plan);
    config.sharding = run.sharding;
    if (shared) config.bucket_bytes = 4096;  // several buckets a stage
    config.nccl.capture = run.captured;
    if (run.captured) config.steps = 6;
    CompareLosses(name, config, *plan, /*own_gpus=*/false, rows);
  }
  CompareOnGpus(folder, rows);
  const std::optional<Plan> plan = PlanOfSchedule(folder, "1f1b", 2, 4);
  if (!plan.has_value()) return rows->Fail("a killed rank", "no plan");
  RunConfig config = SmallConfig(false, 2);
  config.steps = 1000;
  const std::vector<std::string> said = InProcesses(config, *plan, /*own_gpus=*/false, 1);
  if (absl::StrContains(said[0], "rank 1 on ")) {
    rows->Pass("a killed rank", said[0]);
  } else {
    rows->Fail("a killed rank", said[0]);
  }
}

}  // namespace stringline
