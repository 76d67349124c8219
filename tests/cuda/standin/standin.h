// A stand-in for the CUDA runtime, for tests on machines without a GPU: the functions of
// libcudart.so.13 that the engine calls, performed by the CPU.
//
// A vector clock per stream finds uses of memory that no event orders (standin_race).
//
// What is enqueued on a stream runs when somebody waits for it, or asks whether it has ended: then
// a part of it does. It runs in a random order that keeps only what CUDA promises: the order of
// each stream, and the events that were recorded when a stream was told to wait for them. A wait
// that is missing is found by some seed. Kernels run as the host functions that host_twin.h gives
// them.
//
// Time is made up: a call takes the host as long, and a kernel or a copy its stream, as is set
// here.
//
// These functions steer it. They are not thread-safe beside other calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

extern "C" {

// As if the process began anew: forgets all work, frees what is left, no error is set. `seed` is
// that of the random order.
void standin_reset(unsigned seed);

// The n-th call from now on (the first is 1) fails with a cudaError_t; 0: none. An error of a
// kernel (illegal address, launch failure and their like) stays: all later calls return it.
void standin_fail_call(int64_t n, int error);
// Calls since the last reset or standin_fail_call, and the name of the one that failed, or null.
int64_t standin_calls();
const char* standin_failed_call();

// The n-th kernel, host function, copy or fill from now on (the first is 1) never ends, until a
// reset; 0: none. Who waits for it as CUDA waits, without a limit, ends the process.
void standin_hang_op(int64_t n);

// There are so many GPUs from now on, all alike; one after a reset. Before anything is made.
// Streams, events and memory belong to the GPU that is current when they are made, and as in CUDA:
// an event is recorded on streams of its GPU, work is launched on streams of the current one, and
// uses memory of its own GPU and of those that it was given access to. Else the call fails, or the
// work.
void standin_set_devices(int count);
void standin_set_sms(int device, int sms);  // how many multiprocessors it has; 132 after a reset
// The GPU can never use the memory of that peer.
void standin_keep_apart(int device, int peer);
// Whose a stream is, and memory (-1: no GPU's), and how much of a GPU's is taken.
int standin_device_of_stream(void* stream);
int standin_device_of_memory(const void* memory);
int64_t standin_memory_used(int device);
// How many multiprocessors of its GPU the stream has in a green context, and in which group of
// those that the GPU was split into; 0 and -1: it is in none.
int standin_sms_of_stream(void* stream);
int standin_sm_group_of_stream(void* stream);
// The driver has no function of that name, until a reset.
void standin_driver_without(const char* name);
// The GPU that is current for this thread.
int standin_current_device();

// How much memory each GPU has; 1 GiB after a reset.
void standin_set_memory(int64_t bytes);
// How long a kernel, a host function or a copy takes, if its twin does not say it: 1000 after a
// reset.
void standin_set_op_ns(int64_t ns);
// How long a call takes the host: 1000 after a reset.
void standin_set_call_ns(int64_t ns);

// The first two uses of one byte, one of them to write, that nothing orders: "a copy on line 1
// writes what a kernel on line 2 reads, and nothing orders the two"; null: none. The seed does not
// matter. Known is what copies, fills and products use, and kernels as declared_use.h says; lines
// are streams as they were made, from 1, and after them what each had in a graph. All later calls
// return an error, whose text this is.
const char* standin_race();

// What is alive: streams, events, graphs and pieces of memory.
int64_t standin_alive();
// Asynchronous copies so far whose host memory is not pinned, so that they held up the host.
int64_t standin_pageable_copies();
// Kernels, host functions, copies and fills so far that have run.
int64_t standin_ops_run();
// The same of what waits for somebody to synchronize.
int64_t standin_ops_pending();
// Whether this thread is in a function of the runtime.
bool standin_inside();
// The priority that the stream was made with.
int standin_priority(void* stream);

// For stand-ins of libraries that are built on the runtime. This thread enters one (1) or leaves it
// (-1), which is inside as well.
void standin_enter(int by);
// Enqueues a function as a kernel of theirs, which no call counts; returns a cudaError_t. `what` is
// its name, "a product". It says what it uses with stringline_twin_uses.
int standin_enqueue(void* stream, const char* what, const std::function<void()>& run);
// Waits for all work, as a library does that is closed; no call is counted.
void standin_wait();
// The same of what other processes take part in: `begin`, called at once, or whenever a graph is
// launched in which it was captured, returns what is asked until it says that all is over. Other
// streams go on meanwhile, and the other nodes of the graph. It is kept as long as the graph.
int standin_enqueue_until(void* stream, const std::function<std::function<bool()>()>& begin);
// The library takes so much device memory for itself, or gives it back (less than 0).
void standin_use_memory(int64_t bytes);
// Whether this thread captures.
bool standin_capturing();
// Whether all these bytes are in one piece of device memory.
bool standin_on_device(const void* begin, size_t bytes);

}  // extern "C"
