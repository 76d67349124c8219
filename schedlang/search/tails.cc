// The pass of relaxed.h from the last microbatch to the first one: what must still come behind a
// letter, along its ways on and on its rank.
#include <algorithm>

#include "schedlang/search/relaxed.h"

namespace stringline::search {
namespace {

// Behind the last letter of every rank: nothing where that may be a W.
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
      : relaxed_(relaxed), rank_(rank), behind_(LeastBehindRanks(relaxed)) {
    const size_t size = relaxed.at(relaxed.problem->stage_count(), 0);
    tails_.forward.assign(size, kLongAgo);
    tails_.back = tails_.release = tails_.from_forward = tails_.from_back = tails_.forward;
    if (rank != kAnyRank) std::fill(behind_.begin(), behind_.end(), 0);
  }

  Tails Run() && {
    for (const std::vector<int>& pipe : relaxed_.pipes) {
      for (int k = relaxed_.count(pipe[0]) - 1; k >= 0; --k) {
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
  const std::vector<int>& RowOf(int s) const { return relaxed_.rows[relaxed_.row[s]]; }

  int64_t Release(int s, int k) const {
    int64_t tail = Least(s);
    const int count = relaxed_.count(s);
    if (k + 1 < count) {
      tail = std::max(tail, LeastOf(s).between + tails_.release[relaxed_.at(s, k + 1)]);
    }
    const int forward = k + relaxed_.release_behind[s];
    if (forward < count) tail = std::max(tail, tails_.from_forward[relaxed_.at(s, forward)]);
    return tail;
  }

  // Of work on the rank behind back k of s: the backs of the stages before it in its row, and
  // releases of them; F that wait for it.
  int64_t WorkBehindBack(int s, int k) const {
    const int count = relaxed_.count(s);
    int64_t work = (count - 1 - k) * (LeastOf(s).back_share + LeastOf(s).weight_share);
    for (int l = 0; l < relaxed_.place[s]; ++l) {
      const LeastTimes& least = LeastOf(RowOf(s)[l]);
      work += (count - k) * (least.back_share + least.weight_share);
    }
    for (const Relaxed::Room& room : relaxed_.waited_for[s]) {
      work += std::max(0, count - k - room.behind) * LeastOf(room.stage).forward_share;
    }
    return work;
  }

  void Back(int s, int k) {
    const Problem& problem = *relaxed_.problem;
    const StageWork& stage = problem.stages[s];
    const LeastTimes& least = LeastOf(s);
    const size_t at = relaxed_.at(s, k);
    int64_t tail = Least(s);
    if (k + 1 < relaxed_.count(s)) {
      tail = std::max(tail, tails_.from_back[relaxed_.at(s, k + 1)]);
    }
    if (stage.previous >= 0) {
      const Relaxed::Link& link = relaxed_.back_link[s];
      tail = std::max(
          tail, link.transfer + link.latency + tails_.from_back[relaxed_.at(stage.previous, k)]);
    }
    for (const Relaxed::Room& room : relaxed_.waited_for[s]) {
      const int forward = k + room.behind;
      if (forward >= relaxed_.count(s)) continue;
      tail = std::max(tail, tails_.from_forward[relaxed_.at(room.stage, forward)]);
    }
    const int64_t weight = stage.time[kWeightAt];
    const int64_t work = WorkBehindBack(s, k) + behind_[stage.rank];
    if (Counts(s)) tail = std::max(tail, work);
    // The W of the k-th back is the k-th release where there is no B.
    if (!problem.whole) {
      tail = std::max(tail, weight + tails_.release[at]);
      if (Counts(s)) tail = std::max(tail, work + least.weight_share);
    }
    tails_.back[at] = tail;
    int64_t from = kNoLimit;
    if (problem.whole) from = least.whole + tail;
    if (problem.split) from = std::min(from, least.input + std::max(tail, weight + Least(s)));
    if (Counts(s)) from = std::max(from, work + least.back_share + least.weight_share);
    tails_.from_back[at] = from;
  }

  int64_t Forward(int s, int k) const {
    const StageWork& stage = relaxed_.problem->stages[s];
    const int count = relaxed_.count(s);
    int64_t tail = Least(s);
    if (k + 1 < count) tail = std::max(tail, tails_.from_forward[relaxed_.at(s, k + 1)]);
    if (stage.next < 0) {
      tail = std::max(tail, tails_.from_back[relaxed_.at(s, k)]);
    } else {
      const Relaxed::Link& link = relaxed_.forward_link[s];
      tail = std::max(
          tail, link.transfer + link.latency + tails_.from_forward[relaxed_.at(stage.next, k)]);
    }
    if (!Counts(s)) return tail;
    int64_t work = behind_[stage.rank] - LeastOf(s).forward_share;
    const std::vector<int>& row = RowOf(s);
    for (size_t l = 0; l < row.size(); ++l) {
      const LeastTimes& least = LeastOf(row[l]);
      const bool is_behind = static_cast<int>(l) >= relaxed_.place[s];
      work += (count - k) *
              (least.back_share + least.weight_share + (is_behind ? least.forward_share : 0));
    }
    return std::max(tail, work);
  }

  const Relaxed& relaxed_;
  const int rank_;
  std::vector<int64_t> behind_;  // by rank
  Tails tails_;
};

}  // namespace

Tails TailsOf(const Relaxed& relaxed, int rank) { return TailPass(relaxed, rank).Run(); }

}  // namespace stringline::search
