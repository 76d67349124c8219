// A device as a GPU has it: streams, on which work runs in order; events, which order work between
// streams; memory, which is taken before the first step.
//
// Nothing runs inside a call: Launch, Copy, Record and Wait only enqueue, and return. Only one
// thread at a time enqueues. A driver of a device never reads the clock and never asks for
// completion, so that the same calls drive a CPU and a GPU, and can be captured as a graph.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schedlang/base/ids.h"

namespace stringline {

using StreamId = Id<struct StreamTag>;
using EventId = Id<struct EventTag>;

// A stream as passed to work: the device's own (a cudaStream_t); null on a CPU, which calls the
// work when its stream reaches the operation.
using NativeStream = void*;

// Work to run: run(self, argument, stream), which cannot fail. A GPU calls it at enqueue time, and
// the work enqueues kernels on the stream. The maker keeps `self` alive until the work has run.
struct Work {
  void (*run)(const void* self, int64_t argument, NativeStream stream) = nullptr;
  const void* self = nullptr;
  int64_t argument = 0;
};

// The start and end of work, by the device's clock.
struct WorkTimes {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

// Stores a moment which other threads may read meanwhile.
inline void NoteNs(int64_t* at, int64_t ns) {
  std::atomic_ref<int64_t>(*at).store(ns, std::memory_order_relaxed);
}

// The name of a stream or an event, composed only when a message needs it.
struct LazyName {
  std::string (*print)(const void* self, int64_t index) = nullptr;
  const void* self = nullptr;
  int64_t index = 0;
};
std::string Print(const LazyName& name);

// Work that is chosen when it is ready: pieces with numbers, on streams of their own, that take
// turns. Any stream tells what has happened, and the choice follows from that. A device calls all
// of these under one lock; they must be short.
enum class TurnOp : uint8_t { kBegin, kCome, kTake, kEnd };
class Turns {
 public:
  virtual ~Turns() = default;
  // Calls the function of the op for a stream; false: the stream waits for its turn.
  bool Perform(TurnOp op, uint32_t number, StreamId stream);
  // From here on a piece may be chosen.
  virtual void Begin() = 0;
  // Something that the piece waits for is there.
  virtual void Come(uint32_t number) = 0;
  // The piece has ended, and with it its turn.
  virtual void End(uint32_t number) = 0;
  // True if the piece has the turn; else its stream waits for it from now on.
  virtual bool Take(uint32_t number, StreamId stream) = 0;
  // Chooses, if the turn is free: the stream that waits for the turn which it has now, or no valid
  // one.
  virtual StreamId Next() = 0;
  // "its turn for 0F3", for reports of deadlocks.
  virtual std::string Describe(uint32_t number) const = 0;
};

// The error for streams in a wait-for cycle: "A waits for B; C waits for D".
absl::Status DeadlockError(absl::string_view stuck);

class Device {
 public:
  virtual ~Device() = default;

  // A device may be several places (GPUs, for example), each with memory of its own. Streams,
  // events and device memory made after MakeFor(rank) are at the place of that rank of the mesh;
  // before the first MakeFor they are at the first place.
  virtual void MakeFor(int /*rank*/) {}
  virtual int places() const { return 1; }
  // True if Allocate returns memory of the host.
  virtual bool is_host() const { return true; }
  virtual int place_of(int /*rank*/) const { return 0; }

  // Called before the first step. `capacity` bounds the operations enqueued on the stream between
  // two calls of Synchronize; more is a bug of the caller.
  virtual StreamId NewStream(LazyName name, int capacity) = 0;
  // A stream of higher priority, for messages and collectives.
  virtual StreamId NewUrgentStream(LazyName name, int capacity) {
    return NewStream(name, capacity);
  }
  virtual EventId NewEvent(LazyName name) = 0;
  // Called before the first step: some Work launches so many kernels. A device whose streams hold
  // only so many stays within that.
  virtual void ExpectLaunches(int64_t /*launches*/) {}
  // `bytes` of zeroed memory, 64-byte aligned, owned by the device. ResourceExhausted if memory is
  // short.
  virtual absl::StatusOr<void*> Allocate(int64_t bytes) = 0;
  // The same in host memory, for copies between host and device.
  virtual absl::StatusOr<void*> AllocateHost(int64_t bytes) = 0;
  // A synchronous copy between any two of these and host memory, for use between steps, when no
  // enqueued work is left.
  virtual absl::Status CopyNow(void* to, const void* from, int64_t bytes) = 0;

  // `times` may be null; it is written when Synchronize returns, at the latest.
  virtual void Launch(StreamId stream, const Work& work, WorkTimes* times) = 0;
  void Launch(StreamId stream, const Work& work) { Launch(stream, work, nullptr); }
  // Copies between the device's memory and that of AllocateHost, in either direction.
  virtual void Copy(StreamId stream, void* to, const void* from, int64_t bytes) = 0;
  // The event happens when everything enqueued on the stream before it has run.
  virtual void Record(StreamId stream, EventId event) = 0;
  // Work enqueued on the stream after this call runs only after the latest Record of the event
  // enqueued before this call has happened. An event without a Record delays nothing.
  virtual void Wait(StreamId stream, EventId event) = 0;

  // True if Turn is there.
  virtual bool HasTurns() const { return false; }
  // Calls the function of `turns`, which outlives the step, when the stream comes to it. Behind a
  // kTake the stream goes on when its piece has the turn.
  virtual void Turn(StreamId stream, Turns* turns, TurnOp op, uint32_t number);

  // The device's clock: nanoseconds since some fixed moment; never goes back.
  virtual int64_t NowNs() const = 0;

  // True if the device shows people the work of its streams, so that Mark is useful.
  virtual bool ShowsMarks() const { return false; }
  // Work enqueued on the stream from here to its next mark belongs to `name`.
  virtual void Mark(StreamId /*stream*/, const LazyName& /*name*/) {}

  // Lets the device start on the work enqueued so far. Synchronize does so too.
  virtual void Submit() = 0;
  // Returns when all enqueued work has run. Errors, after which the device stays in that error:
  //   Aborted          a deadlock: streams wait for each other and no work can run. The
  //                    message names each stuck stream and the event or peer it waits for.
  //   InvalidArgument  the members of a group made different calls (see group.h).
  virtual absl::Status Synchronize() = 0;

  // A step that enqueues the same operations every time may be captured once and then replayed. A
  // device that returns false is never asked to capture.
  virtual bool CanCapture() const { return false; }
  // Captures the enqueued operations, all of a step and none submitted, without running them;
  // returns the argument for Replay. The step should have run once before. If the capture fails,
  // the status says why, and the step stays enqueued: Synchronize performs it as usual.
  virtual absl::StatusOr<int> Capture() {
    return absl::UnimplementedError("the device captures no steps");
  }
  // Runs a captured step once more, alone until Synchronize, which also writes its times. Copies
  // and reads see the memory's present contents.
  virtual void Replay(int /*captured*/) {}
};

}  // namespace stringline
