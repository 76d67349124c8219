#include "schedlang/search/kept_orders.h"

#include <algorithm>

#include "schedlang/base/fnv.h"

namespace stringline::search {
namespace {

// Increase whenever FindOrders may find other orders than before.
constexpr uint64_t kOptimiser = 5;

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
    for (const MicrobatchWork& one : stage.each) {
      hash.AddAll(one.time);
      hash.Add(one.activation.latency, one.activation.transfer, one.gradient.latency,
               one.gradient.transfer);
    }
  }
  return hash.value();
}

bool FitsProblem(const Problem& problem, const Found& found) {
  return IsComplete(problem, found.words) && found.bound >= 0 && found.bound <= found.value &&
         ValueOf(problem, found.words) == found.value;
}

namespace {

// The entry under the key if it `fits`; else the result of `find` with the allowed effort.
template <typename Fits, typename FindAnew>
Found FindOnce(uint64_t key, int64_t letters, const Effort& effort, int64_t most_letters,
               const Stop* stop, KeptOrders* kept, Fits fits, FindAnew find) {
  if (kept != nullptr) {
    std::optional<Found> before = kept->Find(key);
    if (before && fits(*before)) return *std::move(before);
  }
  Effort allowed = effort;
  allowed.iterations =
      std::clamp<int64_t>(most_letters / std::max<int64_t>(1, letters), 1, effort.iterations);
  Found found = find(allowed);
  const bool is_whole = allowed.iterations == effort.iterations && !IsWished(stop);
  if (kept != nullptr && is_whole) kept->Keep(key, found);
  return found;
}

uint64_t KeyOfPlaces(absl::Span<const Partitioning> places, const Effort& effort) {
  KeyHash hash;
  for (const Partitioning& place : places) {
    const Partition partition =
        place.fixed.empty() ? EvenPartition(place.layers, place.stages) : place.fixed;
    hash.Add(KeyOf(place.problem_of(partition), effort), place.key, place.fixed.empty(),
             place.least_at_ends);
    if (place.problem_with) hash.Add(1);
  }
  return hash.value();
}

bool FitsPlaces(absl::Span<const Partitioning> places, const Found& found) {
  if (found.place < 0 || found.place >= static_cast<int>(places.size())) return false;
  const Partitioning& place = places[static_cast<size_t>(found.place)];
  if (!IsPartition(place, found.partition)) return false;
  if (!place.problem_with) {
    return found.recomputes.empty() && FitsProblem(place.problem_of(found.partition), found);
  }
  const auto is_choice = [](int64_t value) { return value == 0 || value == 1; };
  const auto count = static_cast<size_t>(place.problem_of(found.partition).stage_count());
  return found.recomputes.size() == count &&
         std::all_of(found.recomputes.begin(), found.recomputes.end(), is_choice) &&
         FitsProblem(place.problem_with(found.partition, found.recomputes), found);
}

}  // namespace

Found FindOrdersOnce(const Problem& problem, const Effort& effort, int64_t most_letters,
                     KeptOrders* kept) {
  return FindOnce(
      KeyOf(problem, effort), LettersOf(problem), effort, most_letters, problem.stop, kept,
      [&](const Found& found) { return FitsProblem(problem, found); },
      [&](const Effort& allowed) { return FindOrders(problem, {}, allowed); });
}

Found FindPlaceOnce(absl::Span<const Partitioning> places, const Effort& effort,
                    int64_t most_letters, KeptOrders* kept) {
  const Partitioning& first = places[0];
  if (places.size() == 1 && !first.fixed.empty() && !first.problem_with) {
    Found found = FindOrdersOnce(first.problem_of(first.fixed), effort, most_letters, kept);
    found.partition = first.fixed;
    return found;
  }
  const Problem even = first.problem_of(EvenPartition(first.layers, first.stages));
  return FindOnce(
      KeyOfPlaces(places, effort), LettersOf(even), effort, most_letters, even.stop, kept,
      [&](const Found& found) { return FitsPlaces(places, found); },
      [&](const Effort& allowed) { return FindPlace(places, allowed); });
}

}  // namespace stringline::search
