// Collectives between processes, measured in one process of several: over TCP, over MPI, and those
// of MPI itself. transport_bench.py starts it and makes a table of what it prints.
//
//   transport_bench tcp PORT       with RANK and WORLD_SIZE in the environment
//   transport_bench mpi|theirs     under mpirun
//
// Prints "OPERATION BYTES SECONDS" for each: the mean time of a call, of calls one after the other.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "executor/cpu/device.h"
#include "executor/mpi/mpi_wires.h"
#include "executor/mpi/mpi_world.h"
#include "executor/processes/group.h"
#include "executor/processes/tcp_world.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

constexpr int64_t kSizes[] = {1 << 10, 1 << 14, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26};
constexpr int64_t kLargest = 1 << 26;
constexpr int64_t kRowBytes = 64;
constexpr int64_t kBytesOfAll = int64_t{1} << 27;  // that the calls of a measurement move
constexpr int kMostCalls = 300;

enum class Operation { kAllReduce, kReduceScatter, kAllToAll };
constexpr std::pair<const char*, Operation> kOperations[] = {
    {"all-reduce", Operation::kAllReduce},
    {"reduce-scatter", Operation::kReduceScatter},
    {"all-to-all", Operation::kAllToAll}};

int64_t NumberOf(const char* name) {
  const char* const text = std::getenv(name);
  int64_t value = -1;
  if (text == nullptr || !absl::SimpleAtoi(text, &value)) return -1;
  return value;
}

absl::Status Usage() {
  return absl::InvalidArgumentError("transport_bench tcp PORT | mpi | theirs");
}

// A call of an operation that moves so many bytes of each process; buffers hold kLargest.
using CallIt = std::function<absl::Status(Operation, int64_t bytes)>;

absl::Status Measure(World* world, const CallIt& call_it) {
  for (const auto& [name, operation] : kOperations) {
    for (const int64_t bytes : kSizes) {
      const int calls = static_cast<int>(std::clamp<int64_t>(kBytesOfAll / bytes, 2, kMostCalls));
      SL_RETURN_IF_ERROR(call_it(operation, bytes));
      SL_RETURN_IF_ERROR(world->Exchange("").status());
      SL_RETURN_IF_ERROR(call_it(operation, bytes));  // all have come
      const int64_t begin_ns = NowNs();
      for (int i = 0; i < calls; ++i) SL_RETURN_IF_ERROR(call_it(operation, bytes));
      const double seconds = static_cast<double>(NowNs() - begin_ns) / 1e9 / calls;
      if (world->process() == 0) std::printf("%s %ld %.9f\n", name, long{bytes}, seconds);
    }
  }
  return absl::OkStatus();
}

// Our groups.
absl::Status MeasureGroups(World* world, CpuDevice* device, Groups* groups) {
  const int own = world->process(), members = world->processes();
  std::vector<int> ranks(members);
  std::iota(ranks.begin(), ranks.end(), 0);
  Group* const group = groups->New(ranks);
  SL_RETURN_IF_ERROR(groups->Connect());
  const StreamId stream = device->NewStream({}, 8);
  std::vector<float> from(kLargest / sizeof(float), 1), to(from.size());
  std::vector<int32_t> counts(members);
  RowCounts rows = {counts.data(), counts.data(), 1, kLargest / kRowBytes};
  return Measure(world, [&](Operation operation, int64_t bytes) {
    Call call;
    call.from = from.data();
    call.to = to.data();
    switch (operation) {
      case Operation::kAllReduce:
        call.kind = CallKind::kAllReduce;
        call.bytes = bytes;
        break;
      case Operation::kReduceScatter:
        call.kind = CallKind::kReduceScatter;
        call.bytes = bytes / members;
        break;
      case Operation::kAllToAll:
        call.kind = CallKind::kAllToAllCounted;
        call.bytes = kRowBytes;
        std::fill(counts.begin(), counts.end(), static_cast<int32_t>(bytes / members / kRowBytes));
        call.rows = &rows;
    }
    group->Enqueue(own, stream, &call);
    return device->Synchronize();
  });
}

// MPI's own collectives, whose sums may be in any order.
absl::Status MeasureTheirs(MpiWorld* world) {
  const mpi::Session& mpi = *world->session();
  const int members = world->processes();
  std::vector<float> from(kLargest / sizeof(float), 1), to(from.size());
  return Measure(world, [&](Operation operation, int64_t bytes) {
    const auto all = static_cast<int>(bytes / sizeof(float)), piece = all / members;
    switch (operation) {
      case Operation::kAllReduce:
        return mpi.library().StatusOf(
            mpi->Allreduce(from.data(), to.data(), all, mpi->real, mpi->sum, mpi->world),
            "Allreduce");
      case Operation::kReduceScatter:
        return mpi.library().StatusOf(mpi->Reduce_scatter_block(from.data(), to.data(), piece,
                                                                mpi->real, mpi->sum, mpi->world),
                                      "Reduce_scatter_block");
      default:
        return mpi.library().StatusOf(
            mpi->Alltoall(from.data(), piece, mpi->real, to.data(), piece, mpi->real, mpi->world),
            "Alltoall");
    }
  });
}

absl::Status Main(int argc, char** argv) {
  if (argc < 2) return Usage();
  const std::string transport = argv[1];
  SL_ASSIGN_OR_RETURN(const auto device, CpuDevice::Make(1));
  TcpWorldSettings settings;
  if (transport == "tcp") {
    if (argc != 3 || !absl::SimpleAtoi(argv[2], &settings.identity.port)) return Usage();
    settings.identity.host = "127.0.0.1";
    settings.identity.process = static_cast<int>(NumberOf("RANK"));
    settings.identity.processes = static_cast<int>(NumberOf("WORLD_SIZE"));
    SL_ASSIGN_OR_RETURN(const auto world, TcpWorld::Join(settings));
    ProcessGroups groups(device.get(), world.get(), {});
    return MeasureGroups(world.get(), device.get(), &groups);
  }
  if (argc != 2 || (transport != "mpi" && transport != "theirs")) return Usage();
  settings.identity.source = "mpirun";
  settings.identity.process = static_cast<int>(NumberOf("OMPI_COMM_WORLD_RANK"));
  settings.identity.processes = static_cast<int>(NumberOf("OMPI_COMM_WORLD_SIZE"));
  SL_ASSIGN_OR_RETURN(const auto world, MpiWorld::Join(settings));
  if (transport == "theirs") return MeasureTheirs(world.get());
  ProcessGroups groups(device.get(), std::make_unique<MpiWires>(device.get(), world.get(),
                                                                WireSettings(), world->session()));
  return MeasureGroups(world.get(), device.get(), &groups);
}

}  // namespace
}  // namespace stringline

int main(int argc, char** argv) {
  const absl::Status status = stringline::Main(argc, argv);
  if (status.ok()) return 0;
  std::fprintf(stderr, "transport_bench: %s\n", std::string(status.message()).c_str());
  return 1;
}
