// Work for a CUDA stream: a function of the host, run when the stream reaches the work.
#pragma once

#include <cuda_runtime_api.h>

#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "executor/engine/device.h"

namespace stringline {

class HostWork {
 public:
  // A maker of work; its HostWork lives as long as the function returned.
  static std::function<Work(std::function<void()>)> Kept() {
    return [kept = std::make_shared<HostWork>()](std::function<void()> run) {
      return kept->Of(std::move(run));
    };
  }
  Work Of(std::function<void()> run) {
    return {Enqueue, &functions_.emplace_back(std::move(run)), 0};
  }

 private:
  static void Enqueue(const void* self, int64_t /*argument*/, NativeStream stream) {
    (void)cudaLaunchHostFunc(static_cast<cudaStream_t>(stream), Run, const_cast<void*>(self));
  }
  static void Run(void* self) { (*static_cast<std::function<void()>*>(self))(); }

  std::deque<std::function<void()>> functions_;
};

}  // namespace stringline
