// The part of the CUDA device that waits for the GPU: not longer than a deadline, and asking others
// meanwhile. At first it asks the GPU again and again, then it sleeps a little in between, the
// longer the longer it waits already: a thousandth of that.
#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "executor/clock.h"
#include "executor/cuda/device.h"
#include "executor/cuda/progress.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

constexpr int64_t kSpinNs = 200'000;
constexpr int64_t kLeastSleepNs = 20'000;
constexpr int64_t kMostSleepNs = 1'000'000;
// How long what is left after an error may take.
constexpr int64_t kQuietNs = 10'000'000'000;

}  // namespace

void CudaDevice::AddWatch(absl::Status (*check)(const void*), const void* self) {
  watches_.push_back({check, self});
}

absl::StatusOr<bool> CudaDevice::WaitFor(cudaStream_t stream, StreamId id, int64_t start_ns,
                                         int64_t most_ns, bool watched) {
  std::optional<SharpTimers> timers;
  for (;;) {
    const cudaError_t error = cudaStreamQuery(stream);
    if (error != cudaErrorNotReady) {
      SL_RETURN_IF_ERROR(Checked(error, "cudaStreamQuery", id));
      return true;
    }
    (void)cudaGetLastError();  // it is none
    const int64_t waited_ns = NowNs() - start_ns;
    if (most_ns > 0 && waited_ns >= most_ns) return false;
    if (waited_ns < kSpinNs) continue;
    for (const Check& watch : watches_) {
      if (watched) SL_RETURN_IF_ERROR(watch.check(watch.self));
    }
    if (!timers) timers.emplace();
    int64_t sleep_ns = std::clamp(waited_ns / 1000, kLeastSleepNs, kMostSleepNs);
    if (most_ns > 0) sleep_ns = std::min(sleep_ns, most_ns - waited_ns);
    std::this_thread::sleep_for(std::chrono::nanoseconds(sleep_ns));
  }
}

absl::Status CudaDevice::WaitForStreams() {
  const int64_t start_ns = NowNs();
  const bool owns_used = noted_ > 0 || replaying();
  for (int s = 0; s < issuer_.streams() + places(); ++s) {
    const int place = s - issuer_.streams();
    if (place >= 0 ? !owns_used : !issuer_.Used(StreamId(s))) continue;
    const StreamId id = place >= 0 ? StreamId() : StreamId(s);
    SL_ASSIGN_OR_RETURN(const bool ended, WaitFor(place >= 0 ? gpus_[place].own : native(id), id,
                                                  start_ns, timeout_ns_, /*watched=*/true));
    if (!ended) return Unfinished();
  }
  return absl::OkStatus();
}

// What was issued refers to nothing that was not, so it comes to an end, also in a deadlock; but
// not where a kernel or a peer hangs.
void CudaDevice::WaitQuietly() {
  const int64_t start_ns = NowNs();
  const int64_t most_ns = timeout_ns_ > 0 ? std::min(timeout_ns_, kQuietNs) : kQuietNs;
  std::vector<cudaStream_t> all = natives_;
  for (const Gpu& gpu : gpus_) all.push_back(gpu.own);
  for (const cudaStream_t stream : all) {
    if (abandoned_) break;
    if (stream == nullptr) continue;
    const auto ended = WaitFor(stream, StreamId(), start_ns, most_ns, /*watched=*/false);
    abandoned_ = ended.ok() && !*ended;
  }
  (void)cudaGetLastError();
}

absl::Status CudaDevice::Unfinished() {
  abandoned_ = quiet_ = true;
  const std::string what =
      absl::StrCat("the GPU has not ended its work within ", timeout_ns_ / 1'000'000, " ms: ");
  if (replaying() && noted_ == 0) {
    return absl::DeadlineExceededError(absl::StrCat(what, "a captured step, without times"));
  }
  const StepOps ops = replaying() ? captured_[replayed_].ops : issuer_.Ops();
  std::vector<uint32_t> ended(ops.size(), 0);
  const auto ends = [&ended](OpPlace place, uint32_t by) {
    uint32_t& of = ended[place.stream.value];
    of = std::max(of, place.op + by);
  };
  // In a replay the streams have nothing, and of the graph's events only those that are timed can
  // be asked.
  for (size_t s = 0; s < ops.size() && !replaying(); ++s) {
    if (cudaStreamQuery(natives_[s]) == cudaSuccess)
      ended[s] = static_cast<uint32_t>(ops[s].size());
  }
  const std::vector<OpPlace> records = RecordsOf(ops, issuer_.events());
  for (size_t e = 0; e < records.size() && !replaying(); ++e) {
    if (!records[e].stream.valid()) continue;
    if (cudaEventQuery(events_[e]) == cudaSuccess) ends(records[e], 1);
  }
  for (size_t i = 0; i < noted_; ++i) {
    const IssueOp& op = ops[times_[i].place.stream.value][times_[i].place.op];
    const bool begins = op.kind == StreamOpKind::kLaunch && times_[i].ns == &op.times->start_ns;
    if (cudaEventQuery(times_[i].event) == cudaSuccess) ends(times_[i].place, begins ? 0 : 1);
  }
  (void)cudaGetLastError();
  return absl::DeadlineExceededError(absl::StrCat(what, DescribeProgress(issuer_, ops, ended)));
}

}  // namespace stringline
