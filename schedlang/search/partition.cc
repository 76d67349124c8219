// A few partitions are all searched. Otherwise a climb: a layer goes from a stage to another, and
// the layers between shift. Neighbours are first evaluated with the present orders, a single
// evaluation each. If none is better, orders are searched for the most promising neighbours.
#include "schedlang/search/partition.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "schedlang/search/lower_bound.h"
#include "schedlang/search/random.h"
#include "schedlang/search/recompute.h"

namespace stringline::search {
namespace {

constexpr int64_t kEvaluationCosts = 10;  // as many iterations as a rule

int LeastOf(const Partitioning& of, int stage) {
  return stage == 0 || stage == of.stages - 1 ? of.least_at_ends : 1;
}

// The badness of a balance: memory misfit first, then the busiest rank, then inequality.
struct Balance {
  int64_t misfit = 0;
  int64_t busiest = 0;
  double squares = 0;
  friend bool operator<(const Balance& a, const Balance& b) {
    if (a.misfit != b.misfit) return a.misfit < b.misfit;
    return a.busiest != b.busiest ? a.busiest < b.busiest : a.squares < b.squares;
  }
};

std::vector<int64_t> WorkOfRanks(const Problem& problem) {
  std::vector<int64_t> work(static_cast<size_t>(problem.ranks), 0);
  for (const StageWork& stage : problem.stages) {
    work[static_cast<size_t>(stage.rank)] += stage.microbatches * LeastTimeOf(problem, stage.time);
  }
  return work;
}

Balance BalanceOf(const Problem& problem) {
  Balance balance;
  for (int r = 0; r < problem.ranks; ++r) {
    const int64_t over = LeastCapacity(problem, r) - problem.capacity[static_cast<size_t>(r)];
    balance.misfit += std::max<int64_t>(0, over);
  }
  for (const int64_t work : WorkOfRanks(problem)) {
    balance.busiest = std::max(balance.busiest, work);
    balance.squares += static_cast<double>(work) * static_cast<double>(work);
  }
  return balance;
}

struct Shift {
  int from = 0;
  int to = 0;
};

Partition Shifted(Partition partition, Shift shift) {
  --partition[static_cast<size_t>(shift.from)];
  ++partition[static_cast<size_t>(shift.to)];
  return partition;
}

// Shifts of a layer to a neighbouring stage, and from each stage of the busiest rank to any other.
std::vector<Shift> ShiftsOf(const Partitioning& of, const Partition& partition,
                            const Problem& problem) {
  const std::vector<int64_t> work = WorkOfRanks(problem);
  const int busiest = static_cast<int>(std::max_element(work.begin(), work.end()) - work.begin());
  std::vector<Shift> shifts;
  for (int from = 0; from < of.stages; ++from) {
    if (partition[static_cast<size_t>(from)] <= LeastOf(of, from)) continue;
    const bool is_busy = problem.stages[static_cast<size_t>(from)].rank == busiest;
    for (int to = 0; to < of.stages; ++to) {
      if (from == to || (!is_busy && std::abs(from - to) > 1)) continue;
      shifts.push_back({from, to});
    }
  }
  return shifts;
}

// Calls `see` for every partition; false if more than `most` exist.
template <typename See>
bool ForEachPartition(const Partitioning& of, int64_t most, See see) {
  Partition partition(static_cast<size_t>(of.stages), 0);
  int64_t count = 0;
  const auto choose = [&](const auto& self, int stage, int left) -> bool {
    if (stage == of.stages - 1) {
      if (left < LeastOf(of, stage)) return true;
      if (++count > most) return false;
      partition[static_cast<size_t>(stage)] = left;
      see(partition);
      return true;
    }
    for (int n = LeastOf(of, stage); n <= left; ++n) {
      partition[static_cast<size_t>(stage)] = n;
      if (!self(self, stage + 1, left - n)) return false;
    }
    return true;
  };
  return choose(choose, 0, of.layers);
}

class PartitionSearch {
 public:
  PartitionSearch(const Partitioning& of, Found begin, const Effort& effort)
      : of_(of),
        random_(effort.seed),
        whole_(effort.iterations),
        left_(effort.iterations),
        best_(std::move(begin)) {}

  Found Run() {
    bound_ = BoundOfPartitions(of_);
    if (best_.partition.empty()) {
      best_.partition = of_.fixed.empty() ? BalancedPartition(of_) : of_.fixed;
    }
    problem_ = of_.problem_of(best_.partition);
    if (of_.fixed.empty() && !TryAll()) {
      Renew(best_.partition, whole_ / 4);
      while (left_ > whole_ / 4 && !IsProven() && !IsWished(problem_.stop)) {
        if (!ShiftWithSameOrders() && !ShiftWithNewOrders()) break;
      }
    }
    if (!IsProven()) Renew(best_.partition, std::max<int64_t>(1, left_));
    best_.bound = std::min(bound_, best_.value);
    return std::move(best_);
  }

 private:
  bool IsProven() const { return best_.value <= bound_; }

  // Searches orders for the partition; true if they are better than all before.
  bool Renew(const Partition& partition, int64_t iterations) {
    Problem problem = of_.problem_of(partition);
    std::vector<Words> begin;
    if (!best_.words.empty()) begin.push_back(best_.words);
    left_ -= iterations;
    Found found = FindOrders(problem, begin, {iterations, random_.Next()});
    if (found.words.empty() || found.value >= best_.value) return false;
    found.place = best_.place;
    found.partition = partition;
    best_ = std::move(found);
    problem_ = std::move(problem);
    return true;
  }

  // Tries all partitions, least bound first. False if they are too many.
  bool TryAll() {
    constexpr int64_t kMostTried = 50;
    tried_.clear();
    const bool few = ForEachPartition(of_, kMostTried, [this](const Partition& partition) {
      tried_.push_back({LowerBoundOf(of_.problem_of(partition)), partition});
    });
    if (!few) return false;
    std::stable_sort(tried_.begin(), tried_.end(),
                     [](const Tried& a, const Tried& b) { return a.value < b.value; });
    const int64_t share = whole_ * 3 / 4 / std::max<int64_t>(1, std::ssize(tried_));
    for (const Tried& one : tried_) {
      if (one.value >= best_.value || (!best_.words.empty() && IsWished(problem_.stop))) break;
      Renew(one.partition, std::max<int64_t>(1, share));
    }
    return true;
  }

  // Takes the best neighbour by the present orders. False if none is better.
  bool ShiftWithSameOrders() {
    if (best_.words.empty()) return false;
    tried_.clear();
    int64_t least = best_.value;
    Partition better;
    for (const Shift shift : ShiftsOf(of_, best_.partition, problem_)) {
      if (IsWished(problem_.stop)) return false;
      Partition partition = Shifted(best_.partition, shift);
      const Problem problem = of_.problem_of(partition);
      left_ -= kEvaluationCosts;
      const bool fits = IsComplete(problem, best_.words);
      const int64_t value = fits ? ValueOf(problem, best_.words) : kNoLimit;
      tried_.push_back({value, partition});
      if (value >= least) continue;
      least = value;
      better = std::move(partition);
    }
    if (better.empty()) return false;
    best_.partition = std::move(better);
    best_.value = least;
    problem_ = of_.problem_of(best_.partition);
    return true;
  }

  // Tries the neighbours of the last evaluation, best first, each with a short search.
  bool ShiftWithNewOrders() {
    constexpr size_t kMostRenewed = 8;
    std::stable_sort(tried_.begin(), tried_.end(),
                     [](const Tried& a, const Tried& b) { return a.value < b.value; });
    for (size_t i = 0; i < std::min(kMostRenewed, tried_.size()); ++i) {
      if (left_ <= whole_ / 4 || IsWished(problem_.stop)) return false;
      if (LowerBoundOf(of_.problem_of(tried_[i].partition)) >= best_.value) continue;
      if (Renew(tried_[i].partition, std::max<int64_t>(1, whole_ / 32))) return true;
    }
    return false;
  }

  struct Tried {
    int64_t value = 0;  // with the present orders; or a lower bound
    Partition partition;
  };

  const Partitioning& of_;
  Random random_;
  const int64_t whole_;
  int64_t left_;
  int64_t bound_ = 0;
  Found best_;
  Problem problem_;  // for the best partition
  std::vector<Tried> tried_;
};

// The partition with as many layers as possible in the last stage: least work before every stage.
Partition LightFront(const Partitioning& of) {
  Partition partition;
  for (int s = 0; s < of.stages; ++s) partition.push_back(LeastOf(of, s));
  partition.back() += of.layers - std::accumulate(partition.begin(), partition.end(), 0);
  return partition;
}

// The sum over ranks, valid for every partition, of a rank's wait for its first letter and, after
// its last letter, for the other ranks. Without W the last letter is a B of a rank's first stage.
int64_t WaitsOf(const Partitioning& of) {
  const Problem problem = of.problem_of(LightFront(of));
  std::vector<int64_t> least(static_cast<size_t>(problem.ranks), kNoLimit);
  int64_t before = 0, behind = 0;
  for (const StageWork& stage : problem.stages) {
    if (stage.previous < 0) before = behind = 0;  // the first of a pipe
    const bool tail =
        !problem.split && problem.objective == Objective::kMakespan && !of.backs_may_be_shorter;
    int64_t& waits = least[static_cast<size_t>(stage.rank)];
    waits = std::min(waits, before + (tail ? behind + stage.gradient.latency : 0));
    if (stage.microbatches == 0) waits = 0;
    before += stage.time[kForwardAt] + stage.activation.latency;
    behind += stage.time[kWholeAt] + stage.gradient.latency;
  }
  int64_t sum = 0;
  for (const int64_t waits : least) sum += waits >= kNoLimit ? 0 : waits;
  return sum;
}

// Pieces of equal size.
struct Pieces {
  int64_t size = 0;
  size_t count = 0;
};

// True if the pieces fit into `ranks` ranks of at most `most` each. For every number of packed
// pieces of each size: the fewest ranks, and then the least full last rank; the next piece goes
// into the last rank, or into a new one.
bool CanBePacked(absl::Span<const Pieces> sizes, size_t states, int ranks, int64_t most) {
  std::vector<std::pair<int, int64_t>> packed(states, {ranks + 1, 0});
  packed[0] = {1, 0};
  for (size_t state = 0; state < states; ++state) {
    size_t stride = 1;
    for (const Pieces& pieces : sizes) {
      const bool is_left = state / stride % (pieces.count + 1) < pieces.count;
      auto next = packed[state];
      next = next.second + pieces.size <= most ? std::pair(next.first, next.second + pieces.size)
                                               : std::pair(next.first + 1, pieces.size);
      if (is_left) packed[state + stride] = std::min(packed[state + stride], next);
      stride *= pieces.count + 1;
    }
  }
  return packed.back().first <= ranks;
}

}  // namespace

int64_t LeastBusiest(absl::Span<const int64_t> pieces, int ranks) {
  constexpr size_t kMostStates = 10'000;
  std::map<int64_t, size_t> by_size;
  int64_t sum = 0, largest = 0;
  for (const int64_t piece : pieces) {
    ++by_size[piece];
    sum += piece;
    largest = std::max(largest, piece);
  }
  int64_t least = std::max(largest, (sum + ranks - 1) / ranks);  // no rank can have less ...
  size_t states = 1;
  std::vector<Pieces> sizes;
  for (const auto& [size, count] : by_size) {
    if (states > kMostStates / (count + 1)) return least;
    states *= count + 1;
    sizes.push_back({size, count});
  }
  int64_t enough = std::max(sum, least);  // ... and this suffices
  while (least < enough) {
    const int64_t middle = least + (enough - least) / 2;
    if (CanBePacked(sizes, states, ranks, middle)) {
      enough = middle;
    } else {
      least = middle + 1;
    }
  }
  return least;
}

bool IsPartition(const Partitioning& of, const Partition& partition) {
  if (!of.fixed.empty()) return partition == of.fixed;
  if (static_cast<int>(partition.size()) != of.stages) return false;
  int left = of.layers;
  for (int s = 0; s < of.stages; ++s) {
    const int layers = partition[static_cast<size_t>(s)];
    if (layers < LeastOf(of, s) || layers > left) return false;
    left -= layers;
  }
  return left == 0;
}

Partition EvenPartition(int layers, int stages) {
  Partition partition;
  for (int s = 0; s < stages; ++s) {
    partition.push_back(layers / stages + (s < layers % stages ? 1 : 0));
  }
  return partition;
}

Partition LeastSlowestStage(absl::Span<const int64_t> work, int stages) {
  const size_t n = work.size();
  std::vector<int64_t> sum(n + 1, 0);
  for (size_t l = 0; l < n; ++l) sum[l + 1] = sum[l] + work[l];
  // slowest[s][l]: of the first l layers on s stages; cut[s][l]: the first layer of the last stage.
  std::vector<std::vector<int64_t>> slowest(static_cast<size_t>(stages) + 1,
                                            std::vector<int64_t>(n + 1, kNoLimit));
  std::vector<std::vector<size_t>> cut(slowest.size(), std::vector<size_t>(n + 1, 0));
  slowest[0][0] = 0;
  for (size_t s = 1; s < slowest.size(); ++s) {
    for (size_t l = s; l <= n; ++l) {
      for (size_t begin = s - 1; begin < l; ++begin) {
        const int64_t value = std::max(slowest[s - 1][begin], sum[l] - sum[begin]);
        if (value >= slowest[s][l]) continue;
        slowest[s][l] = value;
        cut[s][l] = begin;
      }
    }
  }
  Partition partition(static_cast<size_t>(stages), 0);
  size_t end = n;
  for (size_t s = static_cast<size_t>(stages); s > 0; --s) {
    partition[s - 1] = static_cast<int>(end - cut[s][end]);
    end = cut[s][end];
  }
  return partition;
}

Partition BalancedPartition(const Partitioning& of) {
  Partition best = EvenPartition(of.layers, of.stages);
  Problem problem = of.problem_of(best);
  Balance balance = BalanceOf(problem);
  while (true) {
    Partition better;
    for (const Shift shift : ShiftsOf(of, best, problem)) {
      if (IsWished(problem.stop)) return best;
      Partition partition = Shifted(best, shift);
      const Balance other = BalanceOf(of.problem_of(partition));
      if (!(other < balance)) continue;
      balance = other;
      better = std::move(partition);
    }
    if (better.empty()) return best;
    best = std::move(better);
    problem = of.problem_of(best);
  }
}

Found FindPartition(const Partitioning& partitioning, Found begin, const Effort& effort) {
  if (partitioning.problem_with) return FindRecomputes(partitioning, std::move(begin), effort);
  return PartitionSearch(partitioning, std::move(begin), effort).Run();
}

Found FindPlace(absl::Span<const Partitioning> places, const Effort& effort) {
  const auto share = [&](size_t parts, uint64_t seed) {
    return Effort{std::max<int64_t>(1, effort.iterations / static_cast<int64_t>(parts)), seed};
  };
  if (places.size() == 1) return FindPartition(places[0], {}, effort);
  Random random(effort.seed);
  Found found;
  int64_t bound = kNoLimit;
  for (size_t i = 0; i < places.size(); ++i) {
    const int64_t own = BoundOfPartitions(places[i]);
    bound = std::min(bound, own);
    const Stop* const stop =
        places[i].problem_of(EvenPartition(places[i].layers, places[i].stages)).stop;
    if (own >= found.value || (!found.words.empty() && IsWished(stop))) continue;
    Found best = FindPartition(places[i], {}, share(2 * places.size(), random.Next()));
    if (i > 0 && best.value >= found.value) continue;
    found = std::move(best);
    found.place = static_cast<int>(i);
  }
  const auto& best_place = places[static_cast<size_t>(found.place)];
  found = FindPartition(best_place, std::move(found), share(2, random.Next()));
  found.bound = std::min(bound, found.value);
  return found;
}

int64_t BoundOfPartitions(const Partitioning& of) {
  if (of.problem_with) return BoundOfRecomputes(of);
  if (!of.fixed.empty()) return LowerBoundOf(of.problem_of(of.fixed));
  constexpr int64_t kMostPartitions = 500, kMostLetters = 400'000;
  const Problem any = of.problem_of(LightFront(of));
  int64_t letters = 1;
  for (const StageWork& stage : any.stages) letters += 3 * int64_t{stage.microbatches};
  // The value is at least the mean over the ranks of work plus wait.
  const int64_t waits = any.objective == Objective::kMakespan ? WaitsOf(of) : 0;
  const int64_t work = std::accumulate(of.pieces.begin(), of.pieces.end(), int64_t{0});
  const int64_t bound = std::max({(work + waits + any.ranks - 1) / std::max(1, any.ranks),
                                  LeastBusiest(of.pieces, any.ranks),
                                  LeastTimeToHold(of.held, any.ranks, of.capacity, waits)});
  int64_t least = kNoLimit;
  const bool all = ForEachPartition(
      of, std::min(kMostPartitions, kMostLetters / letters), [&](const Partition& partition) {
        // After a wish to stop, a bound that holds for all partitions.
        least =
            std::min(least, IsWished(any.stop) ? bound : LowerBoundOf(of.problem_of(partition)));
      });
  return all ? std::max(bound, least) : bound;
}

}  // namespace stringline::search
