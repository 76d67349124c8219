// The tables: the least times, rows of stages, dependencies by memory.
#include "schedlang/search/relaxed.h"

#include <algorithm>

namespace stringline::search {
namespace {

// Calls `visit(a, b, time, is_whole)` for every allowed pair: F of a, B or I of b.
template <typename Visit>
void VisitPairs(const Problem& problem, Visit visit) {
  const int stages = problem.stage_count();
  for (const bool is_whole : {true, false}) {
    const std::vector<int64_t>& pairs = is_whole ? problem.whole_pairs : problem.input_pairs;
    if (pairs.empty() || !(is_whole ? problem.whole : problem.split)) continue;
    for (int a = 0; a < stages; ++a) {
      for (int b = 0; b < stages; ++b) {
        const int64_t time =
            pairs[static_cast<size_t>(a) * problem.stages.size() + static_cast<size_t>(b)];
        if (time < 0 || problem.stages[a].rank != problem.stages[b].rank) continue;
        visit(a, b, time, is_whole);
      }
    }
  }
}

// Shares of the F of every stage, and of its B or I (whole, input).
struct Shares {
  std::vector<int64_t> forward, whole, input;
};

Shares SharesOf(const Problem& problem, SavedOn saved_on) {
  Shares shares;
  for (const StageWork& stage : problem.stages) {
    shares.forward.push_back(stage.time[kForwardAt]);
    shares.whole.push_back(stage.time[kWholeAt]);
    shares.input.push_back(stage.time[kInputAt]);
  }
  // First the savings go to one side, up to its full time; then the rest to the other.
  for (const bool first : {true, false}) {
    const bool forwards = (saved_on == SavedOn::kForwards) == first;
    const Shares before = shares;
    VisitPairs(problem, [&](int a, int b, int64_t time, bool is_whole) {
      std::vector<int64_t>& back = is_whole ? shares.whole : shares.input;
      const std::vector<int64_t>& other = is_whole ? before.whole : before.input;
      int64_t& share = forwards ? shares.forward[a] : back[b];
      share =
          std::min(share, std::max<int64_t>(0, time - (forwards ? other[b] : before.forward[a])));
    });
  }
  return shares;
}

void FindLeastTimes(const Problem& problem, SavedOn saved_on, Relaxed* relaxed) {
  for (const StageWork& stage : problem.stages) {
    LeastTimes least;
    least.forward = stage.time[kForwardAt];
    if (problem.whole) least.whole = stage.time[kWholeAt];
    if (problem.split) least.input = stage.time[kInputAt];
    relaxed->least.push_back(least);
  }
  VisitPairs(problem, [&](int a, int b, int64_t time, bool is_whole) {
    LeastTimes& first = relaxed->least[a];
    first.forward = std::min(first.forward, time);
    int64_t& second = is_whole ? relaxed->least[b].whole : relaxed->least[b].input;
    second = std::min(second, time);
  });
  const Shares shares = SharesOf(problem, saved_on);
  for (int s = 0; s < problem.stage_count(); ++s) {
    LeastTimes& least = relaxed->least[s];
    const int64_t weight = problem.stages[s].time[kWeightAt];
    least.back = std::min(least.whole, least.input);
    least.release = std::min(least.whole, least.input + (problem.split ? weight : 0));
    least.between = !problem.split   ? least.whole
                    : !problem.whole ? weight
                                     : std::min(weight, least.whole);
    least.forward_share = shares.forward[s];
    if (!problem.split) {
      least.back_share = shares.whole[s];
    } else if (!problem.whole) {
      least.back_share = shares.input[s];
      least.weight_share = weight;
    } else {
      least.back_share = std::min(shares.whole[s], shares.input[s]);
      least.weight_share = std::min(weight, shares.whole[s] - least.back_share);
    }
  }
}

void FindRows(const Problem& problem, Relaxed* relaxed) {
  const int stages = problem.stage_count();
  relaxed->row.assign(stages, -1);
  relaxed->place.assign(stages, 0);
  for (int first = 0; first < stages; ++first) {
    if (problem.stages[first].previous >= 0) continue;
    std::vector<int> row_of_rank(problem.ranks, -1);
    relaxed->pipes.emplace_back();
    for (int s = first; s >= 0; s = problem.stages[s].next) {
      relaxed->pipes.back().push_back(s);
      int& row = row_of_rank[problem.stages[s].rank];
      if (row < 0) {
        row = static_cast<int>(relaxed->rows.size());
        relaxed->rows.emplace_back();
      }
      relaxed->row[s] = row;
      relaxed->place[s] = static_cast<int>(relaxed->rows[row].size());
      relaxed->rows[row].push_back(s);
    }
  }
}

bool ReleaseAll(const Problem& problem, int rank) {
  return std::all_of(problem.stages.begin(), problem.stages.end(), [&](const StageWork& stage) {
    return stage.rank != rank || ReleasesAll(problem, stage);
  });
}

int64_t LeastDuringBack(const Problem& problem, int stage) {
  const auto& during = problem.stages[stage].during;
  if (!problem.split) return during[kWholeAt];
  return problem.whole ? std::min(during[kWholeAt], during[kInputAt]) : during[kInputAt];
}

class RowRoom {
 public:
  RowRoom(const std::vector<int>& row, Relaxed* relaxed)
      : problem_(*relaxed->problem),
        row_(row),
        relaxed_(*relaxed),
        room_(problem_.capacity[problem_.stages[row[0]].rank]) {
    held_.push_back(0);
    for (const int s : row) held_.push_back(held_.back() + HeldBy(s));
  }

  void Find() {
    for (size_t i = 0; i < row_.size(); ++i) {
      for (size_t e = 0; e < row_.size(); ++e) {
        Set(&relaxed_.behind, &relaxed_.least_behind, i, e, e < i ? Before(i, e) : NotBefore(i, e));
        if (e <= i) {
          Set(&relaxed_.release_behind, &relaxed_.least_release_behind, i, e, Unreleased(i, e));
        }
      }
    }
  }

 private:
  int64_t HeldBy(int s) const { return problem_.stages[s].after[kForwardAt]; }
  // The room beside a running F of s_i, as if it held only what it holds afterwards.
  int64_t RoomOfForward(size_t i) const {
    return room_ + HeldBy(row_[i]) - problem_.stages[row_[i]].during[kForwardAt];
  }
  int64_t HowOften(int64_t room, int64_t size) const {
    if (room < 0) return 0;
    return size > 0 ? room / size : relaxed_.most;
  }

  int64_t NotBefore(size_t i, size_t e) const {
    int64_t room = room_ - (held_[e + 1] - held_[i + 1]) - LeastDuringBack(problem_, row_[e]);
    if (e == i) room = std::min(room, RoomOfForward(i));
    return HowOften(room, held_[i + 1]);
  }
  int64_t Before(size_t i, size_t e) const {
    return HowOften(RoomOfForward(i) - (held_[i + 1] - held_[e + 1]), held_[e + 1]);
  }
  int64_t Unreleased(size_t i, size_t e) const {
    const int64_t others = held_[i + 1] - HeldBy(row_[e]);
    int64_t least = HeldBy(row_[e]);
    if (problem_.split) {
      least = std::min(least, least + problem_.stages[row_[e]].after[kInputAt]);
    }
    // For s_i itself the F that begins is held whole.
    const int64_t itself = i == e ? HeldBy(row_[e]) : 0;
    return HowOften(RoomOfForward(i) - others - itself, least) + (i == e ? 1 : 0);
  }

  void Set(std::vector<int>* table, std::vector<int>* least, size_t i, size_t e, int64_t behind) {
    if (behind < 1) relaxed_.without_room = relaxed_.rank(row_[i]);
    const auto number = static_cast<int>(std::clamp<int64_t>(behind, 1, relaxed_.most));
    (*table)[relaxed_.pair(row_[i], row_[e])] = number;
    (*least)[row_[e]] = std::min((*least)[row_[e]], number);
  }

  const Problem& problem_;
  const std::vector<int>& row_;
  Relaxed& relaxed_;
  const int64_t room_;
  std::vector<int64_t> held_;  // per microbatch, by the first stages of the row
};

void FindRoom(const Problem& problem, Relaxed* relaxed) {
  const auto stages = static_cast<size_t>(problem.stage_count());
  relaxed->behind.assign(stages * stages, relaxed->most);
  relaxed->release_behind = relaxed->behind;
  relaxed->least_behind.assign(stages, relaxed->most);
  relaxed->least_release_behind = relaxed->least_behind;
  for (int r = 0; r < problem.ranks; ++r) {
    relaxed->limited.push_back(problem.capacity[r] < kNoLimit && ReleaseAll(problem, r));
  }
  for (const std::vector<int>& row : relaxed->rows) {
    if (relaxed->count(row[0]) == 0) continue;
    if (relaxed->limited[relaxed->rank(row[0])]) RowRoom(row, relaxed).Find();
  }
}

}  // namespace

bool ReleasesAll(const Problem& problem, const StageWork& stage) {
  const auto& [forward, whole, input, weight] = stage.after;
  if (forward < 0 || forward > stage.during[kForwardAt]) return false;
  if (problem.whole && (forward + whole != 0 || stage.during[kWholeAt] < 0)) return false;
  if (!problem.split) return true;
  return forward + input >= 0 && forward + input + weight == 0 && stage.during[kInputAt] >= 0;
}

Relaxed RelaxedOf(const Problem& problem, SavedOn saved_on) {
  Relaxed relaxed;
  relaxed.problem = &problem;
  for (const StageWork& stage : problem.stages) {
    relaxed.most = std::max(relaxed.most, stage.microbatches);
  }
  FindLeastTimes(problem, saved_on, &relaxed);
  FindRows(problem, &relaxed);
  FindRoom(problem, &relaxed);
  for (const StageWork& stage : problem.stages) {
    const auto link = [&](int to, const MessageTime& message) -> Relaxed::Link {
      if (to < 0 || problem.stages[to].rank == stage.rank) return {};
      return {message.transfer, message.latency};
    };
    relaxed.forward_link.push_back(link(stage.next, stage.activation));
    relaxed.back_link.push_back(link(stage.previous, stage.gradient));
  }
  return relaxed;
}

int LooksOf(const Relaxed& relaxed) {
  constexpr size_t kLettersOfALook = 10'000;
  return static_cast<int>(kLettersOfALook / (relaxed.least.size() + 1)) + 1;
}

Frontier BeginningOf(const Relaxed& relaxed, int rank) {
  Frontier frontier;
  frontier.forwards.assign(relaxed.least.size(), 0);
  frontier.backs = frontier.releases = frontier.forwards;
  frontier.now.assign(relaxed.problem->ranks, kLongAgo);
  if (rank != kAnyRank) frontier.now[rank] = 0;
  return frontier;
}

Frontier Beginning(const Relaxed& relaxed) {
  Frontier frontier = BeginningOf(relaxed, kAnyRank);
  std::vector<int64_t> first(frontier.now.size(), kNoLimit);
  for (const std::vector<int>& pipe : relaxed.pipes) {
    int64_t way = 0;
    for (const int s : pipe) {
      int64_t& now = first[relaxed.rank(s)];
      now = std::min(now, way);
      const Relaxed::Link& link = relaxed.forward_link[s];
      way += relaxed.least[s].forward + link.transfer + link.latency;
    }
  }
  for (size_t r = 0; r < first.size(); ++r) frontier.now[r] = first[r] == kNoLimit ? 0 : first[r];
  return frontier;
}

void CountBefore(const Relaxed& relaxed, int stage, int k, RowCounts* counts) {
  const std::vector<int>& row = relaxed.row_of(stage);
  for (auto* part : {&counts->forwards, &counts->backs, &counts->releases}) {
    part->resize(row.size());
  }
  for (size_t l = 0; l < row.size(); ++l) {
    const size_t pair = relaxed.pair(stage, row[l]);
    const int place = static_cast<int>(l) - relaxed.place[stage];
    counts->backs[l] = std::max(0, k + 1 - relaxed.behind[pair]);
    counts->releases[l] = std::max(0, k + 1 - relaxed.release_behind[pair]);
    counts->forwards[l] = place < 0 ? k + 1 : place == 0 ? k : counts->backs[l];
  }
}

int64_t WorkBetween(const Relaxed& relaxed, const std::vector<int>& row, const RowCounts& from,
                    const RowCounts& to) {
  int64_t work = 0;
  for (size_t l = 0; l < row.size(); ++l) {
    const LeastTimes& least = relaxed.least[row[l]];
    work += std::max(0, to.forwards[l] - from.forwards[l]) * least.forward_share +
            std::max(0, to.backs[l] - from.backs[l]) * least.back_share +
            std::max(0, to.releases[l] - from.releases[l]) * least.weight_share;
  }
  return work;
}

}  // namespace stringline::search
