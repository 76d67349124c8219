#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "executor/cuda/device.h"
#include "schedlang/base/status.h"
#include "tools/gpu/sections.h"

namespace stringline {
namespace {

constexpr int64_t kNumbers = 1 << 22;
constexpr int64_t kBytes = kNumbers * static_cast<int64_t>(sizeof(int32_t));

LazyName Named(const char* name) {
  return {[](const void* self, int64_t) { return std::string(static_cast<const char*>(self)); },
          name, 0};
}

// Numbers go down one stream and come back on another, many times over the same memory: one wait
// too few and they are those of another round.
absl::Status SendAround(CudaDevice* device, bool captured) {
  const StreamId down = device->NewStream(Named("down"), 256);
  const StreamId up = device->NewUrgentStream(Named("up"), 256);
  const EventId there = device->NewEvent(Named("there"));
  const EventId back = device->NewEvent(Named("back"));
  constexpr int kRounds = 8;
  SL_ASSIGN_OR_RETURN(void* const from, device->AllocateHost(kRounds * kBytes));
  SL_ASSIGN_OR_RETURN(void* const to, device->AllocateHost(kRounds * kBytes));
  SL_ASSIGN_OR_RETURN(void* const memory, device->Allocate(kBytes));
  auto* const sent = static_cast<int32_t*>(from);
  for (int64_t i = 0; i < kRounds * kNumbers; ++i) sent[i] = static_cast<int32_t>(i * 2654435761u);
  const auto enqueue = [&] {
    for (int round = 0; round < kRounds; ++round) {
      device->Wait(down, back);
      device->Copy(down, memory, static_cast<char*>(from) + round * kBytes, kBytes);
      device->Record(down, there);
      device->Wait(up, there);
      device->Copy(up, static_cast<char*>(to) + round * kBytes, memory, kBytes);
      device->Record(up, back);
    }
  };
  enqueue();
  SL_RETURN_IF_ERROR(device->Synchronize());
  if (captured) {
    std::memset(to, 0, kRounds * kBytes);
    enqueue();
    SL_ASSIGN_OR_RETURN(const int step, device->Capture());
    device->Replay(step);
    SL_RETURN_IF_ERROR(device->Synchronize());
  }
  if (std::memcmp(from, to, kRounds * kBytes) == 0) return absl::OkStatus();
  return absl::DataLossError("what came back is not what was sent");
}

// Bytes read and written a second by copies inside the device.
absl::StatusOr<double> CopyRate(CudaDevice* device) {
  constexpr int64_t kBlock = 256 << 20;
  constexpr int kTimes = 6;
  SL_ASSIGN_OR_RETURN(void* const from, device->Allocate(kBlock));
  SL_ASSIGN_OR_RETURN(void* const to, device->Allocate(kBlock));
  struct Copy {
    void *to, *from;
  } const copy = {to, from};
  const Work work = {[](const void* self, int64_t, NativeStream stream) {
                       const auto& block = *static_cast<const Copy*>(self);
                       // An error comes with the stream's.
                       (void)cudaMemcpyAsync(block.to, block.from, kBlock, cudaMemcpyDeviceToDevice,
                                             static_cast<cudaStream_t>(stream));
                     },
                     &copy, 0};
  const StreamId stream = device->NewStream(Named("copies"), kTimes);
  std::vector<WorkTimes> times(kTimes);
  for (WorkTimes& of : times) device->Launch(stream, work, &of);
  SL_RETURN_IF_ERROR(device->Synchronize());
  int64_t least_ns = times[1].end_ns - times[1].start_ns;
  for (size_t i = 2; i < times.size(); ++i) {
    least_ns = std::min(least_ns, times[i].end_ns - times[i].start_ns);
  }
  return 2e9 * static_cast<double>(kBlock) / static_cast<double>(std::max<int64_t>(1, least_ns));
}

void Report(CheckRows* rows, const char* name, const absl::Status& status) {
  if (status.ok()) {
    rows->Pass(name, "");
  } else {
    rows->Fail(name, std::string(status.message()));
  }
}

}  // namespace

void CheckDevice(CheckRows* rows) {
  auto device = CudaDevice::Make();
  if (!device.ok()) return rows->Fail("device", std::string(device.status().message()));
  Report(rows, "streams, events and copies", SendAround(device->get(), /*captured=*/false));
  Report(rows, "the same, captured", SendAround(device->get(), /*captured=*/true));
  const absl::StatusOr<double> rate = CopyRate(device->get());
  if (!rate.ok()) return rows->Fail("copy rate", std::string(rate.status().message()));
  rows->Pass("copy rate", absl::StrFormat("%.2f TB/s, read and written", *rate * 1e-12));
}

}  // namespace stringline
