// The memory block of a rank: values take its bytes one after another.
//
// A value may take bytes once their earlier values are known to be dead: `clock` says how many
// groups of every rank are known to have ended at its birth. It takes the least free range that is
// large enough; else the tightest row of free neighbours; else the block grows at its end. The rest
// of a range stays free. At most a few dozen ranges are examined, so a value costs log n. (Without
// cuts: all ranges of its size.)
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <set>
#include <utility>
#include <vector>

namespace stringline {

// No block counts as larger: a million microbatches of a large model may exceed 64 bits, and so
// much memory is refused anyway.
inline constexpr int64_t kMostRankBytes = int64_t{1} << 60;

// A place in a rank's list of groups, counted from 1; 0: before all of them.
struct Moment {
  int rank = 0;
  int group = 0;
};

// By rank: the number of its groups known to have ended.
using Clock = std::vector<int>;

inline bool KnowsDeath(const Clock& clock, Moment death) {
  return clock[death.rank] >= death.group;
}

class Slots {
 public:
  // Without `cuts`, only values of equal size share bytes.
  explicit Slots(bool cuts) : cuts_(cuts) {}

  // The offset of `bytes` bytes (a multiple of the alignment) for a value born at `clock` that dies
  // with `death`.
  int64_t Take(int64_t bytes, const Clock& clock, Moment death);
  int64_t bytes() const { return bytes_; }

 private:
  // The block is a row of ranges; each is taken until `end`, and was free before.
  struct Range {
    int64_t offset = 0;
    int64_t bytes = 0;
    Moment end;
    int before = -1, after = -1;  // its neighbours
    bool free = false;            // some clock knew its end
  };
  // Ranges in use whose values die on the same rank, by group.
  struct Dying {
    int rank;
    std::priority_queue<std::pair<int, int>, std::vector<std::pair<int, int>>, std::greater<>>
        ranges;
  };

  void FreeWhatDied(const Clock& clock);
  void Free(int range);
  void Use(int range);
  bool IsFree(int range, const Clock& clock) const;
  int LeastFree(int64_t bytes, const Clock& clock) const;
  int TightestRow(int64_t bytes, const Clock& clock);
  int Grow(int64_t bytes, const Clock& clock);
  int Join(int first, int last);
  int NewRange(Range range);
  void CutBehind(int range, int64_t bytes);

  bool cuts_;
  int64_t bytes_ = 0;
  std::vector<Range> ranges_;
  std::vector<int> unused_;                 // indices of ranges joined to others
  int last_ = -1;                           // at the end of the block
  std::set<std::pair<int64_t, int>> free_;  // by size
  std::vector<Dying> dying_;
};

}  // namespace stringline
