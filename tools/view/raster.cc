#include "tools/view/raster.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "schedlang/base/sl_check.h"

namespace stringline {
namespace {

// The step of which all starts and ends are multiples, and the shortest action.
struct Grain {
  int64_t step_ns = 0;
  int64_t shortest_ns = 0;
  int64_t end_ns = 0;
};

Grain GrainOf(const Timeline& timeline) {
  Grain grain;
  for (const Event& event : timeline.events) {
    if (!IsCompute(event.kind)) continue;
    grain.step_ns = std::gcd(std::gcd(grain.step_ns, event.start_ns), event.end_ns);
    grain.end_ns = std::max(grain.end_ns, event.end_ns);
    const int64_t length = event.end_ns - event.start_ns;
    if (length > 0 && (grain.shortest_ns == 0 || length < grain.shortest_ns)) {
      grain.shortest_ns = length;
    }
  }
  return grain;
}

// The contenders for a slice: kinds; a group is a kind of its own, and so is idling.
constexpr int kGroup = kComputeKinds;
constexpr int kIdle = kGroup + 1;
constexpr int kContenders = kIdle + 1;

int ContenderOf(absl::Span<const Event> events, size_t i) {
  const bool group = i + 1 < events.size() && events[i + 1].joined;
  return group ? kGroup : static_cast<int>(events[i].kind);
}

// The contenders' times in a slice, and the event with the largest piece for each kind.
struct Slice {
  std::array<int64_t, kContenders> total_ns = {};
  std::array<int64_t, kContenders> largest_ns = {};
  std::array<int, kContenders> event;

  Slice() { event.fill(-1); }

  void Give(int contender, int index, int64_t ns) {
    total_ns[contender] += ns;
    if (ns <= largest_ns[contender]) return;
    largest_ns[contender] = ns;
    event[contender] = index;
  }
};

// Gives each slice to one contender. The others are owed their time in the slice, so over many
// slices every contender gets its share; but no contender gets a slice without a part in it, and a
// contender with the whole slice always gets it.
class Judge {
 public:
  // The event for the slice, -1 for none.
  int Decide(const Slice& slice, int64_t length_ns) {
    int best = kIdle;
    for (int c = 0; c < kContenders; ++c) {
      owed_ns_[c] = std::clamp(owed_ns_[c] + slice.total_ns[c], -length_ns, length_ns);
    }
    for (int c = 0; c < kContenders; ++c) {
      if (slice.total_ns[c] == 0) continue;
      if (slice.total_ns[best] == 0 || owed_ns_[c] > owed_ns_[best]) best = c;
    }
    owed_ns_[best] -= length_ns;
    return slice.event[best];
  }
  // As Decide, but by this slice alone.
  static int Largest(const Slice& slice) {
    const auto& total = slice.total_ns;
    return slice.event[std::max_element(total.begin(), total.end()) - total.begin()];
  }

 private:
  std::array<int64_t, kContenders> owed_ns_ = {};
};

std::vector<int> RasterizeRank(absl::Span<const Event> events, int first_index, const Grain& grain,
                               int slices) {
  std::vector<Slice> grid(slices);
  const auto edge = [&](int slice) {
    return static_cast<int64_t>(static_cast<__int128>(grain.end_ns) * slice / slices);
  };
  const auto slice_at = [&](int64_t ns) {
    return static_cast<int>(static_cast<__int128>(ns) * slices / grain.end_ns);
  };
  for (size_t i = 0; i < events.size(); ++i) {
    const Event& event = events[i];
    if (!IsCompute(event.kind) || event.joined || event.end_ns <= event.start_ns) continue;
    const int contender = ContenderOf(events, i);
    const int last = std::min(slice_at(event.end_ns), slices - 1);
    for (int s = slice_at(event.start_ns); s <= last; ++s) {
      const int64_t from = std::max(event.start_ns, edge(s));
      const int64_t to = std::min(event.end_ns, edge(s + 1));
      if (to > from) grid[s].Give(contender, first_index + static_cast<int>(i), to - from);
    }
  }
  const bool squeezed = grain.shortest_ns < grain.end_ns / slices;
  Judge judge;
  std::vector<int> row(slices);
  for (int s = 0; s < slices; ++s) {
    const int64_t length = edge(s + 1) - edge(s);
    const auto& total = grid[s].total_ns;
    const int64_t busy = std::accumulate(total.begin(), total.end(), int64_t{0});
    grid[s].Give(kIdle, -1, std::max<int64_t>(0, length - busy));
    row[s] = squeezed ? judge.Decide(grid[s], length) : Judge::Largest(grid[s]);
  }
  return row;
}

}  // namespace

Raster Rasterize(const Timeline& timeline, int columns, int slices_per_column, int64_t end_ns) {
  constexpr int kWidestCell = 8;
  Grain grain = GrainOf(timeline);
  SL_CHECK(end_ns == 0 || end_ns >= grain.end_ns) << end_ns << " " << grain.end_ns;
  grain.end_ns = std::max(grain.end_ns, end_ns);
  Raster raster;
  raster.columns = columns;
  raster.slices_per_column = slices_per_column;
  raster.end_ns = grain.end_ns;
  if (end_ns == 0 && grain.step_ns > 0 && grain.end_ns / grain.step_ns <= columns) {
    const int64_t steps = grain.end_ns / grain.step_ns;
    const int64_t widest = std::max<int64_t>(1, kWidestCell * grain.step_ns / grain.shortest_ns);
    const int64_t used = steps * std::min(columns / steps, widest);
    raster.exact = columns / steps >= widest || 5 * used >= 3 * columns;
    if (raster.exact) raster.columns = static_cast<int>(used);
  }
  for (int rank = 0; rank < timeline.ranks(); ++rank) {
    raster.rows.push_back(grain.end_ns == 0 ? std::vector<int>(raster.slices(), -1)
                                            : RasterizeRank(timeline.of(RankId(rank)),
                                                            static_cast<int>(timeline.first[rank]),
                                                            grain, raster.slices()));
  }
  return raster;
}

}  // namespace stringline
