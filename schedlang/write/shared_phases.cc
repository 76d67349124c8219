// A template is a list of bodies without counts. It comes from the repeats of a rank, or from two
// such lists merged along their common part. A rank's word is read by a template in every way, up
// to a bound; the counts of two neighbouring ranks extrapolate to a guess for all ranks, which is
// tried.
#include "schedlang/write/shared_phases.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>
#include <utility>

#include "schedlang/write/phases.h"

namespace stringline::search {
namespace {

using Word = std::vector<int>;
using Bodies = std::vector<Word>;
using Counts = std::vector<int64_t>;

constexpr size_t kMostShared = 20;    // bodies of a template
constexpr size_t kMostReadings = 60;  // a word by a template
constexpr size_t kMostMerges = 8;     // two templates
constexpr int64_t kSteepest = 4;      // a steeper change from rank to rank is by chance
constexpr int kRepeatOverhead = 2;
constexpr int64_t kSizeOfBranch = 4;  // the additional size of a separate rank: `else if r == 3 { …
                                      // }`

bool StandsAt(const Word& word, size_t i, const Word& body) {
  return i + body.size() <= word.size() &&
         std::equal(body.begin(), body.end(), word.begin() + static_cast<std::ptrdiff_t>(i));
}

// All ways to read the word as its bodies, each repeated some times.
class Readings {
 public:
  Readings(const Word& word, const Bodies& bodies) : word_(word), bodies_(bodies) {
    if (Reach(0, word.size())) Read(0, 0);
  }
  const std::vector<Counts>& all() const { return all_; }

 private:
  using Places = std::vector<size_t>;

  // Finds the places between bodies on ways from `begin` to `end`. False if no way exists.
  bool Reach(size_t begin, size_t end) {
    const size_t n = bodies_.size();
    std::vector<std::vector<char>> from_begin(n + 1);
    from_begin[0].assign(word_.size() + 1, 0);
    from_begin[0][begin] = 1;
    Places places = {begin};
    for (size_t j = 0; j < n; ++j) places = Behind(places, j, &from_begin[j + 1]);
    if (from_begin[n][end] == 0) return false;
    is_way_.resize(n + 1);
    is_way_[n].assign(word_.size() + 1, 0);
    is_way_[n][end] = 1;
    places = {end};
    for (size_t j = n; j-- > 0;) places = Before(places, j, from_begin[j], &is_way_[j]);
    return true;
  }
  // The places reached by repeats of body j.
  Places Behind(const Places& places, size_t j, std::vector<char>* seen) const {
    Places out;
    seen->assign(word_.size() + 1, 0);
    for (size_t i : places) {
      for (; (*seen)[i] == 0; i += bodies_[j].size()) {
        (*seen)[i] = 1;
        out.push_back(i);
        if (!StandsAt(word_, i, bodies_[j])) break;
      }
    }
    return out;
  }
  // The places, among those in `can_be`, from which repeats of body j lead to one of `places`.
  Places Before(const Places& places, size_t j, const std::vector<char>& can_be,
                std::vector<char>* is_way) const {
    const size_t length = bodies_[j].size();
    Places out;
    std::vector<char> seen(word_.size() + 1, 0);
    is_way->assign(word_.size() + 1, 0);
    for (size_t i : places) {
      for (; seen[i] == 0; i -= length) {
        seen[i] = 1;
        if (can_be[i] != 0) {
          (*is_way)[i] = 1;
          out.push_back(i);
        }
        if (i < length || !StandsAt(word_, i - length, bodies_[j])) break;
      }
    }
    return out;
  }

  void Read(size_t j, size_t i) {
    if (all_.size() >= kMostReadings) return;
    if (j == bodies_.size()) {
      all_.push_back(counts_);
      return;
    }
    counts_.push_back(0);
    for (;; ++counts_.back(), i += bodies_[j].size()) {
      if (is_way_[j + 1][i] != 0) Read(j + 1, i);
      if (!StandsAt(word_, i, bodies_[j])) break;
    }
    counts_.pop_back();
  }

  const Word& word_;
  const Bodies& bodies_;
  std::vector<std::vector<char>> is_way_;  // by body: the places where its repeats may begin
  Counts counts_;
  std::vector<Counts> all_;
};

bool Spells(const Bodies& bodies, const std::vector<Affine>& counts, int rank, const Word& word) {
  size_t i = 0;
  for (size_t j = 0; j < bodies.size(); ++j) {
    const int64_t count = counts[j].At(rank);
    if (count < 0 || count > static_cast<int64_t>(word.size())) return false;
    for (int64_t k = 0; k < count; ++k, i += bodies[j].size()) {
      if (!StandsAt(word, i, bodies[j])) return false;
    }
  }
  return i == word.size();
}

struct Fit {
  Bodies bodies;
  std::vector<Affine> counts;
  int64_t size = 0;
};

// Less is easier to read. In quarters of a sign.
int64_t SizeOfFit(const Bodies& bodies, const std::vector<Affine>& counts) {
  int64_t size = 0;
  for (size_t j = 0; j < bodies.size(); ++j) {
    if (counts[j].is(0)) continue;
    const int64_t body = SizeOf(PhasesOf(bodies[j], kRepeatOverhead), kRepeatOverhead);
    size += 4 * (counts[j].is(1) ? body : kRepeatOverhead + body);
    if (counts[j].slope != 0) size += 1 + std::abs(counts[j].slope);
  }
  return size;
}

// Words of the ranks from `first` on.
std::optional<Fit> FitOf(const Bodies& bodies, absl::Span<const Word> words, int first) {
  if (Readings(words.back(), bodies).all().empty()) return std::nullopt;
  const Readings one(words[0], bodies);
  if (one.all().empty()) return std::nullopt;
  const Readings next(words[words.size() > 1 ? 1 : 0], bodies);
  std::optional<Fit> best;
  for (const Counts& a : one.all()) {
    for (const Counts& b : next.all()) {
      std::vector<Affine> counts;
      bool is_fit = true;
      for (size_t j = 0; j < bodies.size() && is_fit; ++j) {
        const int64_t slope = words.size() > 1 ? b[j] - a[j] : 0;
        is_fit = std::abs(slope) <= kSteepest;
        counts.push_back({a[j] - slope * first, slope});
      }
      for (size_t r = 0; r < words.size() && is_fit; ++r) {
        is_fit = Spells(bodies, counts, first + static_cast<int>(r), words[r]);
      }
      if (!is_fit) continue;
      const int64_t size = SizeOfFit(bodies, counts);
      if (!best || size < best->size) best = Fit{bodies, counts, size};
    }
  }
  return best;
}

// Both lists merged, with the longest common part. Bodies of only one list may come in either
// order.
std::vector<Bodies> Merged(const Bodies& a, const Bodies& b) {
  // common[i][j]: the number of signs in the longest common list of a from i on and b from j on.
  std::vector<std::vector<size_t>> common(a.size() + 1, std::vector<size_t>(b.size() + 1, 0));
  for (size_t i = a.size(); i-- > 0;) {
    for (size_t j = b.size(); j-- > 0;) {
      common[i][j] = std::max(common[i + 1][j], common[i][j + 1]);
      if (a[i] == b[j]) common[i][j] = std::max(common[i][j], common[i + 1][j + 1] + a[i].size());
    }
  }
  std::vector<Bodies> out = {{}};
  const auto append = [&](const Bodies& bodies) {
    for (Bodies& list : out) list.insert(list.end(), bodies.begin(), bodies.end());
  };
  for (size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    Bodies only_a, only_b;
    while (i < a.size() || j < b.size()) {
      const bool is_shared = i < a.size() && j < b.size() && a[i] == b[j] &&
                             common[i][j] == common[i + 1][j + 1] + a[i].size();
      if (is_shared) break;
      if (i < a.size() && (j == b.size() || common[i + 1][j] == common[i][j])) {
        only_a.push_back(a[i++]);
      } else {
        only_b.push_back(b[j++]);
      }
    }
    if (!only_a.empty() && !only_b.empty() && out.size() < kMostMerges) {
      std::vector<Bodies> other = out;
      append(only_a);
      append(only_b);
      std::swap(out, other);
      append(only_b);
      append(only_a);
      out.insert(out.begin(), other.begin(), other.end());
    } else {
      append(only_a);
      append(only_b);
    }
    if (i < a.size() && j < b.size()) {
      append({a[i++]});
      ++j;
    }
  }
  return out;
}

Bodies BodiesOf(const Word& word) {
  Bodies out;
  for (const Phase& phase : PhasesOf(word, 1)) {
    out.push_back(phase.sign >= 0 ? Word{phase.sign} : Word{});
    for (const Phase& part : phase.body) {
      const Word more = WordOf(part);
      out.back().insert(out.back().end(), more.begin(), more.end());
    }
  }
  return out;
}

// The templates that the ranks of a range may share, those of single ranks first.
std::vector<Bodies> TemplatesOf(absl::Span<const Bodies> lists) {
  std::vector<Bodies> out;
  std::set<Bodies> seen;
  const auto add = [&](const Bodies& list) {
    if (list.size() <= kMostShared && seen.insert(list).second) out.push_back(list);
  };
  for (const Bodies& list : lists) add(list);
  const size_t n = lists.size(), last = n - 1;
  std::vector<std::pair<size_t, size_t>> pairs = {
      {0, last}, {n / 2, last}, {0, n / 2}, {std::min<size_t>(1, last), last}, {0, last - (n > 1)}};
  const std::set<std::pair<size_t, size_t>> once(pairs.begin(), pairs.end());
  std::vector<Bodies> merged;
  for (const auto& [a, b] : once) {
    if (a == b || lists[a].size() + lists[b].size() > 2 * kMostShared) continue;
    for (Bodies& list : Merged(lists[a], lists[b])) merged.push_back(std::move(list));
  }
  for (const Bodies& list : merged) add(list);
  for (const Bodies& list : merged) {
    if (list.size() + lists[n / 2].size() > 2 * kMostShared) continue;
    for (const Bodies& more : Merged(list, lists[n / 2])) add(more);
  }
  return out;
}

SharedPhases PhasesOfFit(const Fit& fit, int first, int end) {
  SharedPhases out{first, end, {}};
  for (size_t j = 0; j < fit.bodies.size(); ++j) {
    if (!fit.counts[j].is(0)) out.phases.push_back({fit.bodies[j], fit.counts[j]});
  }
  return out;
}

// The best repeats of a single rank.
SharedPhases OwnPhases(const Word& word, int rank) {
  SharedPhases out{rank, rank + 1, {}};
  for (const Phase& phase : PhasesOf(word, kRepeatOverhead)) {
    Phase once = phase;
    once.times = 1;
    out.phases.push_back({WordOf(once), {phase.times, 0}});
  }
  return out;
}

// Shared phases must be a quarter shorter than separate ones. Two ranks always share something: the
// phases of the first, then those of the second. So within more ranks, two of them may share only
// phases that both do.
bool IsWorthSharing(const Fit& fit, absl::Span<const int64_t> own_sizes, int first, bool is_all) {
  int64_t sum = 0;
  for (const int64_t size : own_sizes) sum += size + kSizeOfBranch;
  if (own_sizes.size() == 2 && !is_all) {
    for (const Affine count : fit.counts) {
      const int64_t one = count.At(first), other = count.At(first + 1);
      if ((one == 0) != (other == 0)) return false;
    }
  }
  return fit.size <= 3 * sum;  // a fit counts in quarters
}

std::optional<SharedPhases> OfRange(absl::Span<const Word> words, absl::Span<const Bodies> lists,
                                    absl::Span<const int64_t> own_sizes, int first, bool is_all) {
  std::optional<Fit> best;
  for (const Bodies& bodies : TemplatesOf(lists)) {
    std::optional<Fit> fit = FitOf(bodies, words, first);
    if (fit && (!best || fit->size < best->size)) best = std::move(fit);
  }
  if (!best || !IsWorthSharing(*best, own_sizes, first, is_all)) return std::nullopt;
  return PhasesOfFit(*best, first, first + static_cast<int>(words.size()));
}

}  // namespace

std::vector<SharedPhases> SharedPhasesOf(absl::Span<const Word> words) {
  std::vector<Bodies> lists;
  std::vector<int64_t> sizes;
  for (const Word& word : words) {
    lists.push_back(BodiesOf(word));
    sizes.push_back(SizeOf(PhasesOf(word, kRepeatOverhead), kRepeatOverhead));
  }
  std::vector<SharedPhases> out;
  for (size_t at = 0; at < words.size();) {
    const size_t left = words.size() - at;
    std::optional<SharedPhases> found;
    // All ranks left, all but some, then half as many, and again.
    for (size_t n = left; n > 1 && !found; n = n + 2 > left ? n - 1 : n / 2) {
      found = OfRange(words.subspan(at, n), absl::MakeConstSpan(lists).subspan(at, n),
                      absl::MakeConstSpan(sizes).subspan(at, n), static_cast<int>(at),
                      n == words.size());
    }
    if (!found) found = OwnPhases(words[at], static_cast<int>(at));
    at = static_cast<size_t>(found->end);
    out.push_back(std::move(*found));
  }
  return out;
}

}  // namespace stringline::search
