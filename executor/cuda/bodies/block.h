// A Block is a set of threads that work on one task together; kernel bodies are written for it.
//
// A body is a struct: the arguments are its members, blocks() is the number of tasks, and
//
//   template <class Block> void operator()(const Block& block) const
//
// performs task block.index(). It is compiled twice: for GpuBlock, a warp or a whole thread block
// of a GPU, and by plain C++ compilers for HostBlock, which does the threads' work serially and in
// the same order. So each formula and each index is tested without a GPU.
//
// A Block has
//
//   index(), count()      this task's index, and the number of tasks
//   each(n, f)            f(i) for i = 0 .. n-1; thread t takes t, t + threads, ...
//   once(f)               f() by one thread
//   reduce(n, start, step, combine)
//                         step(i, s) for i = 0 .. n-1, every thread with an s of its own that
//                         begins as `start`; then the tree of combine(a, b) over all s, a the lower
//                         thread. All threads get the result. `start` must change nothing when
//                         combined.
//   own<S, N>()           a zeroed S for each i = 0 .. N-1, kept by the thread that gets i
//                         in each(N, f): in registers
//   each(own, f)          f(i, s) for i = 0 .. N-1 by that thread, s the S of i
//   reduce(own, start, step, combine)
//                         as reduce above, with step(i, s of i, s) for i = 0 .. N-1
//   sync()                writes of any thread to scratch memory before it are visible to
//                         all after it; the same holds for reduce
//   scratch<T>(at)        the task's scratch memory from word `at` on (4 bytes a word), as elements
//                         of 4 bytes; the body's scratch_words() is the size needed. take<V>(i)
//                         and place(i, v) move the 16 bytes of a V from word i on, a multiple of 4
//
// All threads make the same calls: no function of a Block is called inside the f of another call.
// No result depends on the order of threads, and floats are never added atomically, so a body gives
// the same bits every time. The number of threads changes the rounding of a reduction, and nothing
// else.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define STRINGLINE_BODY __device__ inline
#define STRINGLINE_UNROLL _Pragma("unroll")
#include "executor/cuda/bodies/gpu_block.h"
#else
#define STRINGLINE_BODY inline
#define STRINGLINE_UNROLL
#include "executor/cuda/bodies/host_block.h"
#endif
