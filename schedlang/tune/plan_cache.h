// The library's schedules as checked plans, for choices that share an order and differ in costs.
// The plans used last are kept, up to a number of actions.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "schedlang/plan/links.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/sharding.h"
#include "schedlang/text/ast.h"
#include "schedlang/tune/choice.h"
#include "schedlang/tune/held_peaks.h"

namespace stringline::tune {

// The order of a choice: its schedule and sizes, and the collectives that its copies need.
struct PlanKey {
  int schedule = 0;
  int64_t ranks = 1, microbatches = 1, turns = 1;
  bool gathers = false, reduces = false;

  friend auto operator<=>(const PlanKey&, const PlanKey&) = default;
};
PlanKey KeyOf(const Choice& choice);

// The parameters with which the schedule is elaborated: P, M and its turns.
std::vector<Parameter> ParametersOf(const Choice& choice);

struct PreparedPlan {
  std::string refused;  // the reason why there is none; "": there is one
  Plan written;
  Plan lowered;  // with collectives, proven by the checker
  Wiring wiring;
  std::shared_ptr<const HeldPeaks> held;
};

class PlanCache {
 public:
  PlanCache();

  // The plans of these keys, made on so many threads (0: all cores) where they are not kept.
  std::vector<std::shared_ptr<const PreparedPlan>> Prepare(const std::vector<PlanKey>& keys,
                                                           int threads);

 private:
  static constexpr size_t kMostActions = 3'000'000;

  void DropOldest();

  std::vector<std::shared_ptr<const ast::File>> files_;  // by schedule
  struct Kept {
    std::shared_ptr<const PreparedPlan> plan;
    int64_t used = 0;  // the call of Prepare that used it last
  };
  std::map<PlanKey, Kept> kept_;
  size_t actions_ = 0;
  int64_t calls_ = 0;
};

}  // namespace stringline::tune
