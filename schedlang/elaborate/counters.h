// The counters of a rank, which decide the microbatch of an action.
//
// They belong to the work, not to the letter: forwards are counted per stage, input gradients per
// stage (B and I share that counter), and deferred weight gradients wait in the order of their I's.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace stringline {

// Numbers from 0, taken once each, mostly in ascending order.
class Counter {
 public:
  int64_t lowest_free() const { return next_; }
  bool IsTaken(int64_t number) const { return number < next_ || ahead_.count(number) > 0; }
  // False if `number` was taken before.
  bool Take(int64_t number);

 private:
  int64_t next_ = 0;
  std::set<int64_t> ahead_;  // taken numbers above next_
};

// A microbatch of a stage's work, and its slice.
struct SliceNumber {
  int64_t microbatch = 0;
  int64_t slice = 0;
};

// The microbatches that a stage's work of one kind has taken, slice by slice.
class WorkCounter {
 public:
  explicit WorkCounter(int slices) : slices_(static_cast<size_t>(slices)) {}

  // The next microbatch and slice of the work: those given, else the lowest microbatch that is not
  // done, and the first of its slices that is not; `backward`: the last one. May be taken already.
  SliceNumber Next(std::optional<int64_t> microbatch, std::optional<int64_t> slice,
                   bool backward) const {
    if (slices_.size() > 1) return NextOfSlices(microbatch, slice, backward);
    return {microbatch ? *microbatch : slices_[0].lowest_free(), 0};
  }
  // False if it was taken before.
  bool Take(SliceNumber number) {
    return slices_[static_cast<size_t>(number.slice)].Take(number.microbatch);
  }

 private:
  SliceNumber NextOfSlices(std::optional<int64_t> microbatch, std::optional<int64_t> slice,
                           bool backward) const;

  std::vector<Counter> slices_;
};

// The deferred weight gradients of a rank, oldest first.
class Deferred {
 public:
  explicit Deferred(size_t stages) : first_(stages, -1), last_(stages, -1) {}

  struct Entry {
    int32_t stage = 0;
    bool done = false;
    int32_t next = -1;  // the next entry of the same stage
    int64_t microbatch = 0;
  };

  // Forgets all entries. The next rank has other stages.
  void StartRank();
  void Add(int32_t stage, int64_t microbatch);
  // Each takes an entry out and returns it; null if no entry fits.
  const Entry* TakeOldest();
  const Entry* TakeOldestOf(int32_t stage);
  const Entry* Take(int32_t stage, int64_t microbatch);
  // The oldest of the stage for which fits(microbatch) holds. Cost: linear in those that are left.
  template <typename Fits>
  const Entry* TakeFirst(int32_t stage, Fits fits) {
    if (OldestOf(stage) == nullptr) return nullptr;
    for (int32_t i = first_[static_cast<size_t>(stage)]; i >= 0; i = entries_[i].next) {
      Entry& entry = entries_[static_cast<size_t>(i)];
      if (entry.done || !fits(entry.microbatch)) continue;
      entry.done = true;
      return &entry;
    }
    return nullptr;
  }
  // The entry that TakeOldestOf would take.
  const Entry* OldestOf(int32_t stage);

 private:
  std::vector<Entry> entries_;
  size_t oldest_ = 0;           // all entries before are done
  std::vector<int32_t> first_;  // per stage; entries before are done
  std::vector<int32_t> last_;
  // (stage, microbatch) -> entry; kept from the first Take by number on.
  bool indexed_ = false;
  absl::flat_hash_map<std::pair<int32_t, int64_t>, int32_t> index_;
};

}  // namespace stringline
