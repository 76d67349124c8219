// Every rank has a list of the spans that are taken modulo the interval. A letter goes to the
// earliest free time that leaves gaps for the rank's other letters; W take what is left over.
#include "schedlang/search/building_block.h"

#include <algorithm>
#include <utility>

namespace stringline::search {
namespace {

constexpr size_t kMostPacked = 10;  // letters whose packings into gaps are all tried

// The time of a rank modulo the interval.
class RankTable {
 public:
  RankTable(int64_t interval, std::vector<int64_t> unplaced)
      : interval_(interval), unplaced_(std::move(unplaced)) {
    std::sort(unplaced_.begin(), unplaced_.end(), std::greater<>());
  }

  // Takes `length` from the earliest possible time on that is no earlier than `from`. -1: nowhere.
  int64_t Take(int64_t from, int64_t length) {
    unplaced_.erase(std::find(unplaced_.begin(), unplaced_.end(), length));
    std::vector<int64_t> times = {from};
    const auto add = [&](int64_t time) {
      const int64_t behind = ((time - from) % interval_ + interval_) % interval_;
      times.push_back(from + behind);
    };
    for (const auto& [begin, end] : taken_) {
      add(end);
      add(begin - length);
      for (const int64_t other : unplaced_) {
        add(end + other);
        add(begin - length - other);
      }
    }
    std::sort(times.begin(), times.end());
    times.erase(std::unique(times.begin(), times.end()), times.end());
    for (const int64_t time : times) {
      if (!IsFree(time, length)) continue;
      Insert(time, length);
      std::vector<int64_t> gaps = Gaps();
      if (Fit(0, &gaps)) return time;
      Remove(time);
    }
    return -1;
  }

 private:
  // Spans have begins in [0, interval), and ends that may lie behind it.
  bool IsFree(int64_t time, int64_t length) const {
    if (length > interval_) return false;
    const int64_t begin = time % interval_;
    return std::none_of(taken_.begin(), taken_.end(), [&](const auto& span) {
      for (const int64_t shift : {-interval_, int64_t{0}, interval_}) {
        if (begin + shift < span.second && span.first < begin + shift + length) return true;
      }
      return false;
    });
  }
  void Insert(int64_t time, int64_t length) {
    const int64_t begin = time % interval_;
    taken_.insert(std::lower_bound(taken_.begin(), taken_.end(), std::pair(begin, begin)),
                  {begin, begin + length});
  }
  void Remove(int64_t time) {
    const int64_t begin = time % interval_;
    taken_.erase(std::find_if(taken_.begin(), taken_.end(),
                              [begin](const auto& span) { return span.first == begin; }));
  }
  std::vector<int64_t> Gaps() const {
    std::vector<int64_t> gaps;
    for (size_t i = 0; i < taken_.size(); ++i) {
      const bool is_last = i + 1 == taken_.size();
      const int64_t next = is_last ? taken_.front().first + interval_ : taken_[i + 1].first;
      if (next > taken_[i].second) gaps.push_back(next - taken_[i].second);
    }
    return gaps;
  }
  // True if the unplaced letters from `index` on, the longest first, have room in the gaps.
  bool Fit(size_t index, std::vector<int64_t>* gaps) const {
    if (index == unplaced_.size()) return true;
    for (size_t g = 0; g < gaps->size(); ++g) {
      int64_t& gap = (*gaps)[g];
      if (gap < unplaced_[index]) continue;
      gap -= unplaced_[index];
      const bool fit = Fit(index + 1, gaps);
      (*gaps)[g] += unplaced_[index];
      if (fit) return true;
      if (unplaced_.size() > kMostPacked) return false;
    }
    return false;
  }

  int64_t interval_;
  std::vector<int64_t> unplaced_;                   // lengths of the letters to come
  std::vector<std::pair<int64_t, int64_t>> taken_;  // spans by their begins
};

// By letter, the start of the first microbatch's; -1: none.
std::vector<int64_t> StartsOf(const Problem& problem, const BuildingBlock& block, int64_t interval,
                              ActionKind back) {
  std::vector<std::vector<int64_t>> lengths(static_cast<size_t>(problem.ranks));
  for (const StageWork& stage : problem.stages) {
    for (const ActionKind kind : {ActionKind::kForward, back}) {
      lengths[static_cast<size_t>(stage.rank)].push_back(stage.time[Index(kind)]);
    }
  }
  std::vector<RankTable> tables;
  for (std::vector<int64_t>& of_rank : lengths) tables.emplace_back(interval, std::move(of_rank));
  std::vector<int64_t> starts(problem.stages.size() * 4, -1);
  const auto place = [&](int s, ActionKind kind, int64_t* now) {
    const StageWork& stage = problem.stages[static_cast<size_t>(s)];
    const Letter letter = LetterOf(kind, s);
    const int64_t length = stage.time[Index(kind)];
    const int64_t start =
        tables[static_cast<size_t>(stage.rank)].Take(*now + block.delay[letter], length);
    starts[letter] = start;
    *now = start + length;
    return start >= 0;
  };
  const auto on_way = [&](int from, int to, const MessageTime& message) {
    const auto rank = [&](int s) { return problem.stages[static_cast<size_t>(s)].rank; };
    return rank(from) == rank(to) ? int64_t{0} : message.all();
  };
  for (int first = 0; first < problem.stage_count(); ++first) {
    if (problem.stages[static_cast<size_t>(first)].previous >= 0) continue;
    int64_t now = 0;
    int last = first;
    for (int s = first; s >= 0; s = problem.stages[static_cast<size_t>(s)].next) {
      if (!place(s, ActionKind::kForward, &now)) return {};
      last = s;
      const StageWork& stage = problem.stages[static_cast<size_t>(s)];
      if (stage.next >= 0) now += on_way(s, stage.next, stage.activation);
    }
    for (int s = last; s >= 0; s = problem.stages[static_cast<size_t>(s)].previous) {
      if (!place(s, back, &now)) return {};
      const StageWork& stage = problem.stages[static_cast<size_t>(s)];
      if (stage.previous >= 0) now += on_way(s, stage.previous, stage.gradient);
    }
  }
  return starts;
}

// True if the rank has room for the letters in this order, each I with its W behind it.
bool KeepsCapacity(const Problem& problem, int rank, const std::vector<Letter>& sequence) {
  const int64_t capacity = problem.capacity[static_cast<size_t>(rank)];
  if (capacity >= kNoLimit) return true;
  int64_t held = 0;
  for (const Letter letter : sequence) {
    const StageWork& stage = problem.stages[static_cast<size_t>(StageOf(letter))];
    const size_t kind = Index(KindOf(letter));
    if (held + stage.during[kind] > capacity) return false;
    held += stage.after[kind];
    if (kind == kInputAt) held += stage.after[kWeightAt];
  }
  return true;
}

}  // namespace

int64_t WorkOfBlock(const Problem& problem, ActionKind back) {
  std::vector<int64_t> work(static_cast<size_t>(problem.ranks), 0);
  for (const StageWork& stage : problem.stages) {
    int64_t& of_rank = work[static_cast<size_t>(stage.rank)];
    of_rank += stage.time[kForwardAt] + stage.time[Index(back)];
    if (back == ActionKind::kInputGradient) of_rank += stage.time[kWeightAt];
  }
  return std::max<int64_t>(1, *std::max_element(work.begin(), work.end()));
}

std::vector<std::vector<Letter>> SequencesOf(const Problem& problem, const BuildingBlock& block,
                                             ActionKind back) {
  const auto interval =
      static_cast<int64_t>(static_cast<double>(WorkOfBlock(problem, back)) * block.stretch);
  const std::vector<int64_t> starts = StartsOf(problem, block, interval, back);
  std::vector<std::vector<Letter>> sequences(static_cast<size_t>(problem.ranks));
  if (starts.empty()) return {};
  for (int r = 0; r < problem.ranks; ++r) {
    std::vector<std::pair<int64_t, Letter>> slots;
    for (int s = 0; s < problem.stage_count(); ++s) {
      const StageWork& stage = problem.stages[static_cast<size_t>(s)];
      if (stage.rank != r) continue;
      for (const ActionKind kind : {ActionKind::kForward, back}) {
        const Letter letter = LetterOf(kind, s);
        for (int m = 0; m < stage.microbatches; ++m) {
          slots.emplace_back(starts[letter] + m * interval, letter);
        }
      }
    }
    std::sort(slots.begin(), slots.end());
    std::vector<Letter>& sequence = sequences[static_cast<size_t>(r)];
    for (const auto& [at, letter] : slots) sequence.push_back(letter);
    if (!KeepsCapacity(problem, r, sequence)) return {};
  }
  return sequences;
}

}  // namespace stringline::search
