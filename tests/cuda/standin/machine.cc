// A stream is a list of ops. Calls only append to it; ops run when the host waits or asks, on a
// random stream among those able to go on: so every order allowed by CUDA may occur. Vector clocks
// record order, so that unordered uses of memory are detected.
#include "machine.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
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
  if (takes_time) STANDIN_RETURN_IF_ERROR(MakeRoom(*stream));
  Op op;
  op.run = std::move(run);
  op.takes_time = takes_time;
  op.enqueued_ns = host_ns;
  op.host = host_;
  stream->ops.push_back(std::move(op));
  return cudaSuccess;
}

cudaError_t Machine::MakeRoom(const Stream& stream) {
  if (stream_depth == 0) return cudaSuccess;
  const auto is_full = [&] {
    return std::count_if(stream.ops.begin(), stream.ops.end(), [](const Op& op) {
             return op.takes_time || op.graph != nullptr;
           }) >= stream_depth;
  };
  return BlockWhile(is_full, [&] {
    return "stream " + std::to_string(stream.line) + " holds " + std::to_string(stream_depth) +
           " launches";
  });
}

cudaError_t Machine::Load(const void* kernel, const std::string& name, bool at_launch) {
  if (!loaded.emplace(current_device, kernel).second || !loads_late || !at_launch) {
    return cudaSuccess;
  }
  const auto is_busy = [&] {
    return std::any_of(streams.begin(), streams.end(), [](const Stream* stream) {
      return stream->device == current_device && !stream->ops.empty();
    });
  };
  return BlockWhile(is_busy, [&] { return "the first launch of " + name + " loads its code"; });
}

// Other processes may be slow, so only real time tells a hang from a wait.
cudaError_t Machine::BlockWhile(const std::function<bool()>& blocks,
                                const std::function<std::string()>& why) {
  using Clock = std::chrono::steady_clock;
  auto last_run = Clock::now();
  while (blocks()) {
    if (RunNext()) {
      last_run = Clock::now();
      continue;
    }
    if (AwaitsOthers() && Clock::now() - last_run < std::chrono::milliseconds(blocked_ms)) {
      (void)usleep(20);
      continue;
    }
    if (blocked.empty()) {
      blocked = "the host is blocked: " + why() + ", and nothing on this GPU can run";
    }
    return Fail(cudaErrorLaunchTimeout);
  }
  return cudaSuccess;
}

cudaError_t Machine::EnqueueUntil(Stream* stream, std::function<Over()> begin) {
  if (stream == &legacy) return Fail(cudaErrorStreamCaptureUnsupported);
  if (stream->capture != nullptr) {
    const cudaError_t error = Enqueue(stream, {});
    if (error == cudaSuccess) stream->capture->graph->nodes.back().begin = std::move(begin);
    return error;
  }
  STANDIN_RETURN_IF_ERROR(MakeRoom(*stream));
  Op op;
  op.over = begin();
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

GraphRun::GraphRun(std::shared_ptr<const Graph> launched)
    : graph(std::move(launched)), next(graph->nodes.size()) {
  for (size_t n = 0; n < graph->nodes.size(); ++n) {
    const Graph::Node& node = graph->nodes[n];
    records.push_back(node.records == nullptr ? nullptr : std::make_shared<Recorded>());
    over.push_back(node.begin ? node.begin() : nullptr);
    missing.push_back(static_cast<int>(node.after.size()));
    for (const int before : node.after) next[before].push_back(static_cast<int>(n));
    if (node.after.empty()) ready.push_back(static_cast<int>(n));
  }
}

bool GraphRun::CanGoOn() const {
  return start_ns < 0 || std::any_of(ready.begin(), ready.end(), [&](int n) { return Can(n); });
}

int GraphRun::Next(std::mt19937* random) {
  std::shuffle(ready.begin(), ready.end(), *random);
  const auto found = std::find_if(ready.begin(), ready.end(), [&](int n) { return Can(n); });
  if (found == ready.end()) return -1;
  const int node = *found;
  ready.erase(found);
  return node;
}

bool Machine::Ready(const Stream& stream) const {
  if (stream.ops.empty() || stream.hangs) return false;
  const Op& head = stream.ops.front();
  if (head.graph != nullptr) return head.graph->CanGoOn();
  if (head.over) return head.over();
  return head.wait == nullptr || head.wait->done;
}

void Machine::RunOne(Stream* stream) {
  if (stream->ops.front().graph != nullptr) return RunNode(stream);
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
  if (op.takes_time) ++ops_run;
  if (op.record != nullptr) {
    op.record->time_ns = stream->time_ns;
    op.record->clock = stream->clock;
    op.record->done = true;
  }
}

void Machine::RunNode(Stream* stream) {
  const Op& op = stream->ops.front();
  const std::shared_ptr<GraphRun> run = op.graph;
  const Graph& graph = *run->graph;
  if (run->start_ns < 0) {
    stream->clock.Merge(*op.host);
    run->start_ns = run->end_ns = std::max(stream->time_ns, op.enqueued_ns);
    run->ended_ns.assign(graph.nodes.size(), run->start_ns);
    run->clocks.assign(graph.nodes.size(), stream->clock);
  }
  if (const int n = run->Next(&random); n >= 0) {
    const Graph::Node& node = graph.nodes[n];
    if (node.takes_time && Hangs()) {
      run->hangs = true;
    } else {
      int64_t begin_ns = run->start_ns;
      for (const int before : node.after) begin_ns = std::max(begin_ns, run->ended_ns[before]);
      for (const int before : node.after) run->clocks[n].Merge(run->clocks[before]);
      takes_ns = op_ns;
      Perform(node.run, node.device, graph.first_line + node.line, &run->clocks[n]);
      stream->clock.Merge(run->clocks[n]);
      run->ended_ns[n] = begin_ns + (node.takes_time ? takes_ns : 0);
      run->end_ns = std::max(run->end_ns, run->ended_ns[n]);
      if (node.takes_time) ++ops_run;
      if (const RecordedPtr& record = run->records[n]; record != nullptr) {
        record->time_ns = run->ended_ns[n];
        record->clock = run->clocks[n];
        record->done = true;
      }
      for (const int after : run->next[n]) {
        if (--run->missing[after] == 0) run->ready.push_back(after);
      }
    }
  }
  if (!run->ready.empty()) return;
  stream->hangs = run->hangs;
  stream->time_ns = run->end_ns;
  if (!run->hangs) stream->ops.pop_front();
}

bool Machine::AwaitsOthers() const {
  return std::any_of(streams.begin(), streams.end(), [](const Stream* stream) {
    if (stream->ops.empty()) return false;
    const Op& head = stream->ops.front();
    return head.over || (head.graph != nullptr && !head.graph->ready.empty());
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
    // Reached only if an op hangs: a wait is always enqueued after its record.
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
  stream_depth = 0;
  blocked_ms = 60'000;
  blocked.clear();
  loads_late = false;
  loaded.clear();
  devices.assign(1, Device());
  current_device = 0;
  fault.clear();
  legacy = Stream();
  uses.Reset();
  host_ = std::make_shared<Clock>();
  lines_ = 1;
  for (Stream* const stream : streams) delete stream;
  for (Event* const event : events) delete event;
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
void standin_use_memory(int64_t bytes) {
  Machine::Get().devices[standin::current_device].memory_used += bytes;
}
void standin_set_stream_depth(int launches, int64_t blocked_ms) {
  Machine::Get().stream_depth = launches;
  Machine::Get().blocked_ms = blocked_ms;
}
void standin_load_late(bool late) { Machine::Get().loads_late = late; }
int standin_load(const void* key, const char* name) {
  Machine& machine = Machine::Get();
  return machine.Load(key, name, /*at_launch=*/true);
}
const char* standin_blocked() {
  const std::string& blocked = Machine::Get().blocked;
  return blocked.empty() ? nullptr : blocked.c_str();
}
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
uint64_t standin_graph_flags() { return Machine::Get().graph_flags; }
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
int standin_enqueue_until(void* handle, const std::function<std::function<bool()>()>& begin) {
  const standin::Inside inside;
  Machine& machine = Machine::Get();
  const std::lock_guard<std::mutex> lock(machine.mutex);
  STANDIN_FIND(stream, static_cast<cudaStream_t>(handle));
  return machine.EnqueueUntil(stream, begin);
}
bool standin_capturing() { return standin::thread_capture != nullptr; }
bool standin_on_device(const void* begin, size_t bytes) {
  Machine& machine = Machine::Get();
  const std::lock_guard<std::mutex> lock(machine.mutex);
  bool whole = false;
  return machine.KindOf(begin, bytes, &whole) == standin::MemoryKind::kDevice && whole;
}

}  // extern "C"
