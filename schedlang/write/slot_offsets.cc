// On a rank, offset a - offset b <= limit(a, b) for all signs a and b: the shortest path from b to
// a. For lines, slopes are tried sign by sign; the bounds that two slopes leave to their starts are
// known at once.
#include "schedlang/write/slot_offsets.h"

#include <algorithm>
#include <limits>

namespace stringline::search {
namespace {

constexpr int64_t kFree = std::numeric_limits<int64_t>::max() / 8;
constexpr int64_t kSteepestSlot = 4;
constexpr int kMostLineSigns = 8;
constexpr int kMostLineTries = 4'000;  // for a period

using OffsetLimits = std::vector<std::vector<int64_t>>;  // [a][b]: of offset a - offset b

// Closes the limits under transitivity. False if no offsets satisfy them.
bool Close(OffsetLimits* limits) {
  const size_t n = limits->size();
  for (size_t k = 0; k < n; ++k) {
    for (size_t a = 0; a < n; ++a) {
      for (size_t b = 0; b < n; ++b) {
        const int64_t way = (*limits)[a][k] + (*limits)[k][b];
        if (way < (*limits)[a][b]) (*limits)[a][b] = way;
      }
    }
  }
  for (size_t a = 0; a < n; ++a) {
    if ((*limits)[a][a] < 0) return false;
  }
  return true;
}

// The least pass of b minus pass of a over all places at which b directly follows a; kFree if none.
OffsetLimits LeadsOf(const std::vector<int>& word, size_t signs) {
  OffsetLimits leads(signs, std::vector<int64_t>(signs, kFree));
  std::vector<int64_t> passes(signs, 0);
  for (size_t i = 0; i + 1 < word.size(); ++i) {
    const auto a = static_cast<size_t>(word[i]), b = static_cast<size_t>(word[i + 1]);
    const int64_t pass_a = passes[a]++;
    leads[a][b] = std::min(leads[a][b], passes[b] - pass_a);
  }
  return leads;
}

OffsetLimits LimitsOf(const OffsetLimits& leads, int64_t period) {
  OffsetLimits limits = leads;
  for (size_t a = 0; a < limits.size(); ++a) {
    for (int64_t& limit : limits[a]) limit = limit == kFree ? kFree : period * limit - 1;
    limits[a][a] = std::min<int64_t>(limits[a][a], 0);
  }
  return limits;
}

// Offsets within closed limits: each as early as possible, from 0 on.
std::vector<int64_t> Earliest(const OffsetLimits& limits) {
  std::vector<int64_t> offsets(limits.size(), 0);
  for (size_t a = 0; a < limits.size(); ++a) {
    for (size_t b = 0; b < limits.size(); ++b) {
      if (limits[b][a] < kFree / 2) offsets[a] = std::max(offsets[a], -limits[b][a]);
    }
  }
  return offsets;
}

class SlopeSearch {
 public:
  explicit SlopeSearch(const std::vector<OffsetLimits>& by_rank) : by_rank_(by_rank) {}

  bool Find() { return Try(); }
  const std::vector<int64_t>& slopes() const { return slopes_; }

  // The limits that remain for the starts of the signs with slopes.
  OffsetLimits StartLimits() const {
    const size_t n = slopes_.size();
    OffsetLimits limits(n, std::vector<int64_t>(n, kFree));
    for (size_t a = 0; a < n; ++a) {
      for (size_t b = 0; b < n; ++b) {
        for (size_t r = 0; r < by_rank_.size(); ++r) {
          const int64_t rise = (slopes_[a] - slopes_[b]) * static_cast<int64_t>(r);
          limits[a][b] = std::min(limits[a][b], by_rank_[r][a][b] - rise);
        }
      }
    }
    return limits;
  }

 private:
  bool Try() {
    if (slopes_.size() == by_rank_[0].size()) return true;
    // Only differences matter: the first slope is that of a pipeline.
    for (int64_t i = 0; i <= 2 * kSteepestSlot; ++i) {
      const int64_t slope = slopes_.empty() ? 1 : (i % 2 == 1 ? -(i + 1) / 2 : i / 2);
      if (++tries_ > kMostLineTries) return false;
      slopes_.push_back(slope);
      OffsetLimits limits = StartLimits();
      if (Close(&limits) && Try()) return true;
      slopes_.pop_back();
      if (slopes_.empty()) return false;
    }
    return false;
  }

  const std::vector<OffsetLimits>& by_rank_;
  std::vector<int64_t> slopes_;
  int tries_ = 0;
};

std::optional<std::vector<Affine>> LinesWithin(const std::vector<OffsetLimits>& by_rank) {
  SlopeSearch search(by_rank);
  if (!search.Find()) return std::nullopt;
  OffsetLimits limits = search.StartLimits();
  Close(&limits);
  const std::vector<int64_t> starts = Earliest(limits);
  std::vector<Affine> lines;
  int64_t least = 0;
  for (size_t a = 0; a < starts.size(); ++a) {
    lines.push_back({starts[a], search.slopes()[a]});
    least =
        std::min({least, lines[a].at_zero, lines[a].At(static_cast<int64_t>(by_rank.size()) - 1)});
  }
  for (Affine& line : lines) line.at_zero -= least;
  return lines;
}

}  // namespace

std::optional<SlotOffsets> SlotOffsetsOf(absl::Span<const std::vector<int>> words, int signs,
                                         bool as_lines) {
  if (as_lines && signs > kMostLineSigns) return std::nullopt;
  std::vector<OffsetLimits> leads;
  for (const std::vector<int>& word : words) {
    leads.push_back(LeadsOf(word, static_cast<size_t>(signs)));
  }
  for (int64_t period = signs; period <= 2 * signs; ++period) {
    std::vector<OffsetLimits> by_rank;
    bool is_possible = true;
    for (const OffsetLimits& of_rank : leads) {
      by_rank.push_back(LimitsOf(of_rank, period));
      is_possible = is_possible && Close(&by_rank.back());
    }
    if (!is_possible) continue;
    SlotOffsets out{.period = period};
    if (!as_lines) {
      for (const OffsetLimits& limits : by_rank) out.by_rank.push_back(Earliest(limits));
      return out;
    }
    if (auto lines = LinesWithin(by_rank)) {
      out.lines = *std::move(lines);
      return out;
    }
  }
  return std::nullopt;
}

}  // namespace stringline::search
