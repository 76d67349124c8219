#include "executor/cuda/stream_window.h"

#include <algorithm>

#include "executor/cuda/cuda_error.h"
#include "schedlang/base/status.h"

namespace stringline::cuda {

// Errors are ignored.
StreamWindow::~StreamWindow() {
  for (const Starts& starts : starts_) {
    for (const cudaEvent_t event : starts.events) {
      if (event != nullptr) (void)cudaEventDestroy(event);
    }
  }
}

void StreamWindow::set_stream_launches(int64_t launches) {
  stream_launches_ = launches;
  ExpectLaunches(0);
}

void StreamWindow::ExpectLaunches(int64_t launches) {
  most_launches_ = std::max(most_launches_, launches);
  ahead_ = static_cast<int>(std::min<int64_t>(kMostAhead, stream_launches_ / most_launches_));
}

absl::Status StreamWindow::NoteStart(StreamId stream, Starts* starts) {
  cudaEvent_t& event = starts->events[starts->issued % (kMostAhead + 1)];
  if (event == nullptr) {
    SL_RETURN_IF_ERROR(gpus_->Enter(streams_->place_of(stream)));
    SL_RETURN_IF_ERROR(Checked(cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
                               "cudaEventCreateWithFlags"));
  }
  return streams_->Checked(cudaEventRecord(event, streams_->native(stream)), "cudaEventRecord",
                           stream);
}

absl::StatusOr<bool> StreamWindow::MayIssue(StreamId stream) {
  if (stream_launches_ == 0) return true;
  if (starts_.size() <= static_cast<size_t>(stream.value)) starts_.resize(stream.value + 1);
  Starts& starts = starts_[stream.value];
  if (!starts.noted) SL_RETURN_IF_ERROR(NoteStart(stream, &starts));
  starts.noted = true;
  const auto ahead = static_cast<uint64_t>(ahead_);
  if (starts.issued >= ahead) {
    const cudaError_t error = Query(starts.events[(starts.issued - ahead) % (kMostAhead + 1)]);
    if (error == cudaErrorNotReady) return false;
    SL_RETURN_IF_ERROR(streams_->Checked(error, "cudaEventQuery", stream));
  }
  ++starts.issued;
  starts.noted = false;
  return true;
}

}  // namespace stringline::cuda
