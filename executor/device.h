// A device as a GPU has it: streams, on which work runs in order; events, which order work between
// streams; memory, which is taken before the first step.
//
// Nothing here runs at once: Launch, Copy, Record and Wait only enqueue, and return. One thread at
// a time enqueues. Whoever drives a device never looks at the clock and never asks what has
// finished, so that the same calls drive a CPU and a GPU, and could be captured as one graph.
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

// A stream as work sees it: the device's own (a cudaStream_t); null on a CPU, where work is called
// when its stream comes to it.
using NativeStream = void*;

// Something to do: run(self, argument, stream). It cannot fail. A GPU calls it at once, and it
// enqueues kernels on the stream. Whoever makes it keeps `self` alive until the work has run.
struct Work {
  void (*run)(const void* self, int64_t argument, NativeStream stream) = nullptr;
  const void* self = nullptr;
  int64_t argument = 0;
};

// When work began and ended, by the device's clock.
struct WorkTimes {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

// Writes down a moment at which others may look meanwhile.
inline void NoteNs(int64_t* at, int64_t ns) {
  std::atomic_ref<int64_t>(*at).store(ns, std::memory_order_relaxed);
}

// A name for a stream or an event that is made up only when a message needs it.
struct LazyName {
  std::string (*print)(const void* self, int64_t index) = nullptr;
  const void* self = nullptr;
  int64_t index = 0;
};
std::string Print(const LazyName& name);

// Of streams that wait for each other: "A waits for B; C waits for D".
absl::Status DeadlockError(absl::string_view stuck);

class Device {
 public:
  virtual ~Device() = default;

  // A device may be several places, each with memory of its own, GPUs for example. What is made
  // after MakeFor(rank), streams, events and memory of the device, is where that rank of the mesh
  // is; before it on the first place.
  virtual void MakeFor(int /*rank*/) {}
  virtual int places() const { return 1; }
  // Whether what Allocate gives is memory of the host.
  virtual bool is_host() const { return true; }
  virtual int place_of(int /*rank*/) const { return 0; }

  // Before the first step. `capacity` is the most that will ever be enqueued on the stream between
  // two calls of Synchronize; more is a bug of the caller.
  virtual StreamId NewStream(LazyName name, int capacity) = 0;
  // One whose work goes before that of the others where both could run: messages and collectives.
  virtual StreamId NewUrgentStream(LazyName name, int capacity) {
    return NewStream(name, capacity);
  }
  virtual EventId NewEvent(LazyName name) = 0;
  // `bytes` of zeroed memory, 64-byte aligned, owned by the device. ResourceExhausted when there is
  // not that much.
  virtual absl::StatusOr<void*> Allocate(int64_t bytes) = 0;
  // The same in host memory, for copies between it and the device's.
  virtual absl::StatusOr<void*> AllocateHost(int64_t bytes) = 0;
  // Copies between any two of these and host memory, before it returns. Between steps: nothing is
  // enqueued that has not run.
  virtual absl::Status CopyNow(void* to, const void* from, int64_t bytes) = 0;

  // `times` may be null; it is written when Synchronize returns, at the latest.
  virtual void Launch(StreamId stream, const Work& work, WorkTimes* times) = 0;
  void Launch(StreamId stream, const Work& work) { Launch(stream, work, nullptr); }
  // Copies between the device's memory and that of AllocateHost, in either direction.
  virtual void Copy(StreamId stream, void* to, const void* from, int64_t bytes) = 0;
  // The event happens when everything enqueued on the stream before it has run.
  virtual void Record(StreamId stream, EventId event) = 0;
  // What is enqueued on the stream after it runs only when the latest Record of the event enqueued
  // before it has happened. An event that was never recorded does not hold anything up.
  virtual void Wait(StreamId stream, EventId event) = 0;

  // The device's clock: nanoseconds since some fixed moment; never goes back.
  virtual int64_t NowNs() const = 0;

  // Whether people can be shown what the streams do, so that Mark shall say it.
  virtual bool ShowsMarks() const { return false; }
  // What is enqueued on the stream from here on, until its next mark, is part of this.
  virtual void Mark(StreamId /*stream*/, const LazyName& /*name*/) {}

  // Lets the device start on what is enqueued so far. Synchronize does so too.
  virtual void Submit() = 0;
  // Returns when all enqueued work has run. Errors, after which the device stays in that error:
  //   Aborted          streams wait for each other and nothing can run any more: a deadlock. The
  //                    message names each stuck stream and what it waits for.
  //   InvalidArgument  the members of a group called different things (see group.h).
  virtual absl::Status Synchronize() = 0;

  // A step that enqueues the same every time may be captured and then be replayed, instead of being
  // enqueued and given on op by op again. Where the device does not do that, nobody asks for it.
  virtual bool CanCapture() const { return false; }
  // Captures what is enqueued, all of a step and none of it submitted, without running it; returns
  // what Replay takes. It should have run once before. Where it cannot be captured the status says
  // why, and the step is enqueued as before: Synchronize performs it as ever.
  virtual absl::StatusOr<int> Capture() {
    return absl::UnimplementedError("the device captures no steps");
  }
  // Runs a captured step once more, with nothing beside it until Synchronize, which writes the
  // times of it too. What it copies and reads is what is there now.
  virtual void Replay(int /*captured*/) {}
};

}  // namespace stringline
