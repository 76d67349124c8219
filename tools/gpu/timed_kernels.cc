// An op's time is that between its two events. Events are kept and used again.
#include "tools/gpu/timed_kernels.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/cuda/cuda_error.h"
#include "schedlang/base/status.h"
#include "stages/ops.h"

namespace stringline {

TimedKernels::~TimedKernels() {
  for (const Span& span : spans_) {
    free_.push_back(span.begin);
    free_.push_back(span.end);
  }
  for (const cudaEvent_t event : free_) {
    if (event != nullptr) (void)cudaEventDestroy(event);
  }
}

cudaEvent_t TimedKernels::Record(NativeStream stream) {
  cudaEvent_t event = nullptr;
  cudaError_t error = cudaSuccess;
  if (free_.empty()) {
    error = cudaEventCreateWithFlags(&event, cudaEventDefault);
  } else {
    event = free_.back();
    free_.pop_back();
  }
  if (error == cudaSuccess) error = cudaEventRecord(event, static_cast<cudaStream_t>(stream));
  if (error_ == cudaSuccess) error_ = error;
  return event;
}

template <class Launch>
void TimedKernels::Time(const char* name, NativeStream stream, const Launch& launch) {
  const cudaEvent_t begin = Record(stream);
  launch();
  spans_.push_back({name, begin, Record(stream)});
}

absl::StatusOr<ReadyKernel> TimedKernels::ReadyFor(const Graph& graph, const Node& node) {
  SL_ASSIGN_OR_RETURN(ReadyKernel ready, timed_->ReadyFor(graph, node));
  const TimedNode& timed = nodes_.emplace_back(TimedNode{this, ready, RowOf(node.op).name});
  ready.run = RunNode;
  ready.self = &timed;
  return ready;
}

void TimedKernels::RunNode(const void* self, const NodeRun& run) {
  const auto& node = *static_cast<const TimedNode*>(self);
  node.kernels->Time(node.name, run.stream, [&] { node.ready.run(node.ready.self, run); });
}

void TimedKernels::Copy(void* to, const void* from, int64_t bytes, NativeStream stream) {
  Time("copies", stream, [&] { timed_->Copy(to, from, bytes, stream); });
}
void TimedKernels::Add(float* to, const float* from, int64_t count, NativeStream stream) {
  Time("sums of tied gradients", stream, [&] { timed_->Add(to, from, count, stream); });
}
void TimedKernels::ClearBehind(const CountedRows& rows, NativeStream stream) {
  Time("clearing rows", stream, [&] { timed_->ClearBehind(rows, stream); });
}
void TimedKernels::SumOfSquares(absl::Span<const ParamBlock> blocks, double* sums,
                                NativeStream stream) {
  Time("sum of squares", stream, [&] { timed_->SumOfSquares(blocks, sums, stream); });
}
void TimedKernels::Update(const UpdateStep& step, absl::Span<const ParamBlock> blocks,
                          NativeStream stream) {
  Time("update", stream, [&] { timed_->Update(step, blocks, stream); });
}

absl::StatusOr<std::map<std::string, OpTime>> TimedKernels::Take() {
  std::map<std::string, OpTime> times;
  for (const Span& span : std::exchange(spans_, {})) {
    float ms = 0;
    if (error_ == cudaSuccess) error_ = cudaEventElapsedTime(&ms, span.begin, span.end);
    OpTime& of = times[span.name];
    ++of.launches;
    of.us += 1e3 * double{ms};
    free_.push_back(span.begin);
    free_.push_back(span.end);
  }
  if (error_ == cudaSuccess) return times;
  return absl::InternalError(
      absl::StrCat("events: ", cuda::ErrorText(std::exchange(error_, cudaSuccess))));
}

}  // namespace stringline
