// A stand-in for the CUDA runtime, for tests on machines without a GPU: the functions of
// libcudart.so.13 that the engine calls, performed by the CPU.
//
// A vector clock per stream detects uses of memory that no event orders (standin_race).
//
// Work enqueued on a stream runs when the host waits for it, or, in part, when the host queries it.
// The order is random within CUDA's guarantees: the order of each stream, and the events recorded
// when a stream was told to wait. Some seed exposes a missing wait. Kernels run as their host twins
// (host_twin.h).
//
// Time is simulated: the durations of calls on the host, and of kernels and copies on their stream,
// are set here.
//
// These functions control the stand-in. They are not thread-safe beside other calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

// A launch whose compiled code is played. args[i] points to the i-th parameter.
struct StandinLaunch {
  struct Bytes {
    const void* begin;
    size_t bytes;
    bool writes;
  };
  const char* kernel;  // mangled
  unsigned grid[3], block[3];
  size_t shared;
  void* const* args;
  std::vector<Bytes> memory;    // all that its GPU reaches
  std::vector<Bytes> declared;  // by declared_use.h; empty: nothing
};
struct StandinPlayed {
  std::string fault;  // empty: none
  int64_t ns;         // 0: the usual duration
};
struct StandinPlayer {
  // The bytes of a kernel's parameters; false: the kernel is not known, and its twin runs.
  std::function<bool(const char* kernel, std::vector<size_t>* sizes)> sizes;
  std::function<StandinPlayed(const StandinLaunch& launch)> play;
};

extern "C" {

// Resets to the state of a new process: drops all work, frees all memory, clears errors. `seed` is
// that of the random order.
void standin_reset(unsigned seed);

// The n-th call from now on (the first is 1) fails with a cudaError_t; 0: none. An error of a
// kernel (illegal address, launch failure and the like) persists: all later calls return it.
void standin_fail_call(int64_t n, int error);
// The number of calls since the last reset or standin_fail_call, and the name of the failed call,
// or null.
int64_t standin_calls();
const char* standin_failed_call();

// The n-th kernel, host function, copy or fill from now on (the first is 1) never ends, until a
// reset; 0: none. A wait for it in CUDA, without a time limit, ends the process.
void standin_hang_op(int64_t n);

// Sets the number of GPUs, all alike; 1 after a reset. Called before any object is made. Streams,
// events and memory belong to the GPU that is current at their creation, and as in CUDA: an event
// is recorded on streams of its GPU, work is launched on streams of the current GPU, and uses
// memory of its own GPU and of its enabled peers. Otherwise the call fails, or the work.
void standin_set_devices(int count);
void standin_set_sms(int device, int sms);  // number of multiprocessors; 132 after a reset
// The GPU can never use the memory of that peer.
void standin_keep_apart(int device, int peer);
// The GPU of a stream, the GPU of memory (-1: none), and the used memory of a GPU.
int standin_device_of_stream(void* stream);
int standin_device_of_memory(const void* memory);
int64_t standin_memory_used(int device);
// The number of multiprocessors of the stream's green context, and the index of its group in the
// GPU's split; 0 and -1 without a green context.
int standin_sms_of_stream(void* stream);
int standin_sm_group_of_stream(void* stream);
// Removes a function from the driver, until a reset.
void standin_driver_without(const char* name);
// The current GPU of this thread.
int standin_current_device();

// From now on a stream holds at most so many launches: kernels, copies, a library's operations and
// graphs (0, as after a reset: any number). A call that finds it full blocks the host until one of
// them has run, as CUDA does after about a thousand. If then
// nothing on this GPU runs for `blocked_ms`, the call and all later ones fail with
// cudaErrorLaunchTimeout, and standin_blocked says so; null: the host was never blocked for good.
void standin_set_stream_depth(int launches, int64_t blocked_ms);
const char* standin_blocked();
// From now on the first launch of a kernel loads its code: the host waits until its GPU is idle, as
// CUDA may; not if cudaFuncGetAttributes has asked for the kernel before. A wait without an end is
// found as above.
void standin_load_late(bool late);
// The same for a library's kernel; `key` stands for its code. Returns a cudaError_t.
int standin_load(const void* key, const char* name);
// Sets the memory of each GPU; 1 GiB after a reset.
void standin_set_memory(int64_t bytes);
// Sets the duration of kernels, host functions and copies, unless their twin sets it: 1000 after a
// reset.
void standin_set_op_ns(int64_t ns);
// Sets the host's time for a call: 1000 after a reset.
void standin_set_call_ns(int64_t ns);

// The first two uses of a byte, at least one of them a write, without an order: "a copy on line 1
// writes what a kernel on line 2 reads, and nothing orders the two"; null: none. The seed does not
// matter. Known uses are those of copies, fills and products, and of kernels by declared_use.h;
// lines are streams in order of creation, from 1, followed by each stream's part of every graph.
// All later calls return an error with this text.
const char* standin_race();

// Plays the compiled code of kernels from now on, in place of their host twins; null: the twins. A
// fault of the code is an illegal address: all later calls return an error with its text. A twin
// that declares its uses runs before, and its results must be the code's in every bit.
void standin_play_with(const StandinPlayer* player);
const char* standin_fault();  // null: none

// The number of live streams, events, graphs and pieces of memory.
int64_t standin_alive();
// The number of asynchronous copies so far with pageable host memory, which block the host.
int64_t standin_pageable_copies();
// The number of kernels, host functions, copies and fills that have run so far.
int64_t standin_ops_run();
// The number of those still waiting for a synchronisation.
int64_t standin_ops_pending();
// True if this thread is in a function of the runtime.
bool standin_inside();
// The priority given at the stream's creation.
int standin_priority(void* stream);
// The flags of the graph that was instantiated last.
uint64_t standin_graph_flags();

// For stand-ins of libraries on top of the runtime. This thread enters a library (1) or leaves it
// (-1), and counts as inside meanwhile.
void standin_enter(int by);
// Enqueues a function as a library's kernel, not counted as a call; returns a cudaError_t. `what`
// is its name, "a product". `run` declares its uses with stringline_twin_uses.
int standin_enqueue(void* stream, const char* what, const std::function<void()>& run);
// Waits for all work, like the closing of a library; not counted as a call.
void standin_wait();
// Enqueues an operation with other processes: `begin`, called at once, or at every launch of a
// capturing graph, returns a function, which is polled until true. Other streams go on meanwhile,
// and so do other nodes of the graph. Kept as long as the graph.
int standin_enqueue_until(void* stream, const std::function<std::function<bool()>()>& begin);
// The library allocates device memory for itself, or frees it (less than 0).
void standin_use_memory(int64_t bytes);
// True if this thread captures.
bool standin_capturing();
// True if all these bytes are in one piece of device memory.
bool standin_on_device(const void* begin, size_t bytes);

}  // extern "C"
