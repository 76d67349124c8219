// Stages recompute in the order of what they save for a unit of work, the last of them in part. A
// longer time leaves room for more of both, so the least time is found by halving.
#include "schedlang/search/held_area.h"

#include <algorithm>
#include <limits>

#include "schedlang/search/relaxed.h"

namespace stringline::search {
namespace {

int64_t LeastBack(const Problem& problem, const StageWork& stage) {
  int64_t least = kNoLimit;
  if (problem.whole) least = stage.time[kWholeAt];
  if (problem.split) least = std::min(least, stage.time[kInputAt]);
  return least;
}

// The most area that recomputing saves with so much more work.
Area MostSaved(absl::Span<const HeldWork> by_worth, int64_t more) {
  Area saved = 0;
  for (const HeldWork& one : by_worth) {
    const Area own = one.area - one.recomputed;
    if (own <= 0) continue;
    if (one.again <= more) {
      saved += own;
      more -= one.again;
    } else {
      saved += std::min(own, (own / one.again + 1) * more);
      break;
    }
  }
  return saved;
}

}  // namespace

Area AreaOfBack(const Problem& problem, const StageWork& stage, int64_t whole, int64_t input) {
  const Area held = stage.after[kForwardAt];
  Area area = held * kNoLimit;
  if (problem.whole) area = held * whole;
  if (!problem.split) return area;
  const Area deferred = held + stage.after[kInputAt];
  return std::min(area, held * input + deferred * stage.time[kWeightAt]);
}

std::vector<HeldWork> HeldWorkOf(const Problem& none, const Problem& all, bool is_divided) {
  std::vector<HeldWork> held(none.stages.size());
  for (size_t last = 0; last < none.stages.size(); ++last) {
    if (none.stages[last].next >= 0) continue;
    int64_t trip = 0;  // from the end of the stage's F to the start of its backward
    for (int s = static_cast<int>(last); s >= 0; s = none.stages[static_cast<size_t>(s)].previous) {
      const StageWork& stage = none.stages[static_cast<size_t>(s)];
      const StageWork& other = all.stages[static_cast<size_t>(s)];
      const int64_t count = stage.microbatches;
      HeldWork& own = held[static_cast<size_t>(s)];
      const int64_t least = LeastTimeOf(none, stage.time);
      own.work = count * least;
      own.again = count * std::max<int64_t>(0, LeastTimeOf(all, other.time) - least);
      const int64_t way = stage.time[kForwardAt] + trip;
      if (ReleasesAll(none, stage) && ReleasesAll(all, other)) {
        const int64_t full = stage.after[kForwardAt];
        const int64_t kept = is_divided ? 0 : other.after[kForwardAt];
        own.area = count * (Area{full} * way +
                            AreaOfBack(none, stage, stage.time[kWholeAt], stage.time[kInputAt]));
        own.recomputed = count * (Area{kept} * way + Area{kept} * LeastBack(all, other));
        own.recomputed = std::min(own.recomputed, own.area);
      }
      trip += stage.time[kForwardAt] + LeastBack(none, stage);
    }
  }
  return held;
}

int64_t LeastTimeToHold(absl::Span<const HeldWork> held, int ranks, Area capacity, int64_t waits) {
  if (held.empty()) return 0;
  std::vector<HeldWork> by_worth(held.begin(), held.end());
  std::sort(by_worth.begin(), by_worth.end(), [](const HeldWork& a, const HeldWork& b) {
    // Areas are too large to be multiplied.
    const auto worth = [](const HeldWork& of) {
      const auto saved = static_cast<double>(of.area - of.recomputed);
      return of.again > 0 ? saved / static_cast<double>(of.again)
                          : std::numeric_limits<double>::infinity();
    };
    return worth(a) > worth(b);
  });
  Area area = 0;
  int64_t work = waits, again = 0;
  for (const HeldWork& one : by_worth) {
    area += one.area;
    work += one.work;
    again += one.again;
  }
  const auto suffices = [&](int64_t time) {
    const int64_t more = std::min(ranks * time - work, again);
    return more >= 0 && area - MostSaved(by_worth, more) <= capacity * time;
  };
  int64_t least = (work + ranks - 1) / ranks, enough = std::max<int64_t>(1, least);
  while (!suffices(enough)) {
    if (enough > kNoLimit / (4 * ranks)) return kNoLimit;
    enough *= 2;
  }
  while (least < enough) {
    const int64_t middle = least + (enough - least) / 2;
    if (suffices(middle)) {
      enough = middle;
    } else {
      least = middle + 1;
    }
  }
  return least;
}

HeldTime LongestHeldTime(const Problem& none, const Problem& all) {
  HeldTime longest;
  const std::vector<HeldWork> held = HeldWorkOf(none, all, /*is_divided=*/false);
  for (int r = 0; r < none.ranks; ++r) {
    const int64_t capacity = all.capacity[static_cast<size_t>(r)];
    if (capacity >= kNoLimit || capacity <= 0) continue;
    std::vector<HeldWork> own;
    int64_t work = 0;
    for (size_t s = 0; s < held.size(); ++s) {
      if (none.stages[s].rank != r) continue;
      own.push_back(held[s]);
      work += held[s].work;
    }
    const int64_t time = LeastTimeToHold(own, 1, capacity, 0);
    if (time > longest.time) longest = {r, work, time};
  }
  return longest;
}

}  // namespace stringline::search
