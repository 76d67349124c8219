#include "tools/answers/balance_line.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/view/words.h"

namespace stringline {
namespace {

// "8.30 % less", "0.50 % more", "as long".
std::string PrintDifference(int64_t ns, int64_t from_ns) {
  if (ns == from_ns) return "as long";
  const double share = static_cast<double>(ns - from_ns) / static_cast<double>(from_ns);
  return absl::StrFormat("%.2f %% %s", 100 * std::abs(share), share < 0 ? "less" : "more");
}

}  // namespace

void PrintBalance(const MicrobatchBalance& balance, int64_t makespan_ns, absl::string_view indent,
                  std::ostream& out) {
  out << absl::StreamFormat("%sequal microbatches would take %s, %s\n", indent,
                            PrintTime(balance.equal_ns),
                            PrintDifference(balance.equal_ns, makespan_ns));
  const bool longest = balance.longest_first_ns <= balance.shortest_first_ns;
  const int64_t sorted_ns = std::min(balance.longest_first_ns, balance.shortest_first_ns);
  if (sorted_ns >= makespan_ns) return;
  const double saved = static_cast<double>(makespan_ns - sorted_ns);
  out << absl::StreamFormat("%ssorting (%s first) would save %.2f %%\n", indent,
                            longest ? "longest" : "shortest",
                            100 * saved / static_cast<double>(makespan_ns));
}

void AddBalance(const MicrobatchBalance& balance, Json* json) {
  (*json)["balance_us"] = {{"equal", Microseconds(balance.equal_ns)},
                           {"longest_first", Microseconds(balance.longest_first_ns)},
                           {"shortest_first", Microseconds(balance.shortest_first_ns)}};
}

}  // namespace stringline
