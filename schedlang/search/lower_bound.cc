// Heads and tails once for the makespan, or once for every rank; then every rank's bounds, and the
// best of all. With pairs all of it twice: their savings are counted on either side.
#include "schedlang/search/lower_bound.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schedlang/search/one_rank.h"
#include "schedlang/search/relaxed.h"

namespace stringline::search {
namespace {

class Bounds {
 public:
  Bounds(const Problem& problem, SavedOn saved_on)
      : problem_(problem), relaxed_(RelaxedOf(problem, saved_on)) {}

  BoundParts Best() {
    if (relaxed_.without_room >= 0) {
      best_ = {
          .rank = relaxed_.without_room, .reason = BoundParts::Reason::kWarmUp, .idle = kNoLimit};
      return best_;
    }
    const bool is_makespan = problem_.objective == Objective::kMakespan;
    const std::vector<int64_t> starts =
        problem_.objective == Objective::kSpan ? KnownStarts(problem_) : std::vector<int64_t>();
    if (is_makespan || !starts.empty()) {
      frontier_ = Beginning(relaxed_);
      FindHeads(relaxed_, frontier_, &heads_);
    }
    if (is_makespan) tails_ = TailsOf(relaxed_, kAnyRank);
    for (int r = 0; r < problem_.ranks && !IsWished(problem_.stop); ++r) {
      if (!is_makespan) {
        tails_ = TailsOf(relaxed_, r);
        if (starts.empty()) {
          frontier_ = BeginningOf(relaxed_, r);
          FindHeads(relaxed_, frontier_, &heads_);
        }
      }
      if (IsWished(problem_.stop)) break;
      Measure(r, starts.empty() ? 0 : starts[r]);
    }
    // After a wish to stop, the work of each rank alone is a bound, too.
    for (int r = 0; r < problem_.ranks && IsWished(problem_.stop); ++r) {
      const BoundParts work{.rank = r, .work = LeastWork(problem_, r)};
      Take(work, work.sum(), BoundParts::Reason::kWork);
    }
    return best_;
  }

 private:
  // `start`: the time from which the rank's time counts.
  void Measure(int rank, int64_t start) {
    int64_t begin = kNoLimit, behind = kNoLimit, work = 0, path = 0;
    for (int s = 0; s < problem_.stage_count(); ++s) {
      const int count = relaxed_.count(s);
      if (problem_.stages[s].rank != rank || count == 0) continue;
      const LeastTimes& least = relaxed_.least[s];
      begin = std::min(begin, heads_.forward[relaxed_.at(s, 0)]);
      const size_t last = relaxed_.at(s, count - 1);
      behind = std::min(behind, problem_.split ? tails_.release[last] : tails_.back[last]);
      work += count * (least.forward_share + least.back_share + least.weight_share);
      for (int k = 0; k < count; ++k) {
        const size_t at = relaxed_.at(s, k);
        path = std::max({path, heads_.forward[at] + tails_.from_forward[at],
                         heads_.back[at] + tails_.from_back[at],
                         heads_.release[at] + tails_.release[at]});
      }
    }
    if (begin == kNoLimit) return;
    const BoundParts base{.rank = rank,
                          .before = begin - start,
                          .work = std::max(work, LeastWork(problem_, rank)),
                          .behind = behind};
    using Reason = BoundParts::Reason;
    Take(base, base.sum(), Reason::kWork);
    const Window window = BestWindow(relaxed_, heads_, tails_, rank);
    const bool warms = window.begin > begin, cools = window.behind > behind;
    Take(base, window.value - start,
         warms && cools ? Reason::kBoth
         : cools        ? Reason::kCoolDown
                        : Reason::kWarmUp);
    Take(base, InterruptedEnd(relaxed_, frontier_, heads_, tails_, rank, &scratch_) - start,
         Reason::kBoth);
    Take(base, path - start, Reason::kPath);
    Take(base, begin - start + Area(rank) + behind, Reason::kArea);
  }

  // The least time for the product of memory and time that the rank must hold.
  int64_t Area(int rank) const {
    const int64_t capacity = problem_.capacity[rank];
    if (!relaxed_.limited[rank] || capacity <= 0) return 0;
    __int128 area = 0;
    for (const std::vector<int>& pipe : relaxed_.pipes) {
      int64_t trip = 0;  // from the end of the stage's F to the start of its back
      for (size_t i = pipe.size(); i-- > 0;) {
        const int s = pipe[i];
        const LeastTimes& least = relaxed_.least[s];
        if (problem_.stages[s].rank == rank) area += HeldOf(s, trip);
        if (i == 0) break;
        const Relaxed::Link& there = relaxed_.forward_link[pipe[i - 1]];
        const Relaxed::Link& back = relaxed_.back_link[s];
        trip += least.forward + least.back + there.transfer + there.latency + back.transfer +
                back.latency;
      }
    }
    return static_cast<int64_t>((area + capacity - 1) / capacity);
  }

  // Memory times time of all microbatches of a stage.
  __int128 HeldOf(int s, int64_t trip) const {
    const StageWork& stage = problem_.stages[s];
    const LeastTimes& least = relaxed_.least[s];
    const __int128 held = stage.after[kForwardAt];
    __int128 back = kNoLimit * held;
    if (problem_.whole) back = held * least.whole;
    if (problem_.split) {
      const __int128 deferred = held + stage.after[kInputAt];
      back = std::min(back, held * least.input + deferred * stage.time[kWeightAt]);
    }
    return (held * (least.forward + trip) + back) * stage.microbatches;
  }

  void Take(const BoundParts& base, int64_t value, BoundParts::Reason reason) {
    if (best_.rank >= 0 && value <= best_.sum()) return;
    best_ = base;
    best_.reason = reason;
    best_.idle = value - base.sum();
  }

  const Problem& problem_;
  const Relaxed relaxed_;
  Frontier frontier_;
  Heads heads_;
  Tails tails_;
  OneRankScratch scratch_;
  BoundParts best_;
};

}  // namespace

BoundParts PartsOfBound(const Problem& problem) {
  BoundParts best = Bounds(problem, SavedOn::kForwards).Best();
  if (problem.whole_pairs.empty() && problem.input_pairs.empty()) return best;
  const BoundParts other = Bounds(problem, SavedOn::kBacks).Best();
  return other.sum() > best.sum() ? other : best;
}

std::string Print(const BoundParts& parts, std::string (*print)(int64_t)) {
  if (parts.rank < 0) return "nothing to do";
  if (parts.idle >= kNoLimit) {
    return absl::StrCat("rank ", parts.rank, " cannot hold one microbatch");
  }
  constexpr const char* kWhere[] = {
      "", " in warm-up", " in cool-down", " in warm-up and cool-down", " by a path", " for memory"};
  const auto said = [print](int64_t number) {
    return print != nullptr ? print(number) : absl::StrCat(number);
  };
  return absl::StrCat("rank ", parts.rank, ": ", said(parts.before), " before its first action, ",
                      said(parts.work), " of work, ", said(parts.idle), " of idle time",
                      kWhere[static_cast<size_t>(parts.reason)], ", ", said(parts.behind),
                      " behind");
}

int64_t LeastCapacity(const Problem& problem, int rank) {
  int64_t most = 0;
  for (int first = 0; first < problem.stage_count(); ++first) {
    if (problem.stages[first].previous >= 0 || problem.stages[first].microbatches == 0) continue;
    int64_t held = 0;
    for (int s = first; s >= 0; s = problem.stages[s].next) {
      const StageWork& stage = problem.stages[s];
      if (stage.rank != rank) continue;
      most = std::max(most, held + stage.during[kForwardAt]);
      held += stage.after[kForwardAt];
      int64_t back = kNoLimit;
      if (problem.whole) back = stage.during[kWholeAt];
      if (problem.split) back = std::min(back, stage.during[kInputAt]);
      most = std::max(most, held + back);
    }
  }
  return most;
}

bool CanBeKept(const Problem& problem) {
  for (int r = 0; r < problem.ranks; ++r) {
    if (LeastCapacity(problem, r) > problem.capacity[static_cast<size_t>(r)]) return false;
  }
  return true;
}

std::vector<int64_t> KnownStarts(const Problem& problem) {
  if (problem.is_unequal()) return {};  // any microbatch may be the first
  std::vector<int64_t> starts(problem.ranks, kNoLimit);
  bool is_seen_before = false;
  int pipes = 0;
  for (int first = 0; first < problem.stage_count(); ++first) {
    if (problem.stages[first].previous >= 0) continue;
    if (++pipes > 1) return {};
    int64_t way = 0;
    for (int s = first; s >= 0; s = problem.stages[s].next) {
      const StageWork& stage = problem.stages[s];
      if (starts[stage.rank] != kNoLimit) {
        is_seen_before = true;  // the stages behind it may be kept waiting
      } else {
        if (is_seen_before) return {};
        starts[stage.rank] = way;
      }
      way += stage.time[kForwardAt];
      if (stage.next >= 0 && problem.stages[stage.next].rank != stage.rank) {
        way += stage.activation.all();
      }
    }
  }
  for (int64_t& start : starts) start = start == kNoLimit ? 0 : start;
  return starts;
}

}  // namespace stringline::search
