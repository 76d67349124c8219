#include "schedlang/search/kept_orders.h"

#include <algorithm>

#include "schedlang/base/fnv.h"

namespace stringline::search {
namespace {

// One more whenever FindOrders may find other orders than before.
constexpr uint64_t kOptimiser = 3;

class KeyHash {
 public:
  template <typename... Number>
  void Add(Number... numbers) {
    (hash_.Add(static_cast<uint64_t>(numbers)), ...);
  }
  template <typename Numbers>
  void AddAll(const Numbers& numbers) {
    Add(numbers.size());
    for (const int64_t number : numbers) Add(number);
  }
  uint64_t value() const { return hash_.value(); }

 private:
  Fnv hash_;
};

}  // namespace

uint64_t KeyOf(const Problem& problem, const Effort& effort) {
  KeyHash hash;
  hash.Add(kOptimiser, effort.iterations, effort.seed, problem.ranks, problem.whole, problem.split,
           problem.objective);
  hash.AddAll(problem.capacity);
  hash.AddAll(problem.whole_pairs);
  hash.AddAll(problem.input_pairs);
  for (const StageWork& stage : problem.stages) {
    hash.Add(stage.rank, stage.previous, stage.next, stage.microbatches, stage.activation.latency,
             stage.activation.transfer, stage.gradient.latency, stage.gradient.transfer);
    hash.AddAll(stage.time);
    hash.AddAll(stage.during);
    hash.AddAll(stage.after);
  }
  return hash.value();
}

bool FitsProblem(const Problem& problem, const Found& found) {
  return IsComplete(problem, found.words) && found.bound >= 0 && found.bound <= found.value &&
         ValueOf(problem, found.words) == found.value;
}

int64_t LettersOf(const Problem& problem) {
  int64_t letters = 0;
  for (const StageWork& stage : problem.stages) {
    letters += static_cast<int64_t>(stage.microbatches) * (problem.split ? 3 : 2);
  }
  return letters;
}

Found FindOrdersOnce(const Problem& problem, const Effort& effort, int64_t most_letters,
                     KeptOrders* kept) {
  const uint64_t key = KeyOf(problem, effort);
  if (kept != nullptr) {
    std::optional<Found> before = kept->Find(key);
    if (before && FitsProblem(problem, *before)) return *std::move(before);
  }
  Effort allowed = effort;
  allowed.iterations = std::clamp<int64_t>(most_letters / std::max<int64_t>(1, LettersOf(problem)),
                                           1, effort.iterations);
  Found found = FindOrders(problem, {}, allowed);
  if (kept != nullptr && allowed.iterations == effort.iterations) kept->Keep(key, found);
  return found;
}

}  // namespace stringline::search
