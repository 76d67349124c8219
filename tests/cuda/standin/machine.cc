#include "machine.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "entry.h"
#include "standin.h"

namespace standin {

thread_local Capture* thread_capture = nullptr;

Machine& Machine::Get() {
  static Machine* const machine = [] {
    auto* made = new Machine;
    made->Reset(1);
    return made;
  }();
  return *machine;
}

namespace {

bool StaysBroken(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorMisalignedAddress:
    case cudaErrorECCUncorrectable:
      return true;
    default:
      return false;
  }
}

}  // namespace

cudaError_t Machine::Fail(cudaError_t error) {
  last_error = error;
  if (StaysBroken(error)) sticky = error;
  return error;
}

cudaError_t Machine::Enter(const char* name) {
  host_ns += call_ns;
  if (sticky != cudaSuccess) return Fail(sticky);
  if (++calls != fail_at) return cudaSuccess;
  failed_call = name;
  return Fail(fail_with);
}

Stream* Machine::Find(cudaStream_t handle) {
  if (handle == nullptr) return &legacy;
  auto* const stream = reinterpret_cast<Stream*>(handle);
  return streams.count(stream) != 0 ? stream : nullptr;
}

Event* Machine::Find(cudaEvent_t handle) {
  auto* const event = reinterpret_cast<Event*>(handle);
  return events.count(event) != 0 ? event : nullptr;
}

cudaError_t Machine::Forbidden() {
  if (thread_capture == nullptr) return cudaSuccess;
  thread_capture->invalid = true;
  return Fail(cudaErrorStreamCaptureUnsupported);
}

cudaError_t Machine::Enqueue(Stream* stream, Run run, bool takes_time) {
  if (stream == &legacy && thread_capture != nullptr) {
    thread_capture->invalid = true;
    return Fail(cudaErrorStreamCaptureImplicit);
  }
  if (Capture* const capture = stream->capture; capture != nullptr) {
    if (capture->invalid) return Fail(cudaErrorStreamCaptureInvalidated);
    Graph::Node node;
    node.run = std::move(run);
    node.takes_time = takes_time;
    node.line = stream->line_in_graph;
    node.device = stream->device;
    node.after = stream->last;
    capture->graph->nodes.push_back(std::move(node));
    stream->last = {static_cast<int>(capture->graph->nodes.size()) - 1};
    return cudaSuccess;
  }
  Op op;
  op.run = std::move(run);
  op.takes_time = takes_time;
  op.enqueued_ns = host_ns;
  op.host = host_;
  stream->ops.push_back(std::move(op));
  return cudaSuccess;
}

cudaError_t Machine::EnqueueUntil(Stream* stream, std::function<bool()> over) {
  if (stream == &legacy || stream->capture != nullptr) {
    return Fail(cudaErrorStreamCaptureUnsupported);
  }
  Op op;
  op.over = std::move(over);
  op.takes_time = true;
  op.enqueued_ns = host_ns;
  op.host = host_;
  stream->ops.push_back(std::move(op));
  return cudaSuccess;
}

cudaError_t Machine::Record(Stream* stream, Event* event, bool external) {
  if (Capture* const capture = stream->capture; capture != nullptr) {
    if (external) {
      const cudaError_t error = Enqueue(stream, {}, false);
      if (error == cudaSuccess) capture->graph->nodes.back().records = event;
      return error;
    }
    if (capture->invalid) return Fail(cudaErrorStreamCaptureInvalidated);
    event->capture = capture;
    event->last = stream->last;
    event->recorded = nullptr;
    return cudaSuccess;
  }
  event->capture = nullptr;
  event->recorded = std::make_shared<Recorded>();
  Op op;
  op.record = event->recorded;
  op.enqueued_ns = host_ns;
  stream->ops.push_back(std::move(op));
  return cudaSuccess;
}

cudaError_t Machine::Wait(Stream* stream, Event* event) {
  Capture* const theirs = event->capture;
  if (theirs == &ended_capture) return Fail(cudaErrorCapturedEvent);
  if (theirs != nullptr) {
    if (stream->capture == nullptr) {
      stream->capture = theirs;
      stream->last = event->last;
      stream->line_in_graph = theirs->graph->lines++;
      theirs->streams.push_back(stream);
      return cudaSuccess;
    }
    if (stream->capture != theirs) {
      stream->capture->invalid = theirs->invalid = true;
      return Fail(cudaErrorStreamCaptureMerge);
    }
    if (theirs->invalid) return Fail(cudaErrorStreamCaptureInvalidated);
    std::vector<int>& last = stream->last;
    last.insert(last.end(), event->last.begin(), event->last.end());
    std::sort(last.begin(), last.end());
    last.erase(std::unique(last.begin(), last.end()), last.end());
    return cudaSuccess;
  }
  if (stream->capture != nullptr) {
    stream->capture->invalid = true;
    return Fail(cudaErrorStreamCaptureIsolation);
  }
  if (event->recorded == nullptr) return cudaSuccess;
  Op op;
  op.wait = event->recorded;
  op.enqueued_ns = host_ns;
  stream->ops.push_back(std::move(op));
  return cudaSuccess;
}

bool Machine::Ready(const Stream& stream) const {
  if (stream.ops.empty() || stream.hangs) return false;
  const Op& head = stream.ops.front();
  if (head.over) return head.over();
  return head.wait == nullptr || head.wait->done;
}

void Machine::RunOne(Stream* stream) {
  if (stream->ops.front().takes_time && Hangs()) {
    stream->hangs = true;
    return;
  }
  const Op op = std::move(stream->ops.front());
  stream->ops.pop_front();
  int64_t start_ns = std::max(stream->time_ns, op.enqueued_ns);
  if (op.wait != nullptr) start_ns = std::max(start_ns, op.wait->time_ns);
  if (op.host != nullptr) stream->clock.Merge(*op.host);
  if (op.wait != nullptr) stream->clock.Merge(op.wait->clock);
  takes_ns = op_ns;
  Perform(op.run, stream->device, stream->line, &stream->clock);
  stream->time_ns = start_ns + (op.takes_time ? takes_ns : 0);
  if (op.replay) {
    stream->time_ns = op.replay(start_ns);
    stream->hangs = stream->time_ns < 0;
    if (stream->hangs) return stream->ops.push_front(Op());
  }
  if (op.takes_time) ++ops_run;
  if (op.record != nullptr) {
    op.record->time_ns = stream->time_ns;
    op.record->clock = stream->clock;
    op.record->done = true;
  }
}

bool Machine::AwaitsOthers() const {
  return std::any_of(streams.begin(), streams.end(), [](const Stream* stream) {
    return !stream->ops.empty() && stream->ops.front().over;
  });
}

bool Machine::RunNext() {
  ready_.clear();
  bool last_is_ready = false;
  const auto look = [&](Stream* stream) {
    if (!Ready(*stream)) return;
    ready_.push_back(stream);
    last_is_ready = last_is_ready || stream == last_;
  };
  look(&legacy);
  for (Stream* const stream : streams) look(stream);
  if (ready_.empty()) return false;
  if (!last_is_ready || std::uniform_real_distribution<>()(random) >= stick) {
    last_ = ready_[random() % ready_.size()];
  }
  RunOne(last_);
  return true;
}

void Machine::RunSome(int64_t most) {
  while (most > 0 && RunNext()) --most;
}

void Machine::RunUntil(const std::function<bool()>& holds) {
  while (!holds()) {
    if (RunNext()) continue;
    if (AwaitsOthers()) {
      (void)usleep(20);
      continue;
    }
    // No order of calls leads here, unless something hangs: a wait is enqueued after what it waits
    // for.
    std::fprintf(stderr, "stand-in: a wait that nothing ends\n");
    std::abort();
  }
  host_ns += call_ns;
}

void Machine::Perform(const Run& run, int device, int line, Clock* clock) {
  if (run.call == nullptr) return;
  running_on_ = run.between_devices ? -1 : device;
  running_what_ = run.what;
  clock->Tick(line);
  uses.Begin(line, *clock, run.what);
  for (const Use& use : run.uses) NoteUse(use);
  run.call();
  if (!fault.empty() && sticky == cudaSuccess) (void)Fail(cudaErrorIllegalAddress);
  if (uses.race().empty() || sticky != cudaSuccess) return;
  (void)Fail(cudaErrorLaunchFailure);
}

void Machine::HostSaw(const Clock& clock) {
  Clock now = *host_;
  if (now.Merge(clock)) host_ = std::make_shared<Clock>(std::move(now));
}

Stream* Machine::NewStream(int device, int priority) {
  auto* const stream = new Stream;
  stream->device = device;
  stream->priority = std::clamp(priority, -5, 0);
  stream->line = NewLines(1);
  streams.insert(stream);
  return stream;
}

int Machine::NewLines(int count) {
  lines_ += count;
  return lines_ - count;
}

void Machine::WaitFor(Stream* stream) {
  RunUntil([stream] { return stream->ops.empty(); });
  HostSaw(stream->clock);
  host_ns = std::max(host_ns, stream->time_ns);
}

void Machine::RunAll() {
  WaitFor(&legacy);
  for (Stream* const stream : streams) WaitFor(stream);
}

// Any order that keeps the graph's own.
int64_t Machine::RunGraph(const Graph& graph, const std::vector<RecordedPtr>& records,
                          int64_t start_ns, Stream* stream) {
  const Clock before_graph = stream->clock;
  std::vector<Clock> clocks(graph.nodes.size(), before_graph);
  std::vector<int> missing, ready;
  std::vector<std::vector<int>> next(graph.nodes.size());
  std::vector<int64_t> ended_ns(graph.nodes.size(), start_ns);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    missing.push_back(static_cast<int>(graph.nodes[n].after.size()));
    for (const int before : graph.nodes[n].after) next[before].push_back(static_cast<int>(n));
    if (missing.back() == 0) ready.push_back(static_cast<int>(n));
  }
  int64_t end_ns = start_ns;
  bool hangs = false;
  while (!ready.empty()) {
    std::swap(ready[random() % ready.size()], ready.back());
    const int n = ready.back();
    ready.pop_back();
    const Graph::Node& node = graph.nodes[n];
    if (node.takes_time && Hangs()) {
      hangs = true;
      continue;
    }
    int64_t begin_ns = start_ns;
    for (const int before : node.after) begin_ns = std::max(begin_ns, ended_ns[before]);
    for (const int before : node.after) clocks[n].Merge(clocks[before]);
    takes_ns = op_ns;
    Perform(node.run, node.device, graph.first_line + node.line, &clocks[n]);
    stream->clock.Merge(clocks[n]);
    ended_ns[n] = begin_ns + (node.takes_time ? takes_ns : 0);
    end_ns = std::max(end_ns, ended_ns[n]);
    if (node.takes_time) ++ops_run;
    if (records[n] != nullptr) {
      records[n]->time_ns = ended_ns[n];
      records[n]->clock = clocks[n];
      records[n]->done = true;
    }
    for (const int after : next[n]) {
      if (--missing[after] == 0) ready.push_back(after);
    }
  }
  return hangs ? -1 : end_ns;
}

MemoryKind Machine::KindOf(const void* pointer, size_t bytes, bool* whole) const {
  *whole = true;
  const auto* const at = static_cast<const char*>(pointer);
  auto found = memory.upper_bound(at);
  if (found == memory.begin()) return MemoryKind::kPageable;
  --found;
  const char* const end = found->first + found->second.bytes;
  if (at >= end) return MemoryKind::kPageable;
  *whole = at + bytes <= end;
  return found->second.kind;
}

void Machine::Reset(unsigned seed) {
  random.seed(seed);
  static constexpr double kSticks[] = {0, 0.5, 0.95};
  stick = kSticks[random() % 3];
  host_ns = 0;
  op_ns = call_ns = 1000;
  last_error = sticky = fail_with = cudaSuccess;
  calls = fail_at = ops_run = pageable_copies = until_hang = 0;
  failed_call = nullptr;
  may_hang = false;
  memory_bytes = int64_t{1} << 30;
  devices.assign(1, Device());
  current_device = 0;
  fault.clear();
  legacy = Stream();
  uses.Reset();
  host_ = std::make_shared<Clock>();
  lines_ = 1;
  for (Stream* const stream : streams) delete stream;
  for (Event* const event : events) delete event;
  for (Graph* const graph : graphs) delete graph;
  for (Capture* const capture : captures) delete capture;
  for (const auto& [address, piece] : memory) std::free(const_cast<char*>(address));
  for (SmGroup* const context : sm_groups) delete context;
  sm_groups.clear();
  descriptions.clear();
  without.clear();
  streams.clear();
  events.clear();
  graphs.clear();
  captures.clear();
  memory.clear();
  thread_capture = nullptr;
  last_ = nullptr;
}

int64_t Machine::Alive() const {
  return static_cast<int64_t>(streams.size() + events.size() + graphs.size() + captures.size() +
                              sm_groups.size() + memory.size());
}

}  // namespace standin

using standin::Machine;

extern "C" {

void standin_reset(unsigned seed) { Machine::Get().Reset(seed); }
void standin_fail_call(int64_t n, int error) {
  Machine& machine = Machine::Get();
  machine.calls = 0;
  machine.fail_at = n;
  machine.fail_with = static_cast<cudaError_t>(error);
  machine.failed_call = nullptr;
}
int64_t standin_calls() { return Machine::Get().calls; }
const char* standin_failed_call() { return Machine::Get().failed_call; }
void standin_hang_op(int64_t n) {
  Machine::Get().until_hang = n;
  Machine::Get().may_hang = n > 0;
}
void standin_set_memory(int64_t bytes) { Machine::Get().memory_bytes = bytes; }
void standin_use_memory(int64_t bytes) { Machine::Get().memory_used += bytes; }
void standin_set_op_ns(int64_t ns) { Machine::Get().op_ns = ns; }
void standin_set_call_ns(int64_t ns) { Machine::Get().call_ns = ns; }
int64_t standin_alive() { return Machine::Get().Alive(); }
int64_t standin_pageable_copies() { return Machine::Get().pageable_copies; }
int64_t standin_ops_run() { return Machine::Get().ops_run; }
int64_t standin_ops_pending() {
  int64_t pending = 0;
  const auto count = [&pending](const standin::Stream& stream) {
    for (const standin::Op& op : stream.ops) pending += op.takes_time ? 1 : 0;
  };
  count(Machine::Get().legacy);
  for (const standin::Stream* const stream : Machine::Get().streams) count(*stream);
  return pending;
}
bool standin_inside() { return standin::Inside::depth > 0; }
int standin_priority(void* stream) {
  return Machine::Get().Find(static_cast<cudaStream_t>(stream))->priority;
}
void standin_enter(int by) { standin::Inside::depth += by; }
int standin_enqueue(void* handle, const char* what, const std::function<void()>& run) {
  const standin::Inside inside;
  Machine& machine = Machine::Get();
  const std::lock_guard<std::mutex> lock(machine.mutex);
  STANDIN_FIND(stream, static_cast<cudaStream_t>(handle));
  if (!machine.MayLaunch(*stream)) return machine.Fail(cudaErrorInvalidResourceHandle);
  return machine.Enqueue(stream, {run, what, {}});
}
void standin_wait() {
  const standin::Inside inside;
  Machine& machine = Machine::Get();
  const std::lock_guard<std::mutex> lock(machine.mutex);
  machine.RunAll();
}
const char* standin_race() {
  const std::string& race = Machine::Get().uses.race();
  return race.empty() ? nullptr : race.c_str();
}
int standin_enqueue_until(void* handle, const std::function<bool()>& over) {
  const standin::Inside inside;
  Machine& machine = Machine::Get();
  const std::lock_guard<std::mutex> lock(machine.mutex);
  STANDIN_FIND(stream, static_cast<cudaStream_t>(handle));
  return machine.EnqueueUntil(stream, over);
}
bool standin_capturing() { return standin::thread_capture != nullptr; }
bool standin_on_device(const void* begin, size_t bytes) {
  Machine& machine = Machine::Get();
  const std::lock_guard<std::mutex> lock(machine.mutex);
  bool whole = false;
  return machine.KindOf(begin, bytes, &whole) == standin::MemoryKind::kDevice && whole;
}

}  // extern "C"
