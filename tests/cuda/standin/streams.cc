// Streams, events and errors. Each function refuses calls forbidden by CUDA, and otherwise calls
// the machine. A query for completion lets a few ops run, so that repeated queries make progress.
#include <algorithm>

#include "entry.h"
#include "standin.h"

namespace {

using standin::Machine;

}  // namespace

extern "C" {

cudaError_t cudaDeviceSynchronize() {
  STANDIN_ENTER("cudaDeviceSynchronize");
  STANDIN_RETURN_IF_ERROR(machine.Forbidden());
  machine.RunAll();
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  STANDIN_ENTER("cudaDeviceGetStreamPriorityRange");
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* handle, unsigned flags, int priority) {
  STANDIN_ENTER("cudaStreamCreateWithPriority");
  // Streams that synchronise with the legacy stream are not supported.
  if (flags != cudaStreamNonBlocking) return machine.Fail(cudaErrorNotSupported);
  standin::Stream* const stream = machine.NewStream(standin::current_device, priority);
  *handle = reinterpret_cast<cudaStream_t>(stream);
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* handle, unsigned flags) {
  return cudaStreamCreateWithPriority(handle, flags, 0);
}

// Its remaining work still runs.
cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  STANDIN_ENTER("cudaStreamDestroy");
  STANDIN_FIND(stream, handle);
  if (stream == &machine.legacy || stream->capture != nullptr) {
    return machine.Fail(cudaErrorInvalidResourceHandle);
  }
  machine.WaitFor(stream);
  machine.streams.erase(stream);
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  STANDIN_ENTER("cudaStreamSynchronize");
  STANDIN_FIND(stream, handle);
  STANDIN_RETURN_IF_ERROR(machine.Forbidden());
  machine.WaitFor(stream);
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  STANDIN_ENTER("cudaStreamQuery");
  STANDIN_FIND(stream, handle);
  STANDIN_RETURN_IF_ERROR(machine.Forbidden());
  if (stream->ops.empty()) {
    machine.host_ns = std::max(machine.host_ns, stream->time_ns);
    machine.HostSaw(stream->clock);
    return cudaSuccess;
  }
  // The answer is that of the moment, and the GPU goes on.
  constexpr int64_t kMostOps = 100;
  const auto some = 1 + static_cast<int64_t>(machine.random() % kMostOps);
  machine.RunSome(machine.may_hang ? INT64_MAX : some);
  return machine.Fail(cudaErrorNotReady);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream_handle, cudaEvent_t event_handle,
                                unsigned flags) {
  STANDIN_ENTER("cudaStreamWaitEvent");
  STANDIN_FIND(stream, stream_handle);
  STANDIN_FIND(event, event_handle);
  if (flags != cudaEventWaitDefault) return machine.Fail(cudaErrorNotSupported);
  return machine.Wait(stream, event);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* handle, unsigned flags) {
  STANDIN_ENTER("cudaEventCreateWithFlags");
  auto* const event = new standin::Event;
  event->timed = (flags & cudaEventDisableTiming) == 0;
  event->device = standin::current_device;
  machine.events.insert(event);
  *handle = reinterpret_cast<cudaEvent_t>(event);
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* handle) {
  return cudaEventCreateWithFlags(handle, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  STANDIN_ENTER("cudaEventDestroy");
  STANDIN_FIND(event, handle);
  machine.events.erase(event);
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event_handle, cudaStream_t stream_handle,
                                     unsigned flags) {
  STANDIN_ENTER("cudaEventRecord");
  STANDIN_FIND(event, event_handle);
  STANDIN_FIND(stream, stream_handle);
  // For any current device.
  if (stream != &machine.legacy && stream->device != event->device) {
    return machine.Fail(cudaErrorInvalidResourceHandle);
  }
  return machine.Record(stream, event, flags == cudaEventRecordExternal);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  STANDIN_ENTER("cudaEventSynchronize");
  STANDIN_FIND(event, handle);
  if (event->capture != nullptr) return machine.Fail(cudaErrorCapturedEvent);
  STANDIN_RETURN_IF_ERROR(machine.Forbidden());
  const standin::RecordedPtr recorded = event->recorded;
  if (recorded == nullptr) return cudaSuccess;
  machine.RunUntil([&recorded] { return recorded->done; });
  machine.HostSaw(recorded->clock);
  machine.host_ns = std::max(machine.host_ns, recorded->time_ns);
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  STANDIN_ENTER("cudaEventQuery");
  STANDIN_FIND(event, handle);
  if (event->capture != nullptr) return machine.Fail(cudaErrorCapturedEvent);
  STANDIN_RETURN_IF_ERROR(machine.Forbidden());
  if (event->recorded == nullptr) return cudaSuccess;
  if (!event->recorded->done) {
    machine.RunSome(1);
    return machine.Fail(cudaErrorNotReady);
  }
  machine.HostSaw(event->recorded->clock);
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start_handle, cudaEvent_t end_handle) {
  STANDIN_ENTER("cudaEventElapsedTime");
  STANDIN_FIND(start, start_handle);
  STANDIN_FIND(end, end_handle);
  if (start->device != end->device || !start->timed || !end->timed || start->recorded == nullptr ||
      end->recorded == nullptr) {
    return machine.Fail(cudaErrorInvalidResourceHandle);
  }
  if (!start->recorded->done || !end->recorded->done) return machine.Fail(cudaErrorNotReady);
  *ms = static_cast<float>(end->recorded->time_ns - start->recorded->time_ns) * 1e-6F;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() {
  Machine& machine = Machine::Get();
  const std::lock_guard<std::mutex> lock(machine.mutex);
  const cudaError_t error = machine.last_error;
  machine.last_error = machine.sticky;
  return error;
}

cudaError_t cudaPeekAtLastError() {
  Machine& machine = Machine::Get();
  const std::lock_guard<std::mutex> lock(machine.mutex);
  return machine.last_error;
}

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define STANDIN_NAME(name) \
  case name:               \
    return #name
    STANDIN_NAME(cudaSuccess);
    STANDIN_NAME(cudaErrorInvalidValue);
    STANDIN_NAME(cudaErrorMemoryAllocation);
    STANDIN_NAME(cudaErrorInvalidConfiguration);
    STANDIN_NAME(cudaErrorInvalidDeviceFunction);
    STANDIN_NAME(cudaErrorInvalidDevice);
    STANDIN_NAME(cudaErrorPeerAccessUnsupported);
    STANDIN_NAME(cudaErrorPeerAccessAlreadyEnabled);
    STANDIN_NAME(cudaErrorNoDevice);
    STANDIN_NAME(cudaErrorInsufficientDriver);
    STANDIN_NAME(cudaErrorInvalidResourceHandle);
    STANDIN_NAME(cudaErrorNotReady);
    STANDIN_NAME(cudaErrorIllegalAddress);
    STANDIN_NAME(cudaErrorLaunchFailure);
    STANDIN_NAME(cudaErrorNotSupported);
    STANDIN_NAME(cudaErrorStreamCaptureUnsupported);
    STANDIN_NAME(cudaErrorStreamCaptureInvalidated);
    STANDIN_NAME(cudaErrorStreamCaptureMerge);
    STANDIN_NAME(cudaErrorStreamCaptureUnmatched);
    STANDIN_NAME(cudaErrorStreamCaptureUnjoined);
    STANDIN_NAME(cudaErrorStreamCaptureIsolation);
    STANDIN_NAME(cudaErrorStreamCaptureImplicit);
    STANDIN_NAME(cudaErrorCapturedEvent);
    STANDIN_NAME(cudaErrorStreamCaptureWrongThread);
#undef STANDIN_NAME
    default:
      return "cudaErrorUnknown";
  }
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorIllegalAddress:
      return Machine::Get().fault.empty() ? "an illegal memory access was encountered"
                                          : Machine::Get().fault.c_str();
    case cudaErrorLaunchFailure:
      return standin_race() != nullptr ? standin_race() : "unspecified launch failure";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorInvalidValue:
      return "invalid argument";
    default:
      return "an error of the stand-in";
  }
}

}  // extern "C"
