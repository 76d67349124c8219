#include "executor/cuda/timing_events.h"

#include <algorithm>
#include <cmath>

#include "executor/cuda/cuda_error.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/status.h"

namespace stringline::cuda {

// Errors are ignored.
TimingEvents::~TimingEvents() {
  for (const Clock& clock : clocks_) {
    for (const cudaEvent_t event : clock.timing) (void)cudaEventDestroy(event);
  }
}

absl::Status TimingEvents::Note(StreamId stream, int64_t* ns, bool capturing) {
  if (noted_ == 0 && !capturing) SL_RETURN_IF_ERROR(Start());
  const int place = streams_->place_of(stream);
  Clock& clock = clocks_[place];
  if (clock.noted == clock.timing.size()) {
    cudaEvent_t event = nullptr;
    SL_RETURN_IF_ERROR(gpus_->Enter(place));
    SL_RETURN_IF_ERROR(
        Checked(cudaEventCreateWithFlags(&event, cudaEventDefault), "cudaEventCreateWithFlags"));
    clock.timing.push_back(event);
    times_.push_back({});
  }
  const cudaEvent_t event = clock.timing[clock.noted++];
  times_[noted_++] = {ns, {stream, issuer_->At(stream)}, place, event};
  // Without the flag an event in a graph only orders, and has no time.
  return streams_->Checked(
      cudaEventRecordWithFlags(event, streams_->native(stream),
                               capturing ? cudaEventRecordExternal : cudaEventRecordDefault),
      "cudaEventRecord", stream);
}

absl::Status TimingEvents::Start() {
  for (int place = 0; place < gpus_->count(); ++place) {
    clocks_[place].base_ns = NowNs();
    SL_RETURN_IF_ERROR(
        Checked(cudaEventRecord(gpus_->base(place), gpus_->own(place)), "cudaEventRecord"));
  }
  return absl::OkStatus();
}

void TimingEvents::Replay(absl::Span<const NotedTime> times) {
  std::copy(times.begin(), times.end(), times_.begin());
  noted_ = times.size();
}

absl::Status TimingEvents::Read() {
  for (const NotedTime& time : noted()) {
    const Clock& clock = clocks_[time.gpu];
    float ms = 0;
    SL_RETURN_IF_ERROR(Checked(cudaEventElapsedTime(&ms, gpus_->base(time.gpu), time.event),
                               "cudaEventElapsedTime"));
    *time.ns = clock.base_ns + std::llround(double{ms} * 1e6);
  }
  Forget();
  return absl::OkStatus();
}

void TimingEvents::Forget() {
  noted_ = 0;
  for (Clock& clock : clocks_) clock.noted = 0;
}

}  // namespace stringline::cuda
