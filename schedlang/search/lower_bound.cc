// Heads and tails once for the makespan, or once for every rank; then every rank's bounds, and the
// best of all. With pairs all of it twice: their savings are counted on either side.
#include "schedlang/search/lower_bound.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schedlang/search/held_area.h"
#include "schedlang/search/one_rank.h"
#include "schedlang/search/relaxed.h"

namespace stringline::search {
namespace {

class Bounds {
 public:
  // `alone`: the problem for the letters of the rank that is measured, beside others as in
  // `problem`: the same, or the one without pairs.
  Bounds(const Problem& problem, const Problem& alone, SavedOn saved_on)
      : problem_(problem),
        alone_(alone),
        relaxed_(RelaxedOf(problem, saved_on)),
        of_ranks_(static_cast<size_t>(problem.ranks), 0),
        waits_(of_ranks_) {
    if (&alone != &problem) without_pairs_ = RelaxedOf(alone, saved_on);
  }

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

  // After Best(): the bound of a rank alone; and the part of it before and behind its letters.
  int64_t OfRank(int rank) const { return of_ranks_[static_cast<size_t>(rank)]; }
  int64_t WaitsOf(int rank) const { return waits_[static_cast<size_t>(rank)]; }
  const Relaxed& relaxed() const { return relaxed_; }

  // The product of memory and time that the rank must have, at least: what microbatches hold, and
  // what stays free while the memory fills up and empties.
  Area AreaOf(int rank) const { return HeldArea(rank) + FreeArea(rank); }

 private:
  // `start`: the time from which the rank's time counts.
  void Measure(int rank, int64_t start) {
    int64_t begin = kNoLimit, behind = kNoLimit, work = 0, path = 0;
    for (int s = 0; s < problem_.stage_count(); ++s) {
      const int count = relaxed_.count(s);
      if (problem_.stages[s].rank != rank || count == 0) continue;
      const LeastTimes& least = letters().least[s];
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
    waits_[static_cast<size_t>(rank)] = begin - start + behind;
    const BoundParts base{.rank = rank,
                          .before = begin - start,
                          .work = std::max(work, LeastWork(alone_, rank)),
                          .behind = behind};
    using Reason = BoundParts::Reason;
    Take(base, base.sum(), Reason::kWork);
    const Window window = BestWindow(letters(), heads_, tails_, rank);
    const bool warms = window.begin > begin, cools = window.behind > behind;
    Take(base, window.value - start,
         warms && cools ? Reason::kBoth
         : cools        ? Reason::kCoolDown
                        : Reason::kWarmUp);
    Take(base, InterruptedEnd(letters(), frontier_, heads_, tails_, rank, &scratch_) - start,
         Reason::kBoth);
    Take(base, path - start, Reason::kPath);
    Take(base, begin - start + TimeOfArea(rank) + behind, Reason::kArea);
  }

  // Relaxed for the letters of the rank that is measured.
  const Relaxed& letters() const { return without_pairs_ ? *without_pairs_ : relaxed_; }

  // The least time for the product of memory and time that the rank must have.
  int64_t TimeOfArea(int rank) const {
    const int64_t capacity = problem_.capacity[rank];
    if (!relaxed_.limited[rank] || capacity <= 0) return 0;
    return static_cast<int64_t>((AreaOf(rank) + capacity - 1) / capacity);
  }

  Area HeldArea(int rank) const {
    Area area = 0;
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
    return area;
  }

  // F begin one after the other, and releases end so: at first and at last the memory is free in
  // part. Where there are fewer F than it takes to fill it, these times may overlap, and count for
  // nothing.
  Area FreeArea(int rank) const {
    int64_t most_held = 0, forward = kNoLimit, release = kNoLimit, count = 0;
    for (int s = 0; s < problem_.stage_count(); ++s) {
      const StageWork& stage = problem_.stages[s];
      if (stage.rank != rank || stage.microbatches == 0) continue;
      const LeastTimes& least = relaxed_.least[s];
      const int64_t deferred = problem_.split ? stage.after[kForwardAt] + stage.after[kInputAt] : 0;
      most_held = std::max({most_held, stage.after[kForwardAt], deferred});
      forward = std::min(forward, least.forward);
      release = std::min(release, least.between);
      count += stage.microbatches;
    }
    if (most_held == 0) return 0;
    const int64_t capacity = problem_.capacity[rank];
    // The sum of capacity - i * most_held for i = 1, 2 … while it is positive.
    const Area steps = (capacity - 1) / most_held;
    const Area per_time = steps * capacity - most_held * (steps * (steps + 1) / 2);
    return count > steps ? per_time * (forward + release) : 0;
  }

  // Memory times time of all microbatches of a stage.
  Area HeldOf(int s, int64_t trip) const {
    const StageWork& stage = problem_.stages[s];
    const LeastTimes& least = relaxed_.least[s];
    const Area held = stage.after[kForwardAt];
    const Area back = AreaOfBack(problem_, stage, least.whole, least.input);
    return (held * (least.forward + trip) + back) * stage.microbatches;
  }

  void Take(const BoundParts& base, int64_t value, BoundParts::Reason reason) {
    int64_t& own = of_ranks_[static_cast<size_t>(base.rank)];
    own = std::max(own, value);
    if (best_.rank >= 0 && value <= best_.sum()) return;
    best_ = base;
    best_.reason = reason;
    best_.idle = value - base.sum();
  }

  const Problem& problem_;
  const Problem& alone_;
  const Relaxed relaxed_;
  std::optional<Relaxed> without_pairs_;  // of `alone`, if that is another problem
  Frontier frontier_;
  Heads heads_;
  Tails tails_;
  OneRankScratch scratch_;
  std::vector<int64_t> of_ranks_, waits_;
  BoundParts best_;
};

// Pairs save rank time, but each takes longer than its F or its back alone, and so lengthens the
// time for which microbatches are held. A pair that is made two groups delays all behind it by what
// it saved: a rank with p pairs ends no earlier than without any, less p savings. The fewest pairs
// for an end are so known for each rank, and the area that they take must be there.
class PairTrade {
 public:
  explicit PairTrade(const Problem& problem)
      : problem_(problem),
        plain_(WithoutPairs(problem)),
        bounds_(problem, plain_, SavedOn::kForwards),
        saved_(static_cast<size_t>(problem.ranks), 0) {}

  // The least time of at least `least` for which there is enough memory.
  BoundParts Best(int64_t least) {
    BoundParts best;
    if (bounds_.Best().sum() >= kNoLimit || !FindPairs()) return best;
    int64_t enough = least;
    for (int r = 0; r < problem_.ranks; ++r) enough = std::max(enough, bounds_.OfRank(r));
    int scarce = -1;
    while (least < enough && !IsWished(problem_.stop)) {
      const int64_t middle = least + (enough - least) / 2;
      const int rank = WithoutRoomIn(middle);
      if (rank < 0) {
        enough = middle;
      } else {
        scarce = rank;
        least = middle + 1;
      }
    }
    if (scarce < 0) return best;
    best = {.rank = scarce,
            .reason = BoundParts::Reason::kArea,
            .before = bounds_.WaitsOf(scarce),
            .work = LeastWork(problem_, scarce)};
    best.idle = least - best.sum();
    return best;
  }

 private:
  static Problem WithoutPairs(Problem problem) {
    problem.whole_pairs.clear();
    problem.input_pairs.clear();
    return problem;
  }

  // Finds the most that a pair of each rank saves, and the least area that it takes on each rank.
  // False where a pair takes less time than a part of it.
  bool FindPairs() {
    const auto stages = problem_.stages.size();
    const auto ranks = static_cast<size_t>(problem_.ranks);
    // Memory of a microbatch that a rank holds while a stage works on it, by rank and stage.
    std::vector<int64_t> held(ranks * stages, 0);
    for (const std::vector<int>& pipe : bounds_.relaxed().pipes) {
      std::vector<int64_t> by_rank(ranks, 0);
      for (const int s : pipe) {
        const StageWork& stage = problem_.stages[s];
        by_rank[stage.rank] += stage.after[kForwardAt];
        for (size_t r = 0; r < ranks; ++r) held[r * stages + s] = by_rank[r];
      }
    }
    extra_.assign(ranks * ranks, kNoLimit);
    for (int a = 0; a < problem_.stage_count(); ++a) {
      for (int b = 0; b < problem_.stage_count(); ++b) {
        for (const ActionKind kind : {ActionKind::kBackward, ActionKind::kInputGradient}) {
          if (!AddPair(a, b, kind, held)) return false;
        }
      }
    }
    return true;
  }

  bool AddPair(int a, int b, ActionKind kind, const std::vector<int64_t>& held) {
    const bool is_allowed = kind == ActionKind::kBackward ? problem_.whole : problem_.split;
    if (!is_allowed || problem_.stages[a].rank != problem_.stages[b].rank) return true;
    const int64_t time = problem_.TimeOf({LetterOf(ActionKind::kForward, a), LetterOf(kind, b)});
    if (time < 0) return true;
    const int64_t forward = problem_.stages[a].time[kForwardAt];
    const int64_t back = problem_.stages[b].time[Index(kind)];
    if (time < forward || time < back) return false;
    const auto q = static_cast<size_t>(problem_.stages[a].rank);
    saved_[q] = std::max(saved_[q], forward + back - time);
    for (size_t r = 0; r < saved_.size(); ++r) {
      const size_t row = r * problem_.stages.size();
      // While its own back runs, a stage is counted by this kind of it.
      const int64_t own = r == q ? problem_.stages[b].after[kForwardAt] : 0;
      const int64_t extra = held[row + a] * (time - forward) + own * (time - back) +
                            (held[row + b] - own) * (time - bounds_.relaxed().least[b].back);
      int64_t& of_pair = extra_[r * saved_.size() + q];
      of_pair = std::min(of_pair, extra);
    }
    return true;
  }

  // A rank that has too little room for what must be held if all ranks end at the time; -1: none.
  int WithoutRoomIn(int64_t time) const {
    const auto ranks = saved_.size();
    std::vector<int64_t> pairs(ranks, 0);
    for (size_t q = 0; q < ranks; ++q) {
      const int64_t late = bounds_.OfRank(static_cast<int>(q)) - time;
      if (late <= 0) continue;
      if (saved_[q] == 0) return static_cast<int>(q);
      pairs[q] = (late + saved_[q] - 1) / saved_[q];
    }
    for (size_t r = 0; r < ranks; ++r) {
      const int rank = static_cast<int>(r);
      if (!bounds_.relaxed().limited[r]) continue;
      Area area = bounds_.AreaOf(rank);
      for (size_t q = 0; q < ranks; ++q) {
        if (pairs[q] > 0) area += static_cast<Area>(extra_[r * ranks + q]) * pairs[q];
      }
      const int64_t lasts = time - bounds_.WaitsOf(rank);
      if (area > static_cast<Area>(problem_.capacity[r]) * lasts) return rank;
    }
    return -1;
  }

  const Problem& problem_;
  const Problem plain_;
  Bounds bounds_;
  std::vector<int64_t> saved_;  // by rank
  std::vector<int64_t> extra_;  // by rank that holds, and rank of the pair
};

}  // namespace

BoundParts PartsOfBound(const Problem& problem) {
  BoundParts best = Bounds(problem, problem, SavedOn::kForwards).Best();
  if (problem.whole_pairs.empty() && problem.input_pairs.empty()) return best;
  for (const BoundParts& other :
       {Bounds(problem, problem, SavedOn::kBacks).Best(), PairTrade(problem).Best(best.sum())}) {
    if (other.sum() > best.sum()) best = other;
  }
  return best;
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
