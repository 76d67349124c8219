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
  Clock clock;  // of what it comes after
};
using RecordedPtr = std::shared_ptr<Recorded>;

struct Event;

// What runs on a stream or as a node of a graph, and what it is known to use.
struct Run {
  std::function<void()> call;  // null: nothing
  const char* what = "";
  std::vector<Use> uses;
  bool between_devices = false;  // a copy that needs no access to a peer
};

// What other processes take part in, once: asked until it is over.
using Over = std::function<bool()>;

// Something on a stream: waits, runs, records.
struct Op {
  Run run;
  std::shared_ptr<struct GraphRun> graph;  // that was launched
  bool takes_time = false;
  std::shared_ptr<const Clock> host;  // what the host knew to have run
  Over over;                          // null: nothing to wait for
  RecordedPtr wait;
  RecordedPtr record;
  int64_t enqueued_ns = 0;
};

// A graph under capture, or captured.
struct Graph {
  struct Node {
    Run run;
    std::function<Over()> begin;  // of what others take part in: called by every launch
    bool takes_time = false;
    int line = 0;              // of those of the graph: the stream it was on
    int device = -1;           // that stream's
    Event* records = nullptr;  // an external record
    std::vector<int> after;
  };
  std::vector<Node> nodes;
  int lines = 0;
  int first_line = 0;  // of an instantiated one
};

// Multiprocessors of a GPU that are given to some streams alone; also what describes them.
struct SmGroup {
  int device;
  int group;
  int sms;
};

// A launch of a graph: any order that keeps the graph's own.
struct GraphRun {
  explicit GraphRun(std::shared_ptr<const Graph> launched);
  // Of the nodes that can run now, any; -1: there is none.
  int Next(std::mt19937* random);
  // Whether one can.
  bool CanGoOn() const;
  bool Can(int node) const { return !over[node] || over[node](); }

  const std::shared_ptr<const Graph> graph;  // also when it has been destroyed
  std::vector<RecordedPtr> records;          // by node
  std::vector<Over> over;                    // by node; null: nothing to wait for
  std::vector<int> missing;                  // by node: how many it comes after have not run
  std::vector<std::vector<int>> next;        // by node
  std::vector<int> ready;                    // none is missing
  std::vector<Clock> clocks;
  std::vector<int64_t> ended_ns;
  int64_t start_ns = -1;  // -1: it has not begun
  int64_t end_ns = 0;
  bool hangs = false;
};

struct Stream {
  std::deque<Op> ops;
  int device = -1;      // of the legacy stream none: it is every device's
  int64_t time_ns = 0;  // when the last op ended
  bool hangs = false;   // its first op never ends
  int priority = 0;
  int line = 0;
  const SmGroup* sm_group = nullptr;  // null: the device's own
  Clock clock;
  struct Capture* capture = nullptr;
  int line_in_graph = 0;
  std::vector<int> last;  // in a capture: the nodes that the next one comes after
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
  Capture* capture = nullptr;  // the latest record was in this one
  std::vector<int> last;       // after these nodes
};

// A GPU.
struct Device {
  int64_t memory_used = 0;
  int sms = 132;
  std::set<int> peers;  // whose memory it may use besides its own
  std::set<int> apart;  // whose memory it can never use
};

enum class MemoryKind : uint8_t { kPageable, kPinned, kDevice };

// Of the thread.
extern thread_local int current_device;

class Machine {
 public:
  static Machine& Get();

  // Every function of the runtime begins here: counts it, and gives the error that it shall return.
  cudaError_t Enter(const char* name);
  cudaError_t Fail(cudaError_t error);

  // The stream behind a handle, the legacy one for null; null: there is none such.
  Stream* Find(cudaStream_t handle);
  Event* Find(cudaEvent_t handle);
  // Appends to the stream or to the capture it is part of.
  cudaError_t Enqueue(Stream* stream, Run run, bool takes_time = true);
  // Whether work may be launched there: its device is the current one.
  bool MayLaunch(const Stream& stream) const {
    return &stream == &legacy || stream.device == current_device;
  }
  // The same of what other processes take part in, which begins now, or in every launch of what is
  // captured.
  cudaError_t EnqueueUntil(Stream* stream, std::function<Over()> begin);
  cudaError_t Record(Stream* stream, Event* event, bool external);
  cudaError_t Wait(Stream* stream, Event* event);
  // Runs until it holds.
  void RunUntil(const std::function<bool()>& holds);
  // Runs so many ops, if there are so many that can run.
  void RunSome(int64_t most);
  // The host waits until all work of the stream has run.
  void WaitFor(Stream* stream);
  void RunAll();
  // A call that must not be made during a capture (of this thread): ends it.
  cudaError_t Forbidden();
  // The host has seen all that this clock says.
  void HostSaw(const Clock& clock);
  const std::shared_ptr<const Clock>& host() const { return host_; }
  Stream* NewStream(int device, int priority);
  // So many lines that nothing has; returns the first.
  int NewLines(int count);

  bool Has(int device) const { return device >= 0 && device < static_cast<int>(devices.size()); }
  // The device whose memory it is; -1: none's.
  int DeviceOf(const void* pointer) const;
  // Whether work on the device may use it.
  bool Reaches(int device, const void* pointer) const;
  // What runs now uses these bytes.
  void NoteUse(const Use& use);

  MemoryKind KindOf(const void* pointer, size_t bytes, bool* whole) const;
  void Reset(unsigned seed);
  int64_t Alive() const;

  Uses uses;
  std::mutex mutex;
  std::mt19937 random;
  double stick = 0;  // how likely the stream that ran last runs on
  int64_t host_ns = 0;
  int64_t op_ns = 1000, call_ns = 1000;
  int64_t takes_ns = 0;  // what the op that runs takes: op_ns, if it says nothing else
  cudaError_t last_error = cudaSuccess;
  cudaError_t sticky = cudaSuccess;
  int64_t calls = 0, fail_at = 0;
  cudaError_t fail_with = cudaSuccess;
  const char* failed_call = nullptr;
  int64_t ops_run = 0, pageable_copies = 0;
  int64_t until_hang = 0;    // ops that take time, with the one that hangs; 0: none does
  bool may_hang = false;     // then who asks sees all run that can, however seldom he asks
  int64_t memory_bytes = 0;  // of each device
  std::vector<Device> devices;
  std::string fault;  // of the first use of memory that is out of reach

  Stream legacy;
  std::set<Stream*> streams;
  std::set<Event*> events;
  std::map<Graph*, std::shared_ptr<Graph>> graphs;  // instantiated ones too
  std::set<Capture*> captures;
  std::set<SmGroup*> sm_groups;
  std::deque<SmGroup> descriptions;
  std::string without;    // the function that the driver has not
  Capture ended_capture;  // of events whose latest record was in one that is over
  struct Memory {
    size_t bytes;
    MemoryKind kind;
    int device;  // of kDevice
  };
  std::map<const char*, Memory> memory;

 private:
  // Whether this op, which takes time and begins, never ends.
  bool Hangs() { return until_hang > 0 && --until_hang == 0; }
  // Whether one could.
  bool RunNext();
  bool Ready(const Stream& stream) const;
  void RunOne(Stream* stream);
  // One node of the graph that the stream has come to.
  void RunNode(Stream* stream);
  // On that device and line, after what the clock says.
  void Perform(const Run& run, int device, int line, Clock* clock);
  bool AwaitsOthers() const;
  std::shared_ptr<const Clock> host_ = std::make_shared<Clock>();
  int lines_ = 1;  // 0 is the legacy stream's
  std::vector<Stream*> ready_;
  Stream* last_ = nullptr;
  int running_on_ = -1;  // the device of what runs
  const char* running_what_ = "";
};

// Whether a thread of this process captures, in the mode that forbids things to that thread.
extern thread_local Capture* thread_capture;

}  // namespace standin
