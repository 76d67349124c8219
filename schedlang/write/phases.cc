// Dynamic programming from the word's end: at every place, either a sign, or a body that follows
// itself there. A table for each length of a body gives the number of its repeats. A body is
// compressed in the same way, once for all its places.
#include "schedlang/write/phases.h"

#include <algorithm>
#include <map>
#include <utility>

namespace stringline::search {
namespace {

constexpr size_t kLongestBody = 512;
constexpr size_t kMostEntries = 8'000'000;  // in all tables together
constexpr int64_t kSignCost = int64_t{1} << 24;

class PhaseSearch {
 public:
  explicit PhaseSearch(int overhead) : overhead_(overhead * kSignCost) {}

  struct Best {
    int64_t cost = 0;
    Phases phases;
  };
  const Best& Of(const std::vector<int>& word);

 private:
  struct Choice {
    int64_t cost = 0;
    size_t length = 1;  // the body's; the sign itself if `times` is 1
    size_t times = 1;
  };

  Best Compress(const std::vector<int>& word);

  int64_t overhead_;
  std::map<std::vector<int>, Best> known_;
};

// A possible length of bodies.
struct BodyLength {
  size_t length = 0;
  // By place: the number of signs from there on that equal the sign `length` later.
  std::vector<uint32_t> equal;
  // By place modulo length: the cost of the last body considered; -1 before.
  std::vector<int64_t> cost;
};

// True if the p signs from i on are a power of a shorter body.
bool IsPower(const std::vector<BodyLength>& shorter, size_t i, size_t p) {
  return std::any_of(shorter.begin(), shorter.end(), [&](const BodyLength& d) {
    return d.length < p && p % d.length == 0 && d.equal[i] >= p - d.length;
  });
}

// The lengths of bodies that occur at least twice, and are not always powers of shorter ones.
std::vector<BodyLength> LengthsIn(const std::vector<int>& word) {
  const size_t n = word.size();
  const size_t longest = std::min({n / 2, kLongestBody, kMostEntries / std::max<size_t>(n, 1)});
  std::vector<BodyLength> lengths;
  std::vector<uint32_t> equal(n + 1);
  for (size_t p = 1; p <= longest; ++p) {
    equal.assign(n + 1, 0);
    bool is_repeated = false;
    for (size_t i = n - p; i-- > 0;) {
      equal[i] = word[i] == word[i + p] ? equal[i + 1] + 1 : 0;
      is_repeated = is_repeated || (equal[i] >= p && !IsPower(lengths, i, p));
    }
    if (is_repeated) lengths.push_back({p, equal, std::vector<int64_t>(p, -1)});
  }
  return lengths;
}

PhaseSearch::Best PhaseSearch::Compress(const std::vector<int>& word) {
  const size_t n = word.size();
  std::vector<BodyLength> lengths = LengthsIn(word);
  std::vector<Choice> best(n + 1);
  for (size_t i = n; i-- > 0;) {
    best[i] = {.cost = best[i + 1].cost + kSignCost};
    for (BodyLength& body : lengths) {
      const size_t p = body.length;
      if (body.equal[i] < p || IsPower(lengths, i, p)) continue;
      const size_t most = 1 + body.equal[i] / p;
      // A body that occurs twice behind this place was considered there already.
      int64_t& body_cost = body.cost[i % p];
      if (body.equal[i] < 2 * p || body_cost < 0) {
        const auto at = word.begin() + static_cast<std::ptrdiff_t>(i);
        body_cost = Of({at, at + static_cast<std::ptrdiff_t>(p)}).cost;
      }
      // The following phase may begin like the body, and need its signs.
      for (size_t times = most; times >= 2 && times + 2 >= most; --times) {
        const auto covered = static_cast<int64_t>(times * p) * (p > 1 ? 2 : 1);
        const int64_t cost = overhead_ + body_cost + best[i + times * p].cost - covered;
        const bool is_first_repeat = cost == best[i].cost && best[i].times == 1;
        if (cost < best[i].cost || is_first_repeat) best[i] = {cost, p, times};
      }
    }
  }
  Best out{best[0].cost, {}};
  for (size_t i = 0; i < n;) {
    const Choice& choice = best[i];
    if (choice.times == 1) {
      out.phases.push_back({.sign = word[i++]});
      continue;
    }
    const auto at = word.begin() + static_cast<std::ptrdiff_t>(i);
    out.phases.push_back(
        {.times = static_cast<int64_t>(choice.times),
         .body = Of({at, at + static_cast<std::ptrdiff_t>(choice.length)}).phases});
    i += choice.length * choice.times;
  }
  return out;
}

const PhaseSearch::Best& PhaseSearch::Of(const std::vector<int>& word) {
  const auto it = known_.find(word);
  if (it != known_.end()) return it->second;
  Best best = Compress(word);
  return known_.emplace(word, std::move(best)).first->second;
}

void AppendWord(const Phase& phase, std::vector<int>* word) {
  if (phase.sign >= 0) word->push_back(phase.sign);
  for (int64_t i = 0; i < phase.times; ++i) {
    for (const Phase& part : phase.body) AppendWord(part, word);
  }
}

}  // namespace

Phases PhasesOf(absl::Span<const int> word, int overhead) {
  return PhaseSearch(overhead).Of({word.begin(), word.end()}).phases;
}

int64_t SizeOf(const Phases& phases, int overhead) {
  int64_t size = 0;
  for (const Phase& phase : phases) {
    size += phase.sign >= 0 ? 1 : overhead + SizeOf(phase.body, overhead);
  }
  return size;
}

std::vector<int> WordOf(const Phase& phase) {
  std::vector<int> word;
  AppendWord(phase, &word);
  return word;
}

}  // namespace stringline::search
