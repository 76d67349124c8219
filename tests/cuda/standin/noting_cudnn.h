// cuDNN itself behind functions that note how it is run: plans are the library's, and a run, which
// would need a GPU, is only noted. A program opens it in the library's place (OpenCudnn), after the
// real libcudnn.so.9.
#pragma once

#include <cstdint>
#include <map>

// The run noted last.
struct NotedCudnnRun {
  void* stream = nullptr;             // set on the handle
  std::map<int64_t, void*> operands;  // by id
  void* workspace = nullptr;
  int runs = 0;
};

extern "C" {

// From now on cudnnCreate gives a handle, or cuDNN's own answer; the handle may refuse streams.
typedef void NotingCudnnStart(bool has_handle, bool refuses);
typedef const NotedCudnnRun* NotingCudnnLast();

}  // extern "C"
