#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "executor/cuda/device.h"
#include "schedlang/base/status.h"
#include "tools/gpu/copy_rate.h"
#include "tools/gpu/sections.h"

namespace stringline {
namespace {

constexpr int64_t kNumbers = 1 << 22;
constexpr int64_t kBytes = kNumbers * static_cast<int64_t>(sizeof(int32_t));

LazyName Named(const char* name) {
  return {[](const void* self, int64_t) { return std::string(static_cast<const char*>(self)); },
          name, 0};
}

// Numbers go down one stream and come back on another, many times through the same memory: a
// missing wait would return another round's numbers.
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
