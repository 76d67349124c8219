// The numbers compared by tests of runs on GPUs: all parameters, and the times of a step.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "executor/engine/device.h"
#include "executor/training/trainer.h"
#include "gtest/gtest.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/plan/timeline.h"

namespace stringline {

// By stage, parameter and coordinate.
using ParamValues = std::vector<std::vector<float>>;

inline std::vector<float> OnHost(Device* device, absl::Span<const float> values) {
  std::vector<float> copy(values.size());
  const absl::Status status = device->CopyNow(copy.data(), values.data(),
                                              static_cast<int64_t>(copy.size() * sizeof(float)));
  SL_CHECK(status.ok()) << status;
  return copy;
}

// `values_of` returns a parameter's values on the device: by stage, index in the stage, coordinate.
template <typename ValuesOf>
ParamValues OfEveryParam(Trainer& trainer, ValuesOf values_of) {
  ParamValues all;
  for (int c = 0; c < trainer.mesh().coordinates(); ++c) {
    for (size_t s = 0; s < trainer.programs().size(); ++s) {
      for (size_t p = 0; p < trainer.programs()[s].params.size(); ++p) {
        all.push_back(OnHost(trainer.device(),
                             values_of(StageId(static_cast<int32_t>(s)), static_cast<int>(p), c)));
      }
    }
  }
  return all;
}

inline ParamValues GradientsOf(Trainer& trainer) {
  return OfEveryParam(trainer,
                      [&](StageId stage, int p, int c) { return trainer.grad(stage, p, c); });
}

inline ParamValues ParamsOf(Trainer& trainer) {
  return OfEveryParam(trainer,
                      [&](StageId stage, int p, int c) { return trainer.param(stage, p, c); });
}

// Every event has its times, by the clock of the host.
inline void ExpectWholeTimeline(const Timeline& timeline) {
  int computations = 0;
  for (const Event& event : timeline.events) {
    ASSERT_GE(event.start_ns, 0);
    ASSERT_GE(event.end_ns, event.start_ns);
    ASSERT_LT(event.end_ns, int64_t{1'000'000'000});  // the stand-in's steps are short
    if (!IsCompute(event.kind)) continue;
    ++computations;
    ASSERT_GT(event.end_ns, event.start_ns);
  }
  EXPECT_GT(computations, 0);
}

}  // namespace stringline
