#include "tools/gpu/copy_rate.h"

#include <algorithm>
#include <vector>

#include "schedlang/base/status.h"

namespace stringline {

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
  const StreamId stream = device->NewStream({}, kTimes);
  std::vector<WorkTimes> times(kTimes);
  for (WorkTimes& of : times) device->Launch(stream, work, &of);
  SL_RETURN_IF_ERROR(device->Synchronize());
  int64_t least_ns = times[1].end_ns - times[1].start_ns;
  for (size_t i = 2; i < times.size(); ++i) {
    least_ns = std::min(least_ns, times[i].end_ns - times[i].start_ns);
  }
  return 2e9 * static_cast<double>(kBlock) / static_cast<double>(std::max<int64_t>(1, least_ns));
}

}  // namespace stringline
