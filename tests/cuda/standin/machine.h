// The state of the stand-in: streams, events, memory, captures, and the random order of work.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "clocks.h"

namespace standin {

// One record of an event.
struct Recorded {
  bool done = false;
  int64_t time_ns = 0;
  Clock clock;  // after the ops that precede the record
};
using RecordedPtr = std::shared_ptr<Recorded>;

struct Event;

// Work on a stream or in a node of a graph, and its declared uses.
struct Run {
  std::function<void()> call;  // null: no work
  const char* what = "";
  std::vector<Use> uses;
  bool between_devices = false;  // a copy that needs no access to a peer
};

// An operation with other processes, run once: polled until it returns true.
using Over = std::function<bool()>;

// An op of a stream: waits, runs, records.
struct Op {
  Run run;
  std::shared_ptr<struct GraphRun> graph;  // a launched graph
  bool takes_time = false;
  std::shared_ptr<const Clock> host;  // ops that the host knew to have run
  Over over;                          // null: no wait
  RecordedPtr wait;
  RecordedPtr record;
  int64_t enqueued_ns = 0;
};

// A graph under capture, or captured.
struct Graph {
  struct Node {
    Run run;
    std::function<Over()> begin;  // for operations with other processes: called by every launch
    bool takes_time = false;
    int line = 0;              // among the graph's lines: that of its stream
    int device = -1;           // the stream's device
    Event* records = nullptr;  // an external record
    std::vector<int> after;
  };
  std::vector<Node> nodes;
  int lines = 0;
  int first_line = 0;  // in an instantiated graph
};

// Multiprocessors of a GPU reserved for some streams; also their description.
struct SmGroup {
  int device;
  int group;
  int sms;
};

// A launch of a graph, in any order that keeps the graph's dependencies.
struct GraphRun {
  explicit GraphRun(std::shared_ptr<const Graph> launched);
  // A random node among those that can run now; -1: none.
  int Next(std::mt19937* random);
  // True if some node can run.
  bool CanGoOn() const;
  bool Can(int node) const { return !over[node] || over[node](); }

  const std::shared_ptr<const Graph> graph;  // kept alive if destroyed
  std::vector<RecordedPtr> records;          // by node
  std::vector<Over> over;                    // by node; null: no wait
  std::vector<int> missing;                  // by node: number of dependencies that have not run
  std::vector<std::vector<int>> next;        // by node
  std::vector<int> ready;                    // nodes without missing dependencies
  std::vector<Clock> clocks;
  std::vector<int64_t> ended_ns;
  int64_t start_ns = -1;  // -1: not begun
  int64_t end_ns = 0;
  bool hangs = false;
};

struct Stream {
  std::deque<Op> ops;
  int device = -1;      // -1 for the legacy stream, which belongs to every device
  int64_t time_ns = 0;  // the end of the last op
  bool hangs = false;   // its first op never ends
  int priority = 0;
  int line = 0;
  const SmGroup* sm_group = nullptr;  // null: the device's own
  Clock clock;
  struct Capture* capture = nullptr;
  int line_in_graph = 0;
  std::vector<int> last;  // in a capture: the nodes that the next node depends on
};

struct Capture {
  Graph* graph = nullptr;
  Stream* origin = nullptr;
  std::vector<Stream*> streams;
  bool invalid = false;
};

struct Event {
  RecordedPtr recorded;  // the latest; null: none
  bool timed = true;
  int device = 0;
  Capture* capture = nullptr;  // with the latest record, if any
  std::vector<int> last;       // the nodes that the record depends on
};

// A GPU.
struct Device {
  int64_t memory_used = 0;
  int sms = 132;
  std::set<int> peers;  // devices whose memory it may use besides its own
  std::set<int> apart;  // devices whose memory it can never use
};

enum class MemoryKind : uint8_t { kPageable, kPinned, kDevice };

// Per thread.
extern thread_local int current_device;

class Machine {
 public:
  static Machine& Get();

  // Called first by every function of the runtime: counts the call, and gives the error to return.
  cudaError_t Enter(const char* name);
  cudaError_t Fail(cudaError_t error);

  // The stream of a handle, the legacy stream for null; null: no such stream.
  Stream* Find(cudaStream_t handle);
  Event* Find(cudaEvent_t handle);
  // Appends to the stream, or to its capture.
  cudaError_t Enqueue(Stream* stream, Run run, bool takes_time = true);
  // True if work may be launched on the stream: its device is the current one.
  bool MayLaunch(const Stream& stream) const {
    return &stream == &legacy || stream.device == current_device;
  }
  // A stream that holds `stream_depth` launches (kernels, copies, a library's operations, graphs)
  // takes another only when one of them has run, and blocks the host until then. An error if the
  // work already given can never make room.
  cudaError_t MakeRoom(const Stream& stream);
  // The host loads the code of a kernel, unless it has been: at a launch it waits until this GPU is
  // idle. An error if that never comes.
  cudaError_t Load(const void* kernel, const std::string& name, bool at_launch);
  // Appends an operation with other processes, which begins now, or in every launch of the captured
  // graph.
  cudaError_t EnqueueUntil(Stream* stream, std::function<Over()> begin);
  cudaError_t Record(Stream* stream, Event* event, bool external);
  cudaError_t Wait(Stream* stream, Event* event);
  // Runs ops until the condition holds.
  void RunUntil(const std::function<bool()>& holds);
  // Runs up to `most` ops.
  void RunSome(int64_t most);
  // The host waits until all work of the stream has run.
  void WaitFor(Stream* stream);
  void RunAll();
  // Called by functions that are forbidden during a capture of this thread: invalidates the
  // capture.
  cudaError_t Forbidden();
  // The host has seen all ops in this clock.
  void HostSaw(const Clock& clock);
  const std::shared_ptr<const Clock>& host() const { return host_; }
  Stream* NewStream(int device, int priority);
  // Reserves `count` unused lines; returns the first.
  int NewLines(int count);

  bool Has(int device) const { return device >= 0 && device < static_cast<int>(devices.size()); }
  // The device that owns the memory; -1: none.
  int DeviceOf(const void* pointer) const;
  // True if work on the device may use the memory.
  bool Reaches(int device, const void* pointer) const;
  // The running op uses these bytes.
  void NoteUse(const Use& use);
  // All memory that the running op's device may use.
  std::vector<Use> ReachedMemory() const;

  MemoryKind KindOf(const void* pointer, size_t bytes, bool* whole) const;
  void Reset(unsigned seed);
  int64_t Alive() const;

  Uses uses;
  std::mutex mutex;
  std::mt19937 random;
  double stick = 0;  // probability that the last stream goes on
  int64_t host_ns = 0;
  int64_t op_ns = 1000, call_ns = 1000;
  int64_t takes_ns = 0;  // duration of the running op: op_ns by default
  cudaError_t last_error = cudaSuccess;
  cudaError_t sticky = cudaSuccess;
  int64_t calls = 0, fail_at = 0;
  cudaError_t fail_with = cudaSuccess;
  const char* failed_call = nullptr;
  int64_t ops_run = 0, pageable_copies = 0;
  int64_t until_hang = 0;    // number of timed ops up to the hanging op; 0: no op hangs
  bool may_hang = false;     // then a query runs all ready ops, however seldom queries come
  int64_t memory_bytes = 0;  // on each device
  int64_t stream_depth = 0;  // most launches of a stream; 0: any number
  int64_t blocked_ms = 0;    // a host blocked for so long, while nothing here runs, is a hang
  std::string blocked;       // the first such hang
  bool loads_late = false;   // loading waits for the GPU
  std::set<std::pair<int, const void*>> loaded;  // kernels by device
  std::vector<Device> devices;
  std::string fault;                          // the first use of memory out of reach
  std::function<void(const Use&)> watch_use;  // called by NoteUse; null: no watch

  Stream legacy;
  std::set<Stream*> streams;
  std::set<Event*> events;
  std::map<Graph*, std::shared_ptr<Graph>> graphs;  // instantiated ones too
  uint64_t graph_flags = 0;                         // for the newest instantiated graph
  std::set<Capture*> captures;
  std::set<SmGroup*> sm_groups;
  std::deque<SmGroup> descriptions;
  std::string without;    // the driver function that is missing
  Capture ended_capture;  // for events whose latest record was in a capture now over
  struct Memory {
    size_t bytes;
    MemoryKind kind;
    int device;  // for kDevice
  };
  std::map<const char*, Memory> memory;

 private:
  // True if this op, which takes time and begins, never ends.
  bool Hangs() {
    if (until_hang <= 0) return false;
    --until_hang;
    return until_hang == 0;
  }
  // Runs one op; false if none can run.
  bool RunNext();
  bool Ready(const Stream& stream) const;
  void RunOne(Stream* stream);
  // Runs a node of the graph at the head of the stream.
  void RunNode(Stream* stream);
  // On this device and line, after all ops in the clock.
  void Perform(const Run& run, int device, int line, Clock* clock);
  bool AwaitsOthers() const;
  // Runs ops while `blocks` holds; an error once none can run any more.
  cudaError_t BlockWhile(const std::function<bool()>& blocks,
                         const std::function<std::string()>& why);
  std::shared_ptr<const Clock> host_ = std::make_shared<Clock>();
  int lines_ = 1;  // 0 is the legacy stream's
  std::vector<Stream*> ready_;
  Stream* last_ = nullptr;
  int running_on_ = -1;  // the device of the running op
  const char* running_what_ = "";
};

// The capture of a thread, in the mode that forbids it certain calls, or null.
extern thread_local Capture* thread_capture;

}  // namespace standin
