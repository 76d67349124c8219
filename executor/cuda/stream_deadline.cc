// At first a wait polls the GPU continuously, then it sleeps between polls, each time for a
// thousandth of the time waited so far.
#include "executor/cuda/stream_deadline.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "executor/cuda/cuda_error.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/status.h"

namespace stringline::cuda {
namespace {

constexpr int64_t kSpinNs = 200'000;
constexpr int64_t kLeastSleepNs = 20'000;
constexpr int64_t kMostSleepNs = 1'000'000;
// Bound on the wait for remaining work after an error.
constexpr int64_t kQuietNs = 10'000'000'000;

}  // namespace

// True if the stream's work ends before `most_ns` (0: no limit) have passed since start_ns.
absl::StatusOr<bool> StreamDeadline::WaitFor(cudaStream_t stream, StreamId id, int64_t start_ns,
                                             int64_t most_ns, bool watched) {
  std::optional<SharpTimers> timers;
  for (;;) {
    const cudaError_t error = Query(stream);
    if (error != cudaErrorNotReady) {
      SL_RETURN_IF_ERROR(streams_->Checked(error, "cudaStreamQuery", id));
      return true;
    }
    const int64_t waited_ns = NowNs() - start_ns;
    if (most_ns > 0 && waited_ns >= most_ns) return false;
    if (waited_ns < kSpinNs) continue;
    for (const DeviceCheck& watch : watches_) {
      if (watched) SL_RETURN_IF_ERROR(watch.check(watch.self));
    }
    if (!timers) timers.emplace();
    int64_t sleep_ns = std::clamp(waited_ns / 1000, kLeastSleepNs, kMostSleepNs);
    if (most_ns > 0) sleep_ns = std::min(sleep_ns, most_ns - waited_ns);
    std::this_thread::sleep_for(std::chrono::nanoseconds(sleep_ns));
  }
}

absl::Status StreamDeadline::Wait(const StepOps* replayed) {
  const int64_t start_ns = NowNs();
  const bool owns_used = !timing_->noted().empty() || replayed != nullptr;
  for (int s = 0; s < issuer_->streams() + gpus_->count(); ++s) {
    const int place = s - issuer_->streams();
    if (place >= 0 ? !owns_used : !issuer_->Used(StreamId(s))) continue;
    const StreamId id = place >= 0 ? StreamId() : StreamId(s);
    SL_ASSIGN_OR_RETURN(const bool ended,
                        WaitFor(place >= 0 ? gpus_->own(place) : streams_->native(id), id, start_ns,
                                timeout_ns_, /*watched=*/true));
    if (!ended) return Unfinished(replayed);
  }
  return absl::OkStatus();
}

absl::Status StreamDeadline::AwaitRoom(bool first) {
  if (first) without_room_ns_ = NowNs();
  for (const DeviceCheck& watch : watches_) SL_RETURN_IF_ERROR(watch.check(watch.self));
  const int64_t waited_ns = NowNs() - without_room_ns_;
  if (timeout_ns_ > 0 && waited_ns >= timeout_ns_) return Unfinished(nullptr);
  if (waited_ns >= kSpinNs) std::this_thread::sleep_for(std::chrono::nanoseconds(kLeastSleepNs));
  return absl::OkStatus();
}

// Issued operations depend only on issued ones, so the GPU drains even in a deadlock, unless a
// kernel or a peer hangs.
void StreamDeadline::WaitQuietly() {
  if (quiet_) return;
  quiet_ = true;
  const int64_t start_ns = NowNs();
  const int64_t most_ns = timeout_ns_ > 0 ? std::min(timeout_ns_, kQuietNs) : kQuietNs;
  std::vector<cudaStream_t> all;
  for (int s = 0; s < streams_->count(); ++s) all.push_back(streams_->native(StreamId(s)));
  for (int place = 0; place < gpus_->count(); ++place) all.push_back(gpus_->own(place));
  for (const cudaStream_t stream : all) {
    if (abandoned_) break;
    if (stream == nullptr) continue;
    const auto ended = WaitFor(stream, StreamId(), start_ns, most_ns, /*watched=*/false);
    abandoned_ = ended.ok() && !*ended;
  }
}

// The error of a missed deadline.
absl::Status StreamDeadline::Unfinished(const StepOps* replayed) {
  abandoned_ = quiet_ = true;
  const std::string what =
      absl::StrCat("the GPU has not ended its work within ", timeout_ns_ / 1'000'000, " ms: ");
  if (replayed != nullptr && timing_->noted().empty()) {
    return absl::DeadlineExceededError(absl::StrCat(what, "a captured step, without times"));
  }
  const StepOps ops = replayed != nullptr ? *replayed : issuer_->Ops();
  std::vector<uint32_t> ended(ops.size(), 0);
  const auto ends = [&ended](OpPlace place, uint32_t by) {
    uint32_t& of = ended[place.stream.value];
    of = std::max(of, place.op + by);
  };
  // In a replay the streams are empty, and only the timed events of the graph can be queried.
  for (size_t s = 0; s < ops.size() && replayed == nullptr; ++s) {
    const cudaStream_t stream = streams_->native(StreamId(static_cast<int32_t>(s)));
    if (Query(stream) == cudaSuccess) ended[s] = static_cast<uint32_t>(ops[s].size());
  }
  const std::vector<OpPlace> records = RecordsOf(ops, issuer_->events());
  for (size_t e = 0; e < records.size() && replayed == nullptr; ++e) {
    if (!records[e].stream.valid()) continue;
    const cudaEvent_t event = streams_->event(EventId(static_cast<int32_t>(e)));
    if (Query(event) == cudaSuccess) ends(records[e], 1);
  }
  for (const NotedTime& time : timing_->noted()) {
    const IssueOp& op = ops[time.place.stream.value][time.place.op];
    const bool begins = op.kind == StreamOpKind::kLaunch && time.ns == &op.times->start_ns;
    if (Query(time.event) == cudaSuccess) ends(time.place, begins ? 0 : 1);
  }
  return absl::DeadlineExceededError(absl::StrCat(what, DescribeProgress(*issuer_, ops, ended)));
}

}  // namespace stringline::cuda
