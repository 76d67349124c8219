// Ranks that are slower than they should be, found while a training runs.
//
// The time of a kind of action on a stage is the median over the microbatches of a step. Its equals
// are the same actions of the other copies of the stage, where there are three copies or more; else
// those of its own first steps, kFirst of them. A rank is slow once the time is more than kSlow of
// the median of its equals in kSteps steps in turn, until it is less than kFast in as many. Steps
// are those that are added.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "absl/types/span.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/timeline.h"
#include "tools/metrics/step_metrics.h"

namespace stringline {

class SlowActions {
 public:
  static constexpr int kFirst = 5;
  static constexpr int kSteps = 5;
  static constexpr double kSlow = 1.25, kFast = 1.1;

  // `measured`: of every coordinate of the mesh.
  void Add(int64_t step, const Plan& plan, absl::Span<const Timeline> measured);
  // The actions that are slow now, the slowest first.
  std::vector<SlowAction> now() const;
  // The actions found slow by the last step, for a message.
  std::vector<SlowAction> found() const { return found_; }

 private:
  // An action of a stage: its kind, and that of the part beside it in a group (-1: none).
  struct Key {
    int coordinate = 0;
    int32_t stage = 0;
    int kind = 0, beside = -1;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct State {
    std::vector<int64_t> first;  // times of the first steps
    int64_t usual = 0;           // their median
    double ratio = 1;            // in the last step
    int slow_steps = 0, fast_steps = 0;
    int64_t began = 0;  // the first of the slow steps
    bool is_slow = false;
    int rank = 0;
  };
  void Judge(int64_t step, const Key& key, State* state);
  static SlowAction ActionOf(const Key& key, const State& state);
  static std::map<Key, int64_t> MediansOf(int coordinate, const Timeline& timeline);

  std::map<Key, State> states_;
  std::vector<SlowAction> found_;
};

}  // namespace stringline
