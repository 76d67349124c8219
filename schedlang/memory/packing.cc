// Every value has a list of the values with which it conflicts. Placing a value looks at those of
// them that are placed; everything else is the choice of an order. Beam searches (beams.h) look for
// packings into fewer bytes. At last values may overlap, and are moved until they do not.
#include "schedlang/memory/packing.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <utility>

#include "schedlang/memory/beams.h"

namespace stringline {
namespace {

// Bounds on the trials: looks at other values, and steps of the search through all packings.
constexpr int64_t kMostTrialLooks = 1'000'000;
constexpr int64_t kMostBeamLooks = 8'000'000, kBeamLooksOfValue = 30'000;
constexpr int kLeastWidth = 8, kMostWidth = 512;  // of beams
constexpr int64_t kMostRepairLooks = 500'000;
constexpr int64_t kMostSteps = 100'000;
constexpr size_t kMostTried = 48;      // values of which all packings are tried
constexpr size_t kMostRepaired = 128;  // values of which overlaps are repaired

bool IsNoLater(const Clock& a, const Clock& b) {
  for (size_t r = 0; r < a.size(); ++r) {
    if (a[r] > b[r]) return false;
  }
  return true;
}

class Packer {
 public:
  Packer(absl::Span<const ValueLife> values, absl::Span<const Clock> clocks, Packing known,
         int64_t enough)
      : values_(values),
        clocks_(clocks),
        conflicts_(values.size()),
        enough_(enough),
        best_(std::move(known)) {
    FindConflicts();
    FindBound();
  }

  Packing Run() {
    const bool is_hopeless = enough_ >= 0 && bound_ > enough_;
    if (!is_hopeless) TryOrders();
    if (!is_hopeless && !TryAll()) {
      TryBeams();
      MoveTops();
      Repair();
    }
    best_.alive = bound_;
    return std::move(best_);
  }

 private:
  using Order = std::vector<int>;

  bool IsBest() const { return best_.bytes <= std::max(bound_, enough_); }
  const Clock& BirthOf(int value) const {
    return clocks_[static_cast<size_t>(values_[value].clock)];
  }

  void FindConflicts() {
    const int count = static_cast<int>(values_.size());
    for (int a = 0; a < count; ++a) {
      for (int b = a + 1; b < count; ++b) {
        if (KnowsDeath(BirthOf(b), values_[a].death)) continue;
        if (KnowsDeath(BirthOf(a), values_[b].death)) continue;
        conflicts_[a].push_back(b);
        conflicts_[b].push_back(a);
      }
    }
  }

  // Values born no later than a value, and not dead at its birth, conflict with each other, too.
  void FindBound() {
    for (int a = 0; a < static_cast<int>(values_.size()); ++a) {
      int64_t alive = values_[a].bytes;
      for (const int b : conflicts_[a]) {
        if (IsNoLater(BirthOf(b), BirthOf(a))) alive += values_[b].bytes;
      }
      alive_.push_back(alive);
      bound_ = std::max(bound_, alive);
    }
  }

  // The lowest gap for the value among its placed conflicts.
  int64_t GapFor(int value, const std::vector<int64_t>& offsets) {
    taken_.clear();
    for (const int other : conflicts_[value]) {
      if (offsets[other] >= 0) {
        taken_.emplace_back(offsets[other], offsets[other] + values_[other].bytes);
      }
    }
    looks_ += static_cast<int64_t>(conflicts_[value].size()) + 1;
    std::sort(taken_.begin(), taken_.end());
    int64_t end = 0;
    for (const auto& [from, to] : taken_) {
      if (from - end >= values_[value].bytes) break;
      end = std::max(end, to);
    }
    return end;
  }

  // Places all values in this order. Less than the best so far is kept.
  int64_t Place(const Order& order) {
    offsets_.assign(values_.size(), -1);
    int64_t bytes = 0;
    for (const int value : order) {
      offsets_[value] = GapFor(value, offsets_);
      bytes = std::max(bytes, offsets_[value] + values_[value].bytes);
    }
    if (bytes < best_.bytes) best_ = {offsets_, bytes, 0};
    return bytes;
  }

  template <typename Less>
  Order Sorted(Less less) const {
    Order order(values_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), less);
    return order;
  }

  void TryOrders() {
    const auto bytes = [this](int value) { return values_[value].bytes; };
    const auto spread = [&](int value) {
      return static_cast<double>(bytes(value)) * static_cast<double>(conflicts_[value].size());
    };
    std::vector<int64_t> crowd = alive_;  // the most that is alive at a birth in its life
    for (size_t a = 0; a < values_.size(); ++a) {
      for (const int b : conflicts_[a]) crowd[a] = std::max(crowd[a], alive_[b]);
    }
    const Order orders[] = {
        Sorted([&](int a, int b) { return bytes(a) > bytes(b); }),
        Sorted([&](int a, int b) { return spread(a) > spread(b); }),
        Sorted([&](int a, int b) {
          return std::pair(crowd[a], bytes(a)) > std::pair(crowd[b], bytes(b));
        }),
        Sorted([](int a, int b) { return a < b; }),
    };
    int64_t least = std::numeric_limits<int64_t>::max();
    for (const Order& order : orders) {
      if (IsBest()) return;
      const int64_t took = Place(order);
      if (took >= least) continue;
      least = took;
      order_ = order;
    }
  }

  // A value at the end of the block is placed earlier, behind a random one.
  void MoveTops() {
    if (IsBest()) return;
    std::mt19937 random(1);
    int64_t current = Place(order_);
    while (!IsBest() && looks_ < kMostTrialLooks) {
      int top = 0;
      for (int value = 1; value < static_cast<int>(values_.size()); ++value) {
        if (EndOf(value) > EndOf(top)) top = value;
      }
      Order order = order_;
      const auto at = std::find(order.begin(), order.end(), top);
      const auto places = static_cast<uint32_t>(at - order.begin());
      if (places == 0) {
        // Nothing is placed before it: two others change places.
        std::swap(order[random() % order.size()], order[random() % order.size()]);
      } else {
        std::rotate(order.begin() + static_cast<int64_t>(random() % places), at, at + 1);
      }
      const std::vector<int64_t> before = offsets_;
      const int64_t took = Place(order);
      if (took <= current) {
        current = took;
        order_ = std::move(order);
      } else {
        offsets_ = before;
      }
    }
  }

  // The moments of values, by the groups of the rank on which most of them die.
  std::vector<PackedValue> Moments() const {
    std::vector<int> deaths(clocks_[0].size(), 0);
    for (const ValueLife& value : values_) ++deaths[value.death.rank];
    const auto rank = std::max_element(deaths.begin(), deaths.end()) - deaths.begin();
    std::vector<PackedValue> moments;
    for (int value = 0; value < Count(); ++value) {
      const int from = BirthOf(value)[rank];
      moments.push_back({values_[value].bytes, from, from});
    }
    for (int value = 0; value < Count(); ++value) {
      for (const int other : conflicts_[value]) {
        moments[value].to = std::max(moments[value].to, moments[other].from);
      }
    }
    return moments;
  }

  // Looks for packings into fewer bytes by beam searches: with each width, first into the bound,
  // then halfway between what is known to exist and what was not found. Where some bytes are
  // enough, only into these, and with fewer looks: searches ask so about many orders.
  void TryBeams() {
    if (IsBest()) return;
    const std::vector<PackedValue> moments = Moments();
    const auto from = [&](int value) { return moments[value].from; };
    const auto to = [&](int value) { return moments[value].to; };
    const auto bytes = [&](int value) { return values_[value].bytes; };
    const Order orders[] = {
        Sorted([&](int a, int b) {
          return std::pair(from(a), -bytes(a)) < std::pair(from(b), -bytes(b));
        }),
        Sorted(
            [&](int a, int b) { return std::pair(to(a), bytes(a)) > std::pair(to(b), bytes(b)); }),
        Sorted(
            [&](int a, int b) { return std::pair(from(a), -to(a)) < std::pair(from(b), -to(b)); }),
    };
    const int64_t unit = UnitOfBytes();
    int64_t looks = std::min(kMostBeamLooks, kBeamLooksOfValue * Count());
    const auto pack_into = [&](int64_t target, int width) {
      return SweepInto(moments, conflicts_, orders[0], target, width, &offsets_, &looks) ||
             StackInto(moments, target, width, true, &offsets_, &looks) ||
             SweepInto(moments, conflicts_, orders[1], target, width, &offsets_, &looks) ||
             StackInto(moments, target, width, false, &offsets_, &looks) ||
             SweepInto(moments, conflicts_, orders[2], target, width, &offsets_, &looks);
    };
    if (enough_ >= 0) looks /= 8;
    for (int width = kLeastWidth; width <= kMostWidth && looks > 0; width *= 4) {
      int64_t least = std::max(bound_, enough_);
      for (int64_t target = least; least < best_.bytes && looks > 0;
           target = least + (best_.bytes - least) / unit / 2 * unit) {
        if (pack_into(target, width)) {
          best_ = {offsets_, BytesOfBlock(), 0};
        } else {
          least = target + unit;
          if (enough_ >= 0) break;
        }
      }
    }
  }

  // Looks for packings into fewer bytes: first into the bound, then halfway between what is known
  // to exist and what was not found.
  void Repair() {
    if (IsBest() || values_.size() > kMostRepaired) return;
    looks_ = 0;
    const int64_t unit = UnitOfBytes();
    int64_t least = bound_;
    std::vector<int64_t> begin = best_.offsets;
    for (int parts = 2; least < best_.bytes && looks_ < kMostRepairLooks; parts = 6) {
      const int64_t target = parts == 2 ? least : least + (best_.bytes - least) / unit / 2 * unit;
      const int64_t most = std::min(kMostRepairLooks, looks_ + kMostRepairLooks / parts);
      offsets_ = begin;
      if (!PackInto(target, most)) {
        least = target + unit;
        continue;
      }
      begin = offsets_;
      best_ = {offsets_, BytesOfBlock(), 0};
    }
  }

  int64_t BytesOfBlock() const {
    int64_t bytes = 0;
    for (int value = 0; value < Count(); ++value) bytes = std::max(bytes, EndOf(value));
    return bytes;
  }

  int Count() const { return static_cast<int>(values_.size()); }

  // The largest number of bytes that divides all sizes.
  int64_t UnitOfBytes() const {
    int64_t unit = 0;
    for (const ValueLife& value : values_) unit = std::gcd(unit, value.bytes);
    return std::max<int64_t>(1, unit);
  }

  bool Overlap(int a, int b) const { return offsets_[a] < EndOf(b) && offsets_[b] < EndOf(a); }

  // Values lie within `target` bytes and may overlap at first. One that does goes where the weights
  // of its overlaps are least, and these weights grow: breakout local search (Morris 1993, "The
  // Breakout Method for Escaping from Local Minima"). False if overlaps are left after so many
  // looks.
  bool PackInto(int64_t target, int64_t most_looks) {
    std::mt19937 random(1);
    weights_.resize(values_.size());
    std::vector<int> overlapping;
    std::vector<bool> is_in(values_.size(), false);
    const auto add = [&](int value) {
      if (!is_in[value]) overlapping.push_back(value);
      is_in[value] = true;
    };
    for (int value = 0; value < Count(); ++value) {
      offsets_[value] = std::min(offsets_[value], target - values_[value].bytes);
      weights_[value].assign(conflicts_[value].size(), 1);
      add(value);
    }
    while (!overlapping.empty()) {
      if (looks_ > most_looks) return false;
      const size_t at = random() % overlapping.size();
      const int value = overlapping[at];
      const bool overlaps = std::any_of(conflicts_[value].begin(), conflicts_[value].end(),
                                        [&](int other) { return Overlap(value, other); });
      if (overlaps) MoveToLeast(value, target, &random);
      if (!overlaps || !AddWeights(value, add)) {
        std::swap(overlapping[at], overlapping.back());
        is_in[value] = false;
        overlapping.pop_back();
      }
    }
    return true;
  }

  // Raises the weights of the value's overlaps; false if it has none.
  template <typename Add>
  bool AddWeights(int value, const Add& add) {
    bool overlaps = false;
    for (size_t k = 0; k < conflicts_[value].size(); ++k) {
      const int other = conflicts_[value][k];
      if (!Overlap(value, other)) continue;
      overlaps = true;
      add(other);
      ++weights_[value][k];
      const std::vector<int>& back = conflicts_[other];
      ++weights_[other][std::lower_bound(back.begin(), back.end(), value) - back.begin()];
    }
    return overlaps;
  }

  // Moves the value to another offset, at an end of another value or of the block, where the sum of
  // the weights of its overlaps is least.
  void MoveToLeast(int value, int64_t target, std::mt19937* random) {
    const int64_t bytes = values_[value].bytes, last = target - bytes;
    // The weight of an overlap begins behind the offset that is half the first number, if that is
    // odd, and ends at it.
    changes_.clear();
    for (size_t k = 0; k < conflicts_[value].size(); ++k) {
      const int other = conflicts_[value][k];
      changes_.emplace_back(2 * (offsets_[other] - bytes) + 1, weights_[value][k]);
      changes_.emplace_back(2 * EndOf(other), -weights_[value][k]);
    }
    changes_.emplace_back(0, 0);
    changes_.emplace_back(2 * last, 0);
    std::sort(changes_.begin(), changes_.end());
    looks_ += static_cast<int64_t>(conflicts_[value].size()) + 1;
    const int64_t before = offsets_[value];
    int64_t weight = 0, least = std::numeric_limits<int64_t>::max();
    uint32_t ties = 0;
    for (const auto& [at, change] : changes_) {
      const bool begins = (at & 1) != 0;
      if (!begins) weight += change;
      const int64_t offset = begins ? (at - 1) / 2 : at / 2;
      if (at >= 0 && offset <= last && offset != before && weight <= least) {
        ties = weight < least ? 1 : ties + 1;
        least = weight;
        if ((*random)() % ties == 0) offsets_[value] = offset;
      }
      if (begins) weight += change;
    }
  }

  int64_t EndOf(int value) const { return offsets_[value] + values_[value].bytes; }

  // In some best packing every value lies at 0 or on the end of a value with which it conflicts. So
  // values are placed by rising offsets, each on the highest of its placed conflicts.
  // False if there are too many.
  bool TryAll() {
    if (IsBest()) return true;
    if (values_.size() > kMostTried) return false;
    offsets_.assign(values_.size(), -1);
    lowest_.assign(values_.size(), 0);
    TryNext(0, values_.size());
    return steps_ <= kMostSteps;
  }

  void TryNext(int64_t from, size_t left) {
    if (left == 0) {
      const int64_t bytes = BytesOfBlock();
      if (bytes < best_.bytes) best_ = {offsets_, bytes, 0};
      return;
    }
    // The values by the offset that each would have; equal ones are alike to all others.
    std::vector<std::pair<int64_t, int>> next;
    for (int value = 0; value < static_cast<int>(values_.size()); ++value) {
      if (offsets_[value] >= 0) continue;
      if (lowest_[value] + values_[value].bytes >= best_.bytes) return;
      if (lowest_[value] >= from) next.emplace_back(lowest_[value], value);
    }
    if (next.empty()) return;
    std::sort(next.begin(), next.end(), [&](const auto& x, const auto& y) {
      return std::pair(x.first, -values_[x.second].bytes) <
             std::pair(y.first, -values_[y.second].bytes);
    });
    for (const auto& [offset, value] : next) {
      if (IsBest() || ++steps_ > kMostSteps) return;
      // A value below this offset that is passed over would have to lie above it.
      offsets_[value] = offset;
      std::vector<std::pair<int, int64_t>> raised;
      for (const int other : conflicts_[value]) {
        if (offsets_[other] >= 0 || lowest_[other] >= EndOf(value)) continue;
        raised.emplace_back(other, lowest_[other]);
        lowest_[other] = EndOf(value);
      }
      TryNext(offset, left - 1);
      for (const auto& [other, was] : raised) lowest_[other] = was;
      offsets_[value] = -1;
    }
  }

  const absl::Span<const ValueLife> values_;
  const absl::Span<const Clock> clocks_;
  std::vector<std::vector<int>> conflicts_;
  std::vector<int64_t> alive_;  // by value: the bytes alive at its birth
  int64_t bound_ = 0;
  int64_t enough_ = -1;
  Packing best_;
  Order order_;                   // the best of those tried
  std::vector<int64_t> offsets_;  // of the last placing; -1: not placed
  std::vector<int64_t> lowest_;   // of values not placed: the offset that each would have
  std::vector<std::pair<int64_t, int64_t>> taken_;
  std::vector<std::vector<int64_t>> weights_;         // of overlaps, as conflicts_
  std::vector<std::pair<int64_t, int64_t>> changes_;  // of the sum of weights, by offset
  int64_t looks_ = 0;
  int64_t steps_ = 0;
};

}  // namespace

Packing PackValues(absl::Span<const ValueLife> values, absl::Span<const Clock> clocks,
                   Packing known, int64_t enough) {
  return Packer(values, clocks, std::move(known), enough).Run();
}

}  // namespace stringline
