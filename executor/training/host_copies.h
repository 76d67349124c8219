// The copies of D and U: which microbatches a U brings back, and the work of each copy.
#pragma once

#include <deque>
#include <vector>

#include "absl/types/span.h"
#include "executor/engine/kernels.h"
#include "executor/engine/stage_work.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/values.h"

namespace stringline {

class HostCopies {
 public:
  HostCopies(const Plan& plan, Kernels* kernels);

  // True if the action has the value where a U has brought it (MemoryPlan::OffsetOf).
  bool IsBack(const Action& action, StageValue value) const;
  // Copies these values to `host`, one after the other at aligned places, or `back` from there.
  Work Bind(absl::Span<const Bytes> kept, char* host, bool back);

 private:
  struct Bound {
    Kernels* kernels;
    std::vector<HostCopy> copies;
  };

  size_t Index(const Action& action) const {
    return static_cast<size_t>(action.stage.value) * static_cast<size_t>(plan_.microbatches) +
           static_cast<size_t>(action.microbatch.value);
  }

  const Plan& plan_;
  Kernels* const kernels_;
  std::vector<bool> fetched_;  // by stage and microbatch; empty: the plan has no U
  std::deque<Bound> bound_;
};

}  // namespace stringline
