#include "schedlang/memory/slots.h"

#include <algorithm>
#include <limits>

#include "schedlang/base/sl_check.h"

namespace stringline {
namespace {

// Bounds the search: a rank may free many ranges whose end a sender's clock does not know.
constexpr int kMostLooks = 64;

}  // namespace

int64_t Slots::Take(int64_t bytes, const Clock& clock, Moment death) {
  SL_CHECK(bytes <= kMostRankBytes) << bytes;
  FreeWhatDied(clock);
  int range = LeastFree(bytes, clock);
  if (range < 0 && cuts_) range = TightestRow(bytes, clock);
  if (range < 0) range = Grow(bytes, clock);
  Use(range);
  if (ranges_[range].bytes > bytes) CutBehind(range, bytes);
  ranges_[range].end = death;
  auto dying = std::find_if(dying_.begin(), dying_.end(),
                            [&](const Dying& d) { return d.rank == death.rank; });
  if (dying == dying_.end()) dying = dying_.insert(dying_.end(), Dying{death.rank, {}});
  dying->ranges.emplace(death.group, range);
  return ranges_[range].offset;
}

void Slots::FreeWhatDied(const Clock& clock) {
  for (Dying& dying : dying_) {
    while (!dying.ranges.empty() && dying.ranges.top().first <= clock[dying.rank]) {
      Free(dying.ranges.top().second);
      dying.ranges.pop();
    }
  }
}

void Slots::Free(int range) {
  ranges_[range].free = true;
  free_.emplace(ranges_[range].bytes, range);
}

void Slots::Use(int range) {
  if (!ranges_[range].free) return;
  free_.erase({ranges_[range].bytes, range});
  ranges_[range].free = false;
}

// A range that is free by one clock may be in use by another.
bool Slots::IsFree(int range, const Clock& clock) const {
  if (range < 0 || !ranges_[range].free) return false;
  return KnowsDeath(clock, ranges_[range].end);
}

int Slots::LeastFree(int64_t bytes, const Clock& clock) const {
  int looks = kMostLooks;
  for (auto it = free_.lower_bound({bytes, -1}); it != free_.end(); ++it) {
    if (cuts_ ? --looks < 0 : it->first > bytes) return -1;
    if (IsFree(it->second, clock)) return it->second;
  }
  return -1;
}

// Walks a row of free neighbours once from its first range, keeping the shortest large enough piece
// that ends at the current range; rows that begin with large ranges come first.
int Slots::TightestRow(int64_t bytes, const Clock& clock) {
  int best_first = -1, best_last = -1;
  int64_t best = std::numeric_limits<int64_t>::max();
  int looks = kMostLooks;
  for (auto it = free_.rbegin(); it != free_.rend() && --looks >= 0; ++it) {
    const int start = it->second;
    if (!IsFree(start, clock) || IsFree(ranges_[start].before, clock)) continue;
    int first = start;
    int64_t sum = 0;
    for (int last = start; IsFree(last, clock) && --looks >= 0; last = ranges_[last].after) {
      sum += ranges_[last].bytes;
      while (sum - ranges_[first].bytes >= bytes) {
        sum -= ranges_[first].bytes;
        first = ranges_[first].after;
      }
      if (sum < bytes || sum >= best) continue;
      best = sum;
      best_first = first;
      best_last = last;
    }
  }
  return best_first < 0 ? -1 : Join(best_first, best_last);
}

// Reuses the free ranges at the end of the block.
int Slots::Grow(int64_t bytes, const Clock& clock) {
  int first = -1;
  int64_t there = 0;
  for (int r = last_; cuts_ && IsFree(r, clock); r = ranges_[r].before) {
    first = r;
    there += ranges_[r].bytes;
  }
  if (first < 0) {
    first = NewRange({.offset = bytes_, .bytes = bytes, .before = last_});
    if (last_ >= 0) ranges_[last_].after = first;
    last_ = first;
  } else {
    first = Join(first, last_);
    Use(first);
    ranges_[first].bytes = bytes;
  }
  bytes_ = std::min(bytes_ + bytes - there, kMostRankBytes);
  return first;
}

// Joins free neighbours into a single range, which is in no list. Its end is the last range's: only
// that one may be cut.
int Slots::Join(int first, int last) {
  Use(first);
  while (first != last) {
    const int next = ranges_[first].after;
    Use(next);
    ranges_[first].bytes += ranges_[next].bytes;
    ranges_[first].end = ranges_[next].end;
    ranges_[first].after = ranges_[next].after;
    unused_.push_back(next);
    if (next == last) break;
  }
  const int after = ranges_[first].after;
  (after >= 0 ? ranges_[after].before : last_) = first;
  return first;
}

int Slots::NewRange(Range range) {
  if (unused_.empty()) {
    ranges_.push_back(range);
    return static_cast<int>(ranges_.size()) - 1;
  }
  const int index = unused_.back();
  unused_.pop_back();
  ranges_[index] = range;
  return index;
}

// The bytes behind the first `bytes` stay free.
void Slots::CutBehind(int range, int64_t bytes) {
  const Range& whole = ranges_[range];
  const int rest = NewRange({.offset = whole.offset + bytes,
                             .bytes = whole.bytes - bytes,
                             .end = whole.end,
                             .before = range,
                             .after = whole.after});
  const int after = ranges_[rest].after;
  (after >= 0 ? ranges_[after].before : last_) = rest;
  ranges_[range].after = rest;
  ranges_[range].bytes = bytes;
  Free(rest);
}

}  // namespace stringline
