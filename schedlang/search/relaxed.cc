// Tables first: the least times, rows of stages, what waits for what by memory. Then two passes
// over all letters, microbatch by microbatch: forwards for the heads, backwards for the tails.
#include "schedlang/search/relaxed.h"

#include <algorithm>

namespace stringline::search {
namespace {

// Lowers the times of `least` to those of pairs, and calls `visit(a, b, time, is_whole)` for each.
template <typename Visit>
void VisitPairs(const Problem& problem, Visit visit) {
  const int stages = problem.stage_count();
  for (const bool is_whole : {true, false}) {
    const std::vector<int64_t>& pairs = is_whole ? problem.whole_pairs : problem.input_pairs;
    if (pairs.empty() || !(is_whole ? problem.whole : problem.split)) continue;
    for (int a = 0; a < stages; ++a) {
      for (int b = 0; b < stages; ++b) {
        const int64_t time = pairs[static_cast<size_t>(a * stages + b)];
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
  // First what is saved on one side, as far as it has anything to save; then the rest.
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

// Whether what the rank's stages take they give back, and nothing is less than nothing.
bool IsKept(const Problem& problem, int rank) {
  for (const StageWork& stage : problem.stages) {
    if (stage.rank != rank) continue;
    const auto& after = stage.after;
    if (after[kForwardAt] < 0 || after[kForwardAt] > stage.during[kForwardAt]) return false;
    if (problem.whole && (after[kForwardAt] + after[kWholeAt] != 0 || stage.during[kWholeAt] < 0))
      return false;
    if (!problem.split) continue;
    if (after[kForwardAt] + after[kInputAt] < 0 ||
        after[kForwardAt] + after[kInputAt] + after[kWeightAt] != 0)
      return false;
    if (stage.during[kInputAt] < 0) return false;
  }
  return true;
}

int64_t RoundedDown(int64_t a, int64_t b) { return a >= 0 ? a / b : -1; }

int64_t LeastDuringBack(const Problem& problem, int stage) {
  const auto& during = problem.stages[stage].during;
  if (!problem.split) return during[kWholeAt];
  return problem.whole ? std::min(during[kWholeAt], during[kInputAt]) : during[kInputAt];
}

void FindRoomOfRow(const Problem& problem, const std::vector<int>& row, Relaxed* relaxed) {
  const int64_t room = problem.capacity[problem.stages[row[0]].rank];
  int64_t held = 0;  // of a microbatch, by the stages up to s_i
  for (size_t i = 0; i < row.size(); ++i) {
    const StageWork& stage = problem.stages[row[i]];
    held += stage.after[kForwardAt];
    int64_t behind_it = 0;
    for (size_t e = i; e < row.size(); ++e) {
      if (e > i) behind_it += problem.stages[row[e]].after[kForwardAt];
      int64_t left = room - behind_it - LeastDuringBack(problem, row[e]);
      if (e == i) left = std::min(left, room + stage.after[kForwardAt] - stage.during[kForwardAt]);
      const int64_t most = held > 0 ? RoundedDown(left, held) : left < 0 ? 0 : relaxed->most;
      if (most < 1) relaxed->without_room = stage.rank;
      if (most < 1 || most >= relaxed->count(row[i])) continue;
      relaxed->waits[row[i]].push_back({row[e], static_cast<int>(most)});
      relaxed->waited_for[row[e]].push_back({row[i], static_cast<int>(most)});
    }
    const int64_t kept = problem.split ? std::min(stage.after[kForwardAt],
                                                  stage.after[kForwardAt] + stage.after[kInputAt])
                                       : stage.after[kForwardAt];
    if (kept <= 0) continue;
    const int64_t most = 1 + RoundedDown(room - stage.during[kForwardAt], kept);
    relaxed->release_behind[row[i]] = static_cast<int>(std::clamp<int64_t>(most, 1, relaxed->most));
  }
}

void FindRoom(const Problem& problem, Relaxed* relaxed) {
  relaxed->waits.resize(problem.stage_count());
  relaxed->waited_for.resize(problem.stage_count());
  relaxed->release_behind.assign(problem.stage_count(), relaxed->most);
  for (int r = 0; r < problem.ranks; ++r) {
    relaxed->limited.push_back(problem.capacity[r] < kNoLimit && IsKept(problem, r));
  }
  for (const std::vector<int>& row : relaxed->rows) {
    if (relaxed->limited[problem.stages[row[0]].rank]) FindRoomOfRow(problem, row, relaxed);
  }
}

// A link's messages are one behind the other.
int64_t Arrive(const Relaxed::Link& link, int64_t end, int64_t before) {
  return std::max(end, before - link.latency) + link.transfer + link.latency;
}

class HeadPass {
 public:
  HeadPass(const Relaxed& relaxed, const Frontier& frontier, Heads* heads)
      : relaxed_(relaxed), frontier_(frontier), heads_(*heads) {
    const size_t size = relaxed.at(relaxed.problem->stage_count(), 0);
    for (auto* part : {&heads_.forward, &heads_.back, &heads_.release}) {
      part->assign(size, kLongAgo);
    }
    last_activation_.assign(relaxed.least.size(), kLongAgo);
    last_gradient_ = last_activation_;
  }

  void Run() {
    for (const std::vector<int>& pipe : relaxed_.pipes) {
      const int count = relaxed_.count(pipe[0]);
      for (int k = 0; k < count; ++k) {
        for (const int s : pipe) {
          if (k >= frontier_.forwards[s]) heads_.forward[relaxed_.at(s, k)] = Forward(s, k);
        }
        for (size_t i = pipe.size(); i-- > 0;) {
          if (k >= frontier_.backs[pipe[i]])
            heads_.back[relaxed_.at(pipe[i], k)] = Back(pipe[i], k);
        }
        for (const int s : pipe) {
          if (k >= frontier_.releases[s]) heads_.release[relaxed_.at(s, k)] = Release(s, k);
        }
      }
    }
  }

 private:
  const LeastTimes& LeastOf(int s) const { return relaxed_.least[s]; }

  int64_t Forward(int s, int k) {
    const StageWork& stage = relaxed_.problem->stages[s];
    int64_t head = frontier_.now[stage.rank];
    if (k > frontier_.forwards[s]) {
      head = std::max(head, heads_.forward[relaxed_.at(s, k - 1)] + LeastOf(s).forward);
    }
    if (stage.previous >= 0) {
      int64_t& arrival = last_activation_[s];
      arrival = k < frontier_.forwards[stage.previous]
                    ? frontier_.activations[relaxed_.at(s, k)]
                    : Arrive(relaxed_.forward_link[stage.previous],
                             heads_.forward[relaxed_.at(stage.previous, k)] +
                                 LeastOf(stage.previous).forward,
                             arrival);
      head = std::max(head, arrival);
    }
    const std::vector<int>& row = relaxed_.rows[relaxed_.row[s]];
    int64_t work = (k - frontier_.forwards[s]) * LeastOf(s).forward_share;
    for (int l = 0; l < relaxed_.place[s]; ++l) {
      work += Left(k + 1, frontier_.forwards[row[l]]) * LeastOf(row[l]).forward_share;
    }
    for (const Relaxed::Room& room : relaxed_.waits[s]) {
      const int other = k - room.behind;
      if (other < frontier_.backs[room.stage]) continue;
      head = std::max(head, heads_.back[relaxed_.at(room.stage, other)] + LeastOf(room.stage).back);
      work += (other + 1 - frontier_.backs[room.stage]) * LeastOf(room.stage).back_share;
    }
    const int release = k - relaxed_.release_behind[s];
    if (release >= frontier_.releases[s]) {
      head = std::max(head, heads_.release[relaxed_.at(s, release)]);
    }
    return std::max(head, frontier_.now[stage.rank] + work);
  }

  int64_t Back(int s, int k) {
    const StageWork& stage = relaxed_.problem->stages[s];
    int64_t head = frontier_.now[stage.rank];
    if (k > frontier_.backs[s]) {
      head = std::max(head, heads_.back[relaxed_.at(s, k - 1)] + LeastOf(s).back);
    }
    if (stage.next < 0) {
      if (k >= frontier_.forwards[s]) {
        head = std::max(head, heads_.forward[relaxed_.at(s, k)] + LeastOf(s).forward);
      }
    } else {
      int64_t& arrival = last_gradient_[s];
      arrival =
          k < frontier_.backs[stage.next]
              ? frontier_.gradients[relaxed_.at(s, k)]
              : Arrive(relaxed_.back_link[stage.next],
                       heads_.back[relaxed_.at(stage.next, k)] + LeastOf(stage.next).back, arrival);
      head = std::max(head, arrival);
    }
    const std::vector<int>& row = relaxed_.rows[relaxed_.row[s]];
    int64_t work = (k - frontier_.backs[s]) * LeastOf(s).back_share;
    for (size_t l = 0; l < row.size(); ++l) {
      work += Left(k + 1, frontier_.forwards[row[l]]) * LeastOf(row[l]).forward_share;
      if (static_cast<int>(l) <= relaxed_.place[s]) continue;
      work += Left(k + 1, frontier_.backs[row[l]]) * LeastOf(row[l]).back_share;
    }
    return std::max(head, frontier_.now[stage.rank] + work);
  }

  int64_t Release(int s, int k) const {
    int64_t end = frontier_.now[relaxed_.rank(s)];
    if (k >= frontier_.backs[s]) {
      end = heads_.back[relaxed_.at(s, k)] + LeastOf(s).release;
    } else {
      end += LeastOf(s).between;  // the W of an I that is done
    }
    if (k > frontier_.releases[s]) {
      end = std::max(end, heads_.release[relaxed_.at(s, k - 1)] + LeastOf(s).between);
    }
    return end;
  }

  static int64_t Left(int needed, int done) { return std::max(0, needed - done); }

  const Relaxed& relaxed_;
  const Frontier& frontier_;
  Heads& heads_;
  std::vector<int64_t> last_activation_, last_gradient_;  // by stage that receives
};

}  // namespace

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

void FindHeads(const Relaxed& relaxed, const Frontier& frontier, Heads* heads) {
  HeadPass(relaxed, frontier, heads).Run();
}

}  // namespace stringline::search
