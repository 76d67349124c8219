#include "tools/network_table.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/view/words.h"

namespace stringline {
namespace {

constexpr int kHiddenBar = 30;

double HiddenShare(const NetworkTime& time) {
  return time.network_ns == 0
             ? 0
             : static_cast<double>(time.hidden_ns()) / static_cast<double>(time.network_ns);
}

void PrintNetworkLine(const std::string& name, const NetworkTime& time, std::ostream& out) {
  out << absl::StreamFormat("  %4s %13s %13s %13s  %s %5.1f %%\n", name, PrintTime(time.network_ns),
                            PrintTime(time.hidden_ns()), PrintTime(time.exposed_ns),
                            PrintBar(HiddenShare(time), kHiddenBar), 100 * HiddenShare(time));
}

void AddNetworkOf(const NetworkTime& time, Json* json) {
  (*json)["network_us"] = Microseconds(time.network_ns);
  (*json)["exposed_us"] = Microseconds(time.exposed_ns);
  Json still = Json::object();
  for (const auto& [name, ns] : time.still) still[name] = Microseconds(ns);
  (*json)["still_us"] = std::move(still);
}

}  // namespace

void PrintNetwork(const NetworkTimes& times, std::ostream& out) {
  out << absl::StreamFormat("\n  rank %13s %13s %13s  hidden under computation\n", "all-to-alls",
                            "hidden", "exposed");
  for (size_t r = 0; r < times.ranks.size(); ++r) {
    PrintNetworkLine(absl::StrCat(r), times.ranks[r], out);
  }
  PrintNetworkLine("all", times.all, out);
  if (times.all.exposed_ns == 0) return;
  out << "\n  exposed, and meanwhile waits  all ranks\n";
  for (const auto& [name, ns] : times.all.still) {
    const double share = static_cast<double>(ns) / static_cast<double>(times.all.exposed_ns);
    out << absl::StreamFormat("  %-12s %13s  %s %5.1f %%\n", name, PrintTime(ns),
                              PrintBar(share, kHiddenBar), 100 * share);
  }
}

void AddNetwork(const NetworkTimes& times, Json* report) {
  AddNetworkOf(times.all, report);
  for (size_t r = 0; r < times.ranks.size(); ++r) {
    AddNetworkOf(times.ranks[r], &(*report)["ranks"][r]);
  }
}

}  // namespace stringline
