// Collectives between processes, measured in one process of several: over TCP, over MPI, and those
// of MPI itself. transport_bench.py starts it and makes a table of what it prints.
//
//   transport_bench tcp MOST PORT       with RANK and WORLD_SIZE in the environment
//   transport_bench mpi|theirs MOST     under mpirun
//
// Prints "OPERATION BYTES SECONDS" for each size up to MOST: the time of a call, of calls one after
// the other; the median of several batches of calls.
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
constexpr int64_t kBytesOfBatch = int64_t{1} << 24;  // that its calls move
constexpr int kMostCalls = 40;
constexpr int kBatches = 7;

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
  return absl::InvalidArgumentError("transport_bench tcp MOST PORT | mpi MOST | theirs MOST");
}

// A call of an operation that moves so many bytes of each process; buffers hold kLargest.
using CallIt = std::function<absl::Status(Operation, int64_t bytes)>;

absl::Status Measure(World* world, int64_t most_bytes, const CallIt& call_it) {
  for (const auto& [name, operation] : kOperations) {
    for (const int64_t bytes : kSizes) {
      if (bytes > most_bytes) break;
      const int calls = static_cast<int>(std::clamp<int64_t>(kBytesOfBatch / bytes, 1, kMostCalls));
      SL_RETURN_IF_ERROR(call_it(operation, bytes));
      SL_RETURN_IF_ERROR(world->Exchange("").status());
      SL_RETURN_IF_ERROR(call_it(operation, bytes));  // all have come
      std::vector<double> seconds;
      for (int batch = 0; batch < kBatches; ++batch) {
        const int64_t begin_ns = NowNs();
        for (int i = 0; i < calls; ++i) SL_RETURN_IF_ERROR(call_it(operation, bytes));
        seconds.push_back(static_cast<double>(NowNs() - begin_ns) / 1e9 / calls);
      }
      std::sort(seconds.begin(), seconds.end());
      if (world->process() == 0) {
        std::printf("%s %ld %.9f\n", name, long{bytes}, seconds[kBatches / 2]);
      }
    }
  }
  return absl::OkStatus();
}

// Our groups.
absl::Status MeasureGroups(World* world, int64_t most_bytes, CpuDevice* device, Groups* groups) {
  const int own = world->process(), members = world->processes();
  std::vector<int> ranks(members);
  std::iota(ranks.begin(), ranks.end(), 0);
  Group* const group = groups->New(ranks);
  SL_RETURN_IF_ERROR(groups->Connect());
  const StreamId stream = device->NewStream({}, 8);
  std::vector<float> from(kLargest / sizeof(float), 1), to(from.size());
  std::vector<int32_t> counts(members);
  RowCounts rows = {counts.data(), counts.data(), 1, kLargest / kRowBytes};
  return Measure(world, most_bytes, [&](Operation operation, int64_t bytes) {
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
absl::Status MeasureTheirs(MpiWorld* world, int64_t most_bytes) {
  const mpi::Session& mpi = *world->session();
  const int members = world->processes();
  std::vector<float> from(kLargest / sizeof(float), 1), to(from.size());
  return Measure(world, most_bytes, [&](Operation operation, int64_t bytes) {
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
  int64_t most_bytes = 0;
  if (argc < 3 || !absl::SimpleAtoi(argv[2], &most_bytes)) return Usage();
  const std::string transport = argv[1];
  SL_ASSIGN_OR_RETURN(const auto device, CpuDevice::Make(1));
  TcpWorldSettings settings;
  if (transport == "tcp") {
    if (argc != 4 || !absl::SimpleAtoi(argv[3], &settings.identity.port)) return Usage();
    settings.identity.host = "127.0.0.1";
    settings.identity.process = static_cast<int>(NumberOf("RANK"));
    settings.identity.processes = static_cast<int>(NumberOf("WORLD_SIZE"));
    SL_ASSIGN_OR_RETURN(const auto world, TcpWorld::Join(settings));
    ProcessGroups groups(device.get(), world.get(), {});
    return MeasureGroups(world.get(), most_bytes, device.get(), &groups);
  }
  if (argc != 3 || (transport != "mpi" && transport != "theirs")) return Usage();
  settings.identity.source = "mpirun";
  settings.identity.process = static_cast<int>(NumberOf("OMPI_COMM_WORLD_RANK"));
  settings.identity.processes = static_cast<int>(NumberOf("OMPI_COMM_WORLD_SIZE"));
  SL_ASSIGN_OR_RETURN(const auto world, MpiWorld::Join(settings));
  if (transport == "theirs") return MeasureTheirs(world.get(), most_bytes);
  ProcessGroups groups(device.get(), std::make_unique<MpiWires>(device.get(), world.get(),
                                                                WireSettings(), world->session()));
  return MeasureGroups(world.get(), most_bytes, device.get(), &groups);
}

}  // namespace
}  // namespace stringline

int main(int argc, char** argv) {
  const absl::Status status = stringline::Main(argc, argv);
  if (status.ok()) return 0;
  std::fprintf(stderr, "transport_bench: %s\n", std::string(status.message()).c_str());
  return 1;
}
