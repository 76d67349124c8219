// Capture of streams as a graph, and its replay.
#include "entry.h"

namespace {

using standin::Capture;
using standin::Graph;
using standin::Stream;

// True if every stream of the capture was joined to the origin: its last nodes precede the
// origin's.
bool Joined(const Capture& capture) {
  const Graph& graph = *capture.graph;
  std::vector<bool> before(graph.nodes.size(), false);
  for (const int node : capture.origin->last) before[node] = true;
  for (int n = static_cast<int>(graph.nodes.size()) - 1; n >= 0; --n) {
    if (!before[n]) continue;
    for (const int earlier : graph.nodes[n].after) before[earlier] = true;
  }
  for (const Stream* const stream : capture.streams) {
    for (const int node : stream->last) {
      if (!before[node]) return false;
    }
  }
  return true;
}

}  // namespace

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  STANDIN_ENTER("cudaStreamBeginCapture");
  STANDIN_FIND(stream, handle);
  if (mode != cudaStreamCaptureModeThreadLocal) return machine.Fail(cudaErrorNotSupported);
  if (stream == &machine.legacy) return machine.Fail(cudaErrorStreamCaptureUnsupported);
  if (stream->capture != nullptr) return machine.Fail(cudaErrorIllegalState);
  auto* const capture = new Capture;
  const auto graph = std::make_shared<Graph>();
  capture->graph = graph.get();
  capture->origin = stream;
  capture->streams = {stream};
  machine.graphs[capture->graph] = graph;
  machine.captures.insert(capture);
  stream->capture = capture;
  stream->line_in_graph = capture->graph->lines++;
  stream->last.clear();
  standin::thread_capture = capture;
  return cudaSuccess;
}

// The capture ends also on an error.
cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  const standin::Inside inside;
  standin::Machine& machine = standin::Machine::Get();
  const std::lock_guard<std::mutex> lock(machine.mutex);
  const cudaError_t entered = machine.Enter("cudaStreamEndCapture");
  STANDIN_FIND(stream, handle);
  *graph = nullptr;
  Capture* const capture = stream->capture;
  if (capture == nullptr) return machine.Fail(cudaErrorIllegalState);
  if (capture->origin != stream) return machine.Fail(cudaErrorStreamCaptureUnmatched);
  if (capture != standin::thread_capture) return machine.Fail(cudaErrorStreamCaptureWrongThread);
  cudaError_t error = entered;
  if (error == cudaSuccess && capture->invalid) error = cudaErrorStreamCaptureInvalidated;
  if (error == cudaSuccess && !Joined(*capture)) error = cudaErrorStreamCaptureUnjoined;
  for (Stream* const member : capture->streams) {
    if (machine.streams.count(member) == 0) continue;
    member->capture = nullptr;
    member->last.clear();
  }
  standin::thread_capture = nullptr;
  machine.captures.erase(capture);
  for (standin::Event* const event : machine.events) {
    if (event->capture == capture) event->capture = &machine.ended_capture;
  }
  Graph* const captured = capture->graph;
  delete capture;
  if (error != cudaSuccess) {
    machine.graphs.erase(captured);
    return machine.Fail(error);
  }
  *graph = reinterpret_cast<cudaGraph_t>(captured);
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  STANDIN_ENTER("cudaStreamIsCapturing");
  STANDIN_FIND(stream, handle);
  *status = stream->capture == nullptr ? cudaStreamCaptureStatusNone
            : stream->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                       : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                 unsigned long long flags) {
  STANDIN_ENTER("cudaGraphInstantiate");
  STANDIN_RETURN_IF_ERROR(machine.Forbidden());
  auto* const captured = reinterpret_cast<Graph*>(graph);
  if (machine.graphs.count(captured) == 0) return machine.Fail(cudaErrorInvalidValue);
  const auto instance = std::make_shared<Graph>(*captured);
  instance->first_line = machine.NewLines(instance->lines);
  machine.graph_flags = flags;
  machine.graphs[instance.get()] = instance;
  *exec = reinterpret_cast<cudaGraphExec_t>(instance.get());
  return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t /*exec*/, cudaStream_t handle) {
  STANDIN_ENTER("cudaGraphUpload");
  STANDIN_FIND(stream, handle);
  return machine.Enqueue(stream, {}, false);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t handle) {
  STANDIN_ENTER("cudaGraphLaunch");
  STANDIN_FIND(stream, handle);
  const auto found = machine.graphs.find(reinterpret_cast<Graph*>(exec));
  if (found == machine.graphs.end()) return machine.Fail(cudaErrorInvalidValue);
  if (stream->capture != nullptr) return machine.Fail(cudaErrorNotSupported);
  STANDIN_RETURN_IF_ERROR(machine.MakeRoom(*stream));
  const auto run = std::make_shared<standin::GraphRun>(found->second);
  for (size_t n = 0; n < run->records.size(); ++n) {
    standin::Event* const event = run->graph->nodes[n].records;
    if (event == nullptr) continue;
    event->capture = nullptr;
    event->recorded = run->records[n];
  }
  standin::Op op;
  op.enqueued_ns = machine.host_ns;
  op.host = machine.host();
  op.graph = run;
  stream->ops.push_back(std::move(op));
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  STANDIN_ENTER("cudaGraphDestroy");
  auto* const captured = reinterpret_cast<Graph*>(graph);
  if (machine.graphs.erase(captured) == 0) return machine.Fail(cudaErrorInvalidValue);
  return cudaSuccess;
}

// Its launches under way go on.
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  STANDIN_ENTER("cudaGraphExecDestroy");
  const auto found = machine.graphs.find(reinterpret_cast<Graph*>(exec));
  if (found == machine.graphs.end()) return machine.Fail(cudaErrorInvalidValue);
  for (Graph::Node& node : found->second->nodes) node.begin = nullptr;
  machine.graphs.erase(found);
  return cudaSuccess;
}

}  // extern "C"
