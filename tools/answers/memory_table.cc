#include "tools/answers/memory_table.h"

#include "absl/strings/str_format.h"
#include "schedlang/base/bytes.h"
#include "tools/view/words.h"

namespace stringline {

void PrintOverfull(const std::vector<OverfullRank>& overfull, int64_t capacity, std::ostream& out) {
  if (overfull.empty()) return;
  out << absl::StreamFormat("\n  memory of a rank %13s\n", PrintBytes(capacity));
  for (const OverfullRank& rank : overfull) {
    out << absl::StreamFormat("  rank %d holds %s at %s, more than it can from %s on\n", rank.rank,
                              PrintBytes(rank.peak), PrintTime(rank.peak_ns),
                              PrintTime(rank.first_ns));
  }
}

void AddOverfull(const std::vector<OverfullRank>& overfull, int64_t capacity, Json* json) {
  if (capacity == 0) return;
  (*json)["memory_capacity"] = capacity;
  Json ranks = Json::array();
  for (const OverfullRank& rank : overfull) {
    ranks.push_back({{"rank", rank.rank},
                     {"peak", rank.peak},
                     {"at_us", Microseconds(rank.peak_ns)},
                     {"from_us", Microseconds(rank.first_ns)}});
  }
  (*json)["overfull"] = std::move(ranks);
}

}  // namespace stringline
