// Work for a CUDA stream that is a function of the host: it runs when the stream comes to it.
#pragma once

#include <cuda_runtime_api.h>

#include <deque>
#include <functional>
#include <utility>

#include "executor/stage_work.h"

namespace stringline {

class HostWork {
 public:
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

// Stage work of a device that calls it, for one that enqueues it.
class OnHost final : public StageWork {
 public:
  explicit OnHost(StageWork* work) : work_(work) {}
  int layers(StageId stage) const override { return work_->layers(stage); }
  Piece Compute(const Action& action, LayerPart part) override {
    Piece piece = work_->Compute(action, part);
    for (Work* const work : {&piece.work, &piece.after}) {
      if (work->run == nullptr) continue;
      *work = host_.Of([called = *work] { called.run(called.self, called.argument, nullptr); });
    }
    return piece;
  }
  Bytes Payload(const Action& send_or_recv) const override { return work_->Payload(send_or_recv); }

 private:
  StageWork* const work_;
  HostWork host_;
};

}  // namespace stringline
