// Partial packings of a step lie in one array, and those of the next step in a second one. Steps
// note the value's place in each of them, and the partial packing before it.
#include "schedlang/memory/beams.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace stringline {
namespace {

// A value placed in a step, and the partial packing of the step before to which it was added.
struct Placing {
  int parent = -1;
  int value = 0;
  int64_t offset = 0;
};

uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 31)) * 0x9E3779B97F4A7C15ull;
  return x ^ (x >> 29);
}

// Steps back from the first partial packing of the last step.
void TakeOffsets(const std::vector<std::vector<Placing>>& steps, std::vector<int64_t>* offsets) {
  offsets->assign(steps.size(), 0);
  size_t at = 0;
  for (size_t k = steps.size(); k-- > 0;) {
    const Placing& placing = steps[k][at];
    (*offsets)[placing.value] = placing.offset;
    at = static_cast<size_t>(std::max(placing.parent, 0));
  }
}

// A value that may be added to a partial packing, with its place.
struct Choice {
  double cost = 0;
  uint64_t hash = 0;  // of the partial packing that comes of it
  int parent = 0;
  int value = 0;
  int64_t offset = 0;
  int64_t lift = 0;  // of a skyline
  double waste = 0;  // of a skyline
};

constexpr size_t kNeighbours = 63;

// The best choices, each with another hash; no more than `width`.
void KeepBest(size_t width, std::vector<Choice>* choices) {
  const auto less = [](const Choice& a, const Choice& b) {
    if (a.cost != b.cost) return a.cost < b.cost;
    return std::pair(a.hash, a.parent) < std::pair(b.hash, b.parent);
  };
  const size_t most = std::min(choices->size(), 4 * width);
  const auto end = choices->begin() + static_cast<int64_t>(most);
  if (most < choices->size()) std::nth_element(choices->begin(), end, choices->end(), less);
  std::sort(choices->begin(), end, less);
  size_t kept = 0;
  for (size_t i = 0; i < most && kept < width; ++i) {
    const Choice choice = (*choices)[i];
    // Equal packings cost about the same, so they are neighbours.
    bool is_new = true;
    for (size_t k = kept - std::min(kept, kNeighbours); k < kept && is_new; ++k) {
      is_new = (*choices)[k].hash != choice.hash;
    }
    if (is_new) (*choices)[kept++] = choice;
  }
  choices->resize(kept);
}

// Rows of values along the time. The bytes free at a later moment should lie in few pieces, so a
// row costs what its neighbours differ in their ends: a value between two that die later leaves a
// piece of its own.
class Sweep {
 public:
  Sweep(absl::Span<const PackedValue> values, const std::vector<std::vector<int>>& conflicts,
        const std::vector<int>& order, int64_t target)
      : values_(values),
        conflicts_(conflicts),
        order_(order),
        target_(target),
        count_(static_cast<int>(order.size())),
        end_of_(values.size(), 0),
        marks_(values.size(), -1),
        steps_(values.size()) {
    std::vector<int> place(values.size());
    for (int k = 0; k < count_; ++k) place[order[k]] = k;
    for (int k = 0; k < count_; ++k) {
      int last = k;
      for (const int other : conflicts[order[k]]) last = std::max(last, place[other]);
      end_of_[order[k]] = last + 1;
    }
  }

  bool Run(size_t width, std::vector<int64_t>* offsets, int64_t* looks) {
    rows_.assign(1, {});
    for (int k = 0; k < count_; ++k) {
      const int value = order_[k];
      for (const int other : conflicts_[value]) marks_[other] = k;
      choices_.clear();
      for (int row = 0; row < static_cast<int>(rows_.size()); ++row) {
        Choose(k, row);
        *looks -= static_cast<int64_t>(rows_[row].size()) + 1;
      }
      *looks -= static_cast<int64_t>(choices_.size());
      if (choices_.empty() || *looks < 0) return false;
      KeepBest(width, &choices_);
      next_.resize(choices_.size());
      for (size_t i = 0; i < choices_.size(); ++i) {
        const Choice& choice = choices_[i];
        steps_[k].push_back({choice.parent, value, choice.offset});
        Insert(choice, &next_[i]);
      }
      std::swap(rows_, next_);
    }
    TakeOffsets(steps_, offsets);
    return true;
  }

 private:
  struct Entry {
    int64_t begin, end;
    int until;  // the step before which the last value is placed that conflicts with it
    int value;
  };
  using Row = std::vector<Entry>;  // by offset

  static int Rise(int from, int to) { return std::max(0, to - from); }

  void Insert(const Choice& choice, Row* row) const {
    const Row& before = rows_[choice.parent];
    const Entry entry{choice.offset, choice.offset + values_[choice.value].bytes,
                      end_of_[choice.value], choice.value};
    const auto at = std::find_if(before.begin(), before.end(),
                                 [&](const Entry& other) { return other.begin >= entry.begin; });
    row->assign(before.begin(), at);
    row->push_back(entry);
    row->insert(row->end(), at, before.end());
  }

  // Adds the places for the k-th value in a row.
  void Choose(int k, int parent) {
    Row& row = rows_[parent];
    row.erase(std::remove_if(row.begin(), row.end(),
                             [k](const Entry& entry) { return entry.until <= k; }),
              row.end());
    const int never = count_ + 1;  // the ends of the block are never free
    Choice choice{0, 0, parent, order_[k], 0, 0, 0};
    int cost = 0, below = never;
    int64_t end = 0;
    for (const Entry& entry : row) {
      choice.hash += HashOf(entry.begin, entry.until);
      cost += Rise(entry.begin > end ? k : below, entry.until);
      below = entry.until;
      end = std::max(end, entry.end);
    }
    cost += Rise(end < target_ ? k : below, never);
    below = never;
    end = 0;
    for (const Entry& entry : row) {
      if (marks_[entry.value] != k) continue;
      AddGap(k, end, entry.begin, below, entry.until, cost, choice);
      if (entry.end <= end) continue;
      end = entry.end;
      below = entry.until;
    }
    AddGap(k, end, target_, below, never, cost, choice);
  }

  // Adds both ends of a gap, above and below which values are alive until these steps.
  void AddGap(int k, int64_t begin, int64_t end, int below, int above, int cost, Choice choice) {
    const int64_t bytes = values_[choice.value].bytes;
    if (end - begin < bytes) return;
    const int until = end_of_[choice.value];
    const uint64_t hash = choice.hash;
    const auto add = [&](int64_t offset, int more) {
      choice.cost = cost - Rise(k, above) + more;
      choice.offset = offset;
      choice.hash = hash + HashOf(offset, until);
      choices_.push_back(choice);
    };
    if (end - begin == bytes) return add(begin, Rise(below, until) + Rise(until, above));
    add(begin, Rise(below, until) + Rise(k, above));
    add(end - bytes, Rise(k, until) + Rise(until, above));
  }

  static uint64_t HashOf(int64_t offset, int until) {
    return Mix(static_cast<uint64_t>(offset) * 0xC2B2AE3D27D4EB4Full +
               static_cast<uint64_t>(until));
  }

  const absl::Span<const PackedValue> values_;
  const std::vector<std::vector<int>>& conflicts_;
  const std::vector<int>& order_;
  const int64_t target_;
  const int count_;
  std::vector<int> end_of_;  // by value: Entry::until
  std::vector<int> marks_;   // by value: the last step whose value conflicts with it
  std::vector<std::vector<Placing>> steps_;
  std::vector<Row> rows_, next_;
  std::vector<Choice> choices_;
};

// Skylines over the moments at which most values are alive: between two of them nothing dies, or
// nothing is born. Where a skyline is lowest, a value that has room there is put on it, or nothing:
// then it rises to its lower neighbour, and what lies below is lost. Bytes lost where few are to
// spare cost most.
class Stack {
 public:
  Stack(absl::Span<const PackedValue> values, int64_t target, bool wide)
      : target_(target), wide_(wide), values_(values.begin(), values.end()) {
    TakeMoments();
    const size_t moments = static_cast<size_t>(moments_);
    std::vector<int64_t> load(moments, 0);
    by_birth_.resize(moments);
    for (int v = 0; v < static_cast<int>(values_.size()); ++v) {
      const PackedValue& value = values_[v];
      by_birth_[value.from].push_back(v);
      for (int t = value.from; t <= value.to; ++t) load[t] += value.bytes;
      hashes_.push_back(Mix(static_cast<uint64_t>(v) + 1));
    }
    Skyline& first = skylines_.emplace_back();
    first.moments.resize(moments);
    first.is_placed.assign(values_.size(), false);
    for (int t = 0; t < moments_; ++t) {
      first.moments[t] = {0, target - load[t], load[t]};
      const double spare = static_cast<double>(target - load[t]) / static_cast<double>(target);
      weights_.push_back(1 / (1 + kWeight * spare));
      fits_ &= load[t] <= target;
    }
  }

  bool Run(size_t width, std::vector<int64_t>* offsets, int64_t* looks) {
    if (!fits_) return false;
    std::vector<std::vector<Placing>> steps(values_.size());
    for (std::vector<Placing>& step : steps) {
      choices_.clear();
      for (int s = 0; s < static_cast<int>(skylines_.size()); ++s) {
        Choose(s);
        *looks -= moments_ + 1;
      }
      *looks -= static_cast<int64_t>(choices_.size());
      if (choices_.empty() || *looks < 0) return false;
      KeepBest(width, &choices_);
      next_.resize(choices_.size());
      for (size_t i = 0; i < choices_.size(); ++i) {
        step.push_back({choices_[i].parent, choices_[i].value, choices_[i].offset});
        Put(choices_[i], &next_[i]);
      }
      std::swap(skylines_, next_);
    }
    TakeOffsets(steps, offsets);
    return true;
  }

 private:
  static constexpr double kWeight = 30;
  static constexpr int64_t kWall = std::numeric_limits<int64_t>::max();

  struct AtMoment {
    int64_t height = 0;
    int64_t spare = 0;  // bytes that may be lost
    int64_t left = 0;   // bytes of values that are not placed
  };
  struct Skyline {
    std::vector<AtMoment> moments;
    std::vector<bool> is_placed;  // by value
    double waste = 0;
    uint64_t hash = 0;
  };

  // Keeps the moments at which something has been born, and something dies before the next birth.
  void TakeMoments() {
    std::vector<int> births, deaths;
    for (const PackedValue& value : values_) {
      births.push_back(value.from);
      deaths.push_back(value.to);
    }
    std::sort(births.begin(), births.end());
    std::sort(deaths.begin(), deaths.end());
    births.erase(std::unique(births.begin(), births.end()), births.end());
    std::vector<int> moments;
    for (size_t i = 0; i < births.size(); ++i) {
      const auto dies = std::lower_bound(deaths.begin(), deaths.end(), births[i]);
      if (i + 1 == births.size() || (dies != deaths.end() && *dies < births[i + 1])) {
        moments.push_back(births[i]);
      }
    }
    const auto count_below = [&](int moment) {
      return static_cast<int>(std::lower_bound(moments.begin(), moments.end(), moment) -
                              moments.begin());
    };
    for (PackedValue& value : values_) {
      value.from = count_below(value.from);
      value.to = count_below(value.to + 1) - 1;
    }
    moments_ = static_cast<int>(moments.size());
  }

  int64_t WallAt(const Skyline& skyline, int moment) const {
    if (moment < 0 || moment >= moments_ || skyline.moments[moment].left == 0) return kWall;
    return skyline.moments[moment].height;
  }

  // The bytes lost, weighted, if the skyline rises from one moment to before another; -1: too many.
  double WasteOf(const Skyline& skyline, int from, int before, int64_t lift) const {
    double waste = 0;
    for (int t = from; t < before; ++t) {
      if (skyline.moments[t].spare < lift) return -1;
      waste += weights_[t] * static_cast<double>(lift);
    }
    return waste;
  }

  void Lift(Skyline* skyline, int from, int before, int64_t lift) const {
    for (int t = from; t < before; ++t) {
      skyline->moments[t].height += lift;
      skyline->moments[t].spare -= lift;
    }
  }

  // Adds the values that may be put where the skyline is lowest, first: those before whose births
  // no other would have room.
  void Choose(int parent) {
    Skyline& skyline = skylines_[parent];
    while (true) {
      int from = -1;
      for (int t = 0; t < moments_; ++t) {
        if (skyline.moments[t].left == 0) continue;
        if (from < 0 || skyline.moments[t].height < skyline.moments[from].height) from = t;
      }
      const int64_t height = skyline.moments[from].height;
      int end = from;
      while (end < moments_ && WallAt(skyline, end) == height) ++end;
      const int64_t wall = WallAt(skyline, from - 1);
      int first_death = end;  // the first death of those that have room
      bool has_room = false;
      for (int t = from; t < end && t <= first_death; ++t) {
        for (const int v : by_birth_[t]) {
          if (skyline.is_placed[v] || values_[v].to >= end) continue;
          has_room = true;
          first_death = std::min(first_death, values_[v].to);
        }
      }
      for (int t = from; t < end && t <= first_death && has_room; ++t) {
        for (const int v : by_birth_[t]) {
          if (skyline.is_placed[v] || values_[v].to >= end) continue;
          const int64_t bytes = values_[v].bytes;
          const int64_t lift = t == from ? 0 : std::min(wall, height + bytes) - height;
          const double waste = WasteOf(skyline, from, t, lift);
          if (waste < 0) continue;
          const double length = values_[v].to + 1 - values_[v].from;
          const double gain = wide_ ? length * static_cast<double>(bytes)
                                    : length * static_cast<double>(target_) / 64;
          choices_.push_back({skyline.waste + waste - gain, skyline.hash + hashes_[v], parent, v,
                              height, lift, skyline.waste + waste});
        }
      }
      if (has_room) return;
      const int64_t lower = std::min(wall, WallAt(skyline, end));
      if (lower == kWall) return;
      const double waste = WasteOf(skyline, from, end, lower - height);
      if (waste < 0) return;
      Lift(&skyline, from, end, lower - height);
      skyline.waste += waste;
    }
  }

  void Put(const Choice& choice, Skyline* skyline) const {
    const PackedValue& value = values_[choice.value];
    *skyline = skylines_[choice.parent];
    if (choice.lift > 0) {
      int from = value.from;
      while (from > 0 && WallAt(*skyline, from - 1) == choice.offset) --from;
      Lift(skyline, from, value.from, choice.lift);
    }
    for (int t = value.from; t <= value.to; ++t) {
      skyline->moments[t].height += value.bytes;
      skyline->moments[t].left -= value.bytes;
    }
    skyline->is_placed[choice.value] = true;
    skyline->waste = choice.waste;
    skyline->hash = choice.hash;
  }

  const int64_t target_;
  const bool wide_;
  std::vector<PackedValue> values_;  // with moments of skylines
  int moments_ = 0;
  bool fits_ = true;
  std::vector<double> weights_;             // by moment
  std::vector<std::vector<int>> by_birth_;  // values
  std::vector<uint64_t> hashes_;            // by value
  std::vector<Skyline> skylines_, next_;
  std::vector<Choice> choices_;
};

}  // namespace

bool SweepInto(absl::Span<const PackedValue> values, const std::vector<std::vector<int>>& conflicts,
               const std::vector<int>& order, int64_t target, int width,
               std::vector<int64_t>* offsets, int64_t* looks) {
  return Sweep(values, conflicts, order, target).Run(static_cast<size_t>(width), offsets, looks);
}

bool StackInto(absl::Span<const PackedValue> values, int64_t target, int width, bool wide,
               std::vector<int64_t>* offsets, int64_t* looks) {
  return Stack(values, target, wide).Run(static_cast<size_t>(width), offsets, looks);
}

}  // namespace stringline
