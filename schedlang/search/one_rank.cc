// Two bounds of a rank. The first is a simulation with a heap. The second tries windows: pairs of a
// head and a tail; at most kMostThresholds of each, among them the first of every kind.
#include "schedlang/search/one_rank.h"

#include <algorithm>

namespace stringline::search {
namespace {

constexpr size_t kMostThresholds = 48;

void AddLetters(const Relaxed& relaxed, const Frontier& frontier, const Heads& heads,
                const Tails& tails, int stage, std::vector<TimedLetter>* letters) {
  const LeastTimes& least = relaxed.least[stage];
  const int count = relaxed.count(stage);
  for (int k = frontier.forwards[stage]; k < count; ++k) {
    const size_t at = relaxed.at(stage, k);
    letters->push_back({heads.forward[at], least.forward_share, tails.forward[at]});
  }
  for (int k = frontier.backs[stage]; k < count; ++k) {
    const size_t at = relaxed.at(stage, k);
    letters->push_back({heads.back[at], least.back_share, tails.back[at]});
  }
  if (!relaxed.problem->split) return;
  for (int k = frontier.releases[stage]; k < count; ++k) {
    const size_t at = relaxed.at(stage, k);
    letters->push_back(
        {heads.release[at] - least.weight_share, least.weight_share, tails.release[at]});
  }
}

// Numbers of letters of a stage with a head below a time, or a tail of at least a time. Heads grow
// with k, tails fall.
struct Counts {
  int64_t forwards = 0, backs = 0, releases = 0;
};

int64_t Below(const Relaxed& relaxed, const std::vector<int64_t>& heads, int stage, int64_t time) {
  const auto first = heads.begin() + static_cast<int64_t>(relaxed.at(stage, 0));
  return std::lower_bound(first, first + relaxed.count(stage), time) - first;
}

int64_t WithTail(const Relaxed& relaxed, const std::vector<int64_t>& tails, int stage,
                 int64_t time) {
  const auto first = tails.begin() + static_cast<int64_t>(relaxed.at(stage, 0));
  return std::lower_bound(first, first + relaxed.count(stage), time, std::greater_equal<>()) -
         first;
}

// `most` items of `size` and `gain` each.
struct Item {
  int64_t size = 0;
  int64_t gain = 0;
  int64_t most = 0;
};

// An upper bound on the gain of a choice that fits: takes items by gain per size, the last in part.
int64_t MostGain(std::vector<Item>* items, int64_t room) {
  using Wide = __int128;
  std::erase_if(*items, [](const Item& item) { return item.gain <= 0 || item.most <= 0; });
  std::sort(items->begin(), items->end(), [](const Item& a, const Item& b) {
    return Wide{a.gain} * b.size > Wide{b.gain} * a.size;
  });
  int64_t gain = 0;
  for (const Item& item : *items) {
    const Wide all = Wide{item.size} * item.most;
    if (all <= room) {
      room -= static_cast<int64_t>(all);
      gain += item.gain * item.most;
    } else if (room > 0) {
      gain += static_cast<int64_t>((Wide{item.gain} * room + item.size - 1) / item.size);
      room = 0;
    }
  }
  return gain;
}

class Windows {
 public:
  Windows(const Relaxed& relaxed, const Heads& heads, const Tails& tails, int rank)
      : relaxed_(relaxed), problem_(*relaxed.problem), heads_(heads), tails_(tails), rank_(rank) {
    for (int s = 0; s < problem_.stage_count(); ++s) {
      if (problem_.stages[s].rank == rank && relaxed.count(s) > 0) stages_.push_back(s);
    }
    for (const int s : stages_) {
      first_back_ = std::min(first_back_, heads.back[relaxed.at(s, 0)]);
      begin_ = std::min(begin_, heads.forward[relaxed.at(s, 0)]);
    }
  }

  Window Best() {
    Window best;
    if (stages_.empty()) return best;
    const std::vector<int64_t> begins = Thresholds(true), ends = Thresholds(false);
    std::vector<std::vector<Counts>> before;
    std::vector<int64_t> rooms;
    for (const int64_t begin : begins) {
      before.push_back(CountsAtBegin(begin));
      rooms.push_back(RoomAt(begin));
    }
    // Among equal windows the first is kept, with more information about the beginning.
    for (const int64_t end : ends) {
      if (IsWished(problem_.stop)) break;
      const std::vector<Counts> at_end = CountsAtEnd(end);
      for (size_t i = 0; i < begins.size(); ++i) {
        const int64_t inside = Inside(begins[i], rooms[i], before[i], at_end);
        const int64_t value = begins[i] + inside + end;
        if (inside > 0 && value > best.value) best = {value, begins[i], inside, end};
      }
    }
    return best;
  }

 private:
  // Heads, or tails, of the rank's letters: sorted, without duplicates.
  std::vector<int64_t> Thresholds(bool is_head) const {
    std::vector<int64_t> all, firsts;
    for (const int s : stages_) {
      for (const auto* part :
           {is_head ? &heads_.forward : &tails_.forward, is_head ? &heads_.back : &tails_.back,
            is_head ? &heads_.release : &tails_.release}) {
        const int64_t earlier = is_head && part == &heads_.release ? WeightShare(s) : 0;
        const int count = relaxed_.count(s);
        for (int k = 0; k < count; ++k) all.push_back((*part)[relaxed_.at(s, k)] - earlier);
        firsts.push_back((*part)[relaxed_.at(s, is_head ? 0 : count - 1)] - earlier);
      }
    }
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    if (all.size() <= kMostThresholds) return all;
    for (size_t i = 0; i < kMostThresholds; ++i) {
      firsts.push_back(all[i * (all.size() - 1) / (kMostThresholds - 1)]);
    }
    std::sort(firsts.begin(), firsts.end());
    firsts.erase(std::unique(firsts.begin(), firsts.end()), firsts.end());
    return firsts;
  }

  int64_t WeightShare(int s) const { return relaxed_.least[s].weight_share; }
  bool limited() const { return relaxed_.limited[rank_]; }

  // Counts of letters that can begin before the time.
  std::vector<Counts> CountsAtBegin(int64_t time) const {
    std::vector<Counts> counts;
    for (const int s : stages_) {
      counts.push_back({Below(relaxed_, heads_.forward, s, time),
                        Below(relaxed_, heads_.back, s, time),
                        Below(relaxed_, heads_.release, s, time + WeightShare(s))});
    }
    return counts;
  }

  // Counts of letters that must end before the window's end.
  std::vector<Counts> CountsAtEnd(int64_t time) const {
    std::vector<Counts> counts;
    for (const int s : stages_) {
      counts.push_back({WithTail(relaxed_, tails_.forward, s, time),
                        WithTail(relaxed_, tails_.back, s, time),
                        WithTail(relaxed_, tails_.release, s, time)});
    }
    return counts;
  }

  // The most that F begun before the time can hold together, counting memory released before.
  int64_t RoomAt(int64_t time) const {
    if (!limited()) return kNoLimit;
    const int64_t capacity = problem_.capacity[rank_];
    int64_t room = kLongAgo, least_during_back = kNoLimit, released = 0;
    for (const int s : stages_) {
      const StageWork& stage = problem_.stages[s];
      room = std::max(room, capacity + stage.after[kForwardAt] - stage.during[kForwardAt]);
      const int64_t by_input = problem_.split ? std::max<int64_t>(0, -stage.after[kInputAt]) : 0;
      if (problem_.whole) least_during_back = std::min(least_during_back, stage.during[kWholeAt]);
      if (problem_.split) least_during_back = std::min(least_during_back, stage.during[kInputAt]);
      // A B releases everything at its end; so does a release.
      released += by_input * Below(relaxed_, heads_.back, s, time - relaxed_.least[s].back);
      released += (stage.after[kForwardAt] - by_input) * Below(relaxed_, heads_.release, s, time);
    }
    if (time <= first_back_) room = std::min(room, capacity - least_during_back);
    return room + released;
  }

  // The most work of F that begin before the window, among those that must end before its end.
  int64_t ForwardsBefore(int64_t begin, int64_t room, const std::vector<Counts>& before,
                         const std::vector<Counts>& at_end) {
    items_.clear();
    for (size_t i = 0; i < stages_.size(); ++i) {
      items_.push_back({limited() ? problem_.stages[stages_[i]].after[kForwardAt] : 0,
                        relaxed_.least[stages_[i]].forward_share,
                        std::min(before[i].forwards, at_end[i].forwards)});
    }
    const int64_t work = MostGain(&items_, room);
    if (begin != first_back_) return work;
    // Nothing is paired until the first B or I begins, at `begin` or later: every F takes its whole
    // time, and a later beginning loses more than the shares of the F before it gain.
    int64_t alone = 0;
    for (const int s : stages_) {
      const int64_t time = problem_.stages[s].time[kForwardAt];
      if (time == 0) continue;
      const __int128 gain = static_cast<__int128>(begin - begin_) * relaxed_.least[s].forward_share;
      alone = std::max(alone, static_cast<int64_t>((gain + time - 1) / time));
    }
    return std::min(work, alone);
  }

  // The most work of B, I and W that end behind the window, and need not begin before it.
  int64_t BacksBehind(const std::vector<Counts>& before, const std::vector<Counts>& at_end) {
    items_.clear();
    int64_t free = 0, most = 0;
    for (size_t i = 0; i < stages_.size(); ++i) {
      const int s = stages_[i];
      const LeastTimes& least = relaxed_.least[s];
      const int64_t count = relaxed_.count(s);
      const int64_t backs = count - std::max(at_end[i].backs, before[i].backs);
      const int64_t weights = count - std::max(at_end[i].releases, before[i].releases);
      most += backs * least.back_share + weights * least.weight_share;
      if (!limited()) continue;
      // Microbatches whose F ends behind the window too are not held then.
      const int64_t unheld = count - at_end[i].forwards;
      free += std::min(backs, unheld) * least.back_share +
              std::min(weights, unheld) * least.weight_share;
      const StageWork& stage = problem_.stages[s];
      items_.push_back(
          {stage.after[kForwardAt], least.back_share + least.weight_share, backs - unheld});
      if (!problem_.split) continue;
      // A B, done in part by an I, holds everything until it ends.
      const int64_t deferred = stage.after[kForwardAt] + stage.after[kInputAt];
      items_.push_back({problem_.whole ? std::min(deferred, stage.after[kForwardAt]) : deferred,
                        least.weight_share, weights - unheld});
    }
    return limited() ? std::min(most, free + MostGain(&items_, problem_.capacity[rank_])) : most;
  }

  int64_t Inside(int64_t begin, int64_t room, const std::vector<Counts>& before,
                 const std::vector<Counts>& at_end) {
    int64_t inside = 0;
    for (size_t i = 0; i < stages_.size(); ++i) {
      const LeastTimes& least = relaxed_.least[stages_[i]];
      const int64_t count = relaxed_.count(stages_[i]);
      inside += at_end[i].forwards * least.forward_share;
      inside += (count - before[i].backs) * least.back_share;
      inside += (count - before[i].releases) * least.weight_share;
    }
    return inside - ForwardsBefore(begin, room, before, at_end) - BacksBehind(before, at_end);
  }

  const Relaxed& relaxed_;
  const Problem& problem_;
  const Heads& heads_;
  const Tails& tails_;
  const int rank_;
  std::vector<int> stages_;
  int64_t begin_ = kNoLimit;
  int64_t first_back_ = kNoLimit;
  std::vector<Item> items_;
};

}  // namespace

int64_t InterruptedEnd(const Relaxed& relaxed, const Frontier& frontier, const Heads& heads,
                       const Tails& tails, int rank, OneRankScratch* scratch) {
  std::vector<TimedLetter>& letters = scratch->letters;
  std::vector<TimedLetter>& waiting = scratch->waiting;
  letters.clear();
  waiting.clear();
  for (int s = 0; s < relaxed.problem->stage_count(); ++s) {
    if (relaxed.rank(s) == rank) AddLetters(relaxed, frontier, heads, tails, s, &letters);
  }
  std::sort(letters.begin(), letters.end(),
            [](const TimedLetter& a, const TimedLetter& b) { return a.head < b.head; });
  const auto shorter_tail = [](const TimedLetter& a, const TimedLetter& b) {
    return a.tail < b.tail;
  };
  int64_t now = kLongAgo, end = kLongAgo;
  for (size_t next = 0; next < letters.size() || !waiting.empty();) {
    if (waiting.empty()) now = std::max(now, letters[next].head);
    for (; next < letters.size() && letters[next].head <= now; ++next) {
      waiting.push_back(letters[next]);
      std::push_heap(waiting.begin(), waiting.end(), shorter_tail);
    }
    TimedLetter& letter = waiting.front();
    const int64_t until = next < letters.size() ? letters[next].head : kNoLimit;
    const int64_t runs = std::min(letter.time, until - now);
    now += runs;
    letter.time -= runs;
    if (letter.time > 0) continue;
    end = std::max(end, now + letter.tail);
    std::pop_heap(waiting.begin(), waiting.end(), shorter_tail);
    waiting.pop_back();
  }
  return end;
}

Window BestWindow(const Relaxed& relaxed, const Heads& heads, const Tails& tails, int rank) {
  return Windows(relaxed, heads, tails, rank).Best();
}

}  // namespace stringline::search
