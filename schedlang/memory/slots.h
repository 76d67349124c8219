// The block of memory of one rank, and which values take which bytes of it one after another.
//
// A value may take bytes once it is known that the values before it in them are dead: `clock` says
// which groups of which ranks are known to have ended when it is born. It takes the least free
// range that is large enough; else the tightest row of free neighbours; else the block grows at its
// end. What it does not need of a range stays free. A few dozen ranges are looked at, no more: a
// value costs log n. (Without cuts: all ranges of its size.)
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <set>
#include <utility>
#include <vector>

namespace stringline {

// No block is counted as larger: a million microbatches of a large model may pass 64 bits, and
// whoever asks for so much memory is told that it is not there.
inline constexpr int64_t kMostRankBytes = int64_t{1} << 60;

// A place in a rank's list of groups, counted from 1; 0: before all of them.
struct Moment {
  int rank = 0;
  int group = 0;
};

// By rank: how many of its groups are known to have ended.
using Clock = std::vector<int>;

class Slots {
 public:
  // Without `cuts`, bytes are only ever taken by values of one size.
  explicit Slots(bool cuts) : cuts_(cuts) {}

  // The offset of `bytes` bytes (a multiple of the alignment) for a value that is born when `clock`
  // is known and dies with `death`.
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
  // Ranges in use whose values die on one rank, by group.
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
  std::vector<int> unused_;                 // indices of ranges that were joined to others
  int last_ = -1;                           // at the end of the block
  std::set<std::pair<int64_t, int>> free_;  // by size
  std::vector<Dying> dying_;
};

}  // namespace stringline
