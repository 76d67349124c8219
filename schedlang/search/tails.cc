// The pass of relaxed.h from the last microbatch to the first: the least time behind a letter,
// along its dependents and on its rank.
#include <algorithm>

#include "schedlang/search/relaxed.h"

namespace stringline::search {
namespace {

// The least time behind the last letter of every rank: zero if it may be a W.
std::vector<int64_t> LeastBehindRanks(const Relaxed& relaxed) {
  const Problem& problem = *relaxed.problem;
  std::vector<int64_t> behind(problem.ranks, problem.split ? 0 : kNoLimit);
  for (const std::vector<int>& pipe : relaxed.pipes) {
    int64_t way = 0;  // behind the B of the stage
    for (const int s : pipe) {
      int64_t& least = behind[relaxed.rank(s)];
      least = std::min(least, way);
      if (problem.stages[s].next < 0) break;
      const Relaxed::Link& link = relaxed.back_link[problem.stages[s].next];
      way += relaxed.least[s].back + link.transfer + link.latency;
    }
  }
  for (int64_t& least : behind) least = least == kNoLimit ? 0 : least;
  return behind;
}

class TailPass {
 public:
  TailPass(const Relaxed& relaxed, int rank)
      : relaxed_(relaxed),
        rank_(rank),
        stop_(relaxed.problem->stop, LooksOf(relaxed)),
        behind_(LeastBehindRanks(relaxed)) {
    const size_t size = relaxed.at(relaxed.problem->stage_count(), 0);
    tails_.forward.assign(size, kLongAgo);
    tails_.back = tails_.release = tails_.from_forward = tails_.from_back = tails_.forward;
    if (rank != kAnyRank) std::fill(behind_.begin(), behind_.end(), 0);
  }

  Tails Run() && {
    for (const std::vector<int>& pipe : relaxed_.pipes) {
      for (int k = relaxed_.count(pipe[0]) - 1; k >= 0; --k) {
        if (stop_.IsWished()) return std::move(tails_);
        for (const int s : pipe) {
          tails_.release[relaxed_.at(s, k)] = Release(s, k);
          Back(s, k);
        }
        for (size_t i = pipe.size(); i-- > 0;) {
          const size_t at = relaxed_.at(pipe[i], k);
          tails_.forward[at] = Forward(pipe[i], k);
          tails_.from_forward[at] = LeastOf(pipe[i]).forward + tails_.forward[at];
        }
      }
    }
    return std::move(tails_);
  }

 private:
  const LeastTimes& LeastOf(int s) const { return relaxed_.least[s]; }
  bool Counts(int s) const { return rank_ == kAnyRank || relaxed_.rank(s) == rank_; }
  int64_t Least(int s) const { return Counts(s) ? 0 : kLongAgo; }
  const std::vector<int>& RowOf(int s) const { return relaxed_.row_of(s); }

  // For the row of s: counts of letters that may come before the end of F k of s.
  void CountNotBehindForward(int s, int k) {
    const std::vector<int>& row = RowOf(s);
    Resize(row.size());
    for (size_t l = 0; l < row.size(); ++l) {
      const int place = static_cast<int>(l) - relaxed_.place[s];
      done_.forwards[l] = place > 0    ? k
                          : place == 0 ? k + 1
                                       : k + relaxed_.behind[relaxed_.pair(row[l], s)];
      done_.backs[l] = done_.releases[l] = k;
    }
  }

  // Counts of letters that may come before the start of back k of s.
  void CountNotBehindBack(int s, int k) {
    const std::vector<int>& row = RowOf(s);
    Resize(row.size());
    for (size_t l = 0; l < row.size(); ++l) {
      const int fits = k + relaxed_.behind[relaxed_.pair(row[l], s)];
      const bool is_later = static_cast<int>(l) > relaxed_.place[s];
      done_.forwards[l] = fits;
      done_.backs[l] = done_.releases[l] = is_later ? fits : k;
    }
  }

  void Resize(size_t size) {
    for (auto* part : {&done_.forwards, &done_.backs, &done_.releases, &to_.forwards, &to_.backs,
                       &to_.releases}) {
      part->resize(size);
    }
  }

  // The tail by the work behind `done_`: until the rank ends, and until its stages' last F.
  int64_t BeforeWork(int s) {
    const std::vector<int>& row = RowOf(s);
    const int count = relaxed_.count(s);
    int64_t tail = kLongAgo;
    if (Counts(s)) {
      std::fill(to_.forwards.begin(), to_.forwards.end(), count);
      to_.backs = to_.releases = to_.forwards;
      tail = WorkBetween(relaxed_, row, done_, to_) + behind_[relaxed_.rank(s)];
    }
    for (const int last : {row.front(), row.back()}) {
      if (done_.forwards[relaxed_.place[last]] >= count) continue;
      const int64_t from = tails_.from_forward[relaxed_.at(last, count - 1)];
      CountBefore(relaxed_, last, count - 1, &to_);
      tail = std::max(tail, from + WorkBetween(relaxed_, row, done_, to_));
      if (row.size() == 1) break;
    }
    return tail;
  }

  // The tail through the F k + behind of the row's stages, which wait for it.
  int64_t BeforeForwards(int s, int k, const std::vector<int>& behind) const {
    int64_t tail = kLongAgo;
    for (const int waits : RowOf(s)) {
      const int forward = k + behind[relaxed_.pair(waits, s)];
      if (forward >= relaxed_.count(s)) continue;
      tail = std::max(tail, tails_.from_forward[relaxed_.at(waits, forward)]);
    }
    return tail;
  }

  int64_t Release(int s, int k) const {
    int64_t tail = std::max(Least(s), BeforeForwards(s, k, relaxed_.release_behind));
    if (k + 1 < relaxed_.count(s)) {
      tail = std::max(tail, LeastOf(s).between + tails_.release[relaxed_.at(s, k + 1)]);
    }
    return tail;
  }

  void Back(int s, int k) {
    const Problem& problem = *relaxed_.problem;
    const StageWork& stage = problem.stages[s];
    const LeastTimes& least = LeastOf(s);
    const size_t at = relaxed_.at(s, k);
    int64_t tail = std::max(Least(s), BeforeForwards(s, k, relaxed_.behind));
    if (k + 1 < relaxed_.count(s)) {
      tail = std::max(tail, tails_.from_back[relaxed_.at(s, k + 1)]);
    }
    if (stage.previous >= 0) {
      const Relaxed::Link& link = relaxed_.back_link[s];
      tail = std::max(
          tail, link.transfer + link.latency + tails_.from_back[relaxed_.at(stage.previous, k)]);
    }
    const int64_t weight = stage.time[kWeightAt];
    // The W of the k-th back is the k-th release if no B is allowed.
    if (!problem.whole) tail = std::max(tail, weight + tails_.release[at]);
    CountNotBehindBack(s, k);
    const int64_t from_start = BeforeWork(s);
    done_.backs[relaxed_.place[s]] = k + 1;
    if (problem.whole) done_.releases[relaxed_.place[s]] = k + 1;
    tail = std::max(tail, BeforeWork(s));
    tails_.back[at] = tail;
    int64_t from = kNoLimit;
    if (problem.whole) from = least.whole + tail;
    if (problem.split) from = std::min(from, least.input + std::max(tail, weight + Least(s)));
    tails_.from_back[at] = std::max(from, from_start);
  }

  int64_t Forward(int s, int k) {
    const StageWork& stage = relaxed_.problem->stages[s];
    int64_t tail = Least(s);
    if (k + 1 < relaxed_.count(s)) {
      tail = std::max(tail, tails_.from_forward[relaxed_.at(s, k + 1)]);
    }
    if (stage.next < 0) {
      tail = std::max(tail, tails_.from_back[relaxed_.at(s, k)]);
    } else {
      const Relaxed::Link& link = relaxed_.forward_link[s];
      tail = std::max(
          tail, link.transfer + link.latency + tails_.from_forward[relaxed_.at(stage.next, k)]);
    }
    CountNotBehindForward(s, k);
    return std::max(tail, BeforeWork(s));
  }

  const Relaxed& relaxed_;
  const int rank_;
  SparseStop stop_;
  std::vector<int64_t> behind_;  // by rank
  RowCounts done_, to_;
  Tails tails_;
};

}  // namespace

Tails TailsOf(const Relaxed& relaxed, int rank) { return TailPass(relaxed, rank).Run(); }

}  // namespace stringline::search
