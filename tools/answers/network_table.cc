#include "tools/answers/network_table.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/view/words.h"

namespace stringline {
namespace {

constexpr int kHiddenBar = 20;
constexpr int kExposedBar = 30;

void PrintNetworkLine(const std::string& name, const NetworkTime& time, std::ostream& out) {
  out << absl::StreamFormat("  %4s %13s %13s %13s %13s  %s %5.1f %%\n", name,
                            PrintTime(time.network_ns), PrintTime(time.waiting_ns),
                            PrintTime(time.transfer_ns()), PrintTime(time.hidden_ns),
                            PrintBar(time.hidden_share(), kHiddenBar), 100 * time.hidden_share());
}

void PrintSaved(const NetworkTime& all, std::ostream& out) {
  if (all.groups == 0) return;
  const std::string word = all.groups == all.pairs ? "pair" : "group";
  out << absl::StreamFormat("  %d %s%s %s %s beside their parts in a row\n", all.groups, word,
                            all.groups == 1 ? "" : "s", all.saved_ns < 0 ? "lost" : "saved",
                            PrintTime(all.saved_ns < 0 ? -all.saved_ns : all.saved_ns));
}

void AddNetworkOf(const NetworkTime& time, Json* json) {
  (*json)["network_us"] = Microseconds(time.network_ns);
  (*json)["waiting_us"] = Microseconds(time.waiting_ns);
  (*json)["hidden_us"] = Microseconds(time.hidden_ns);
  (*json)["saved_us"] = Microseconds(time.saved_ns);
  (*json)["exposed_us"] = Microseconds(time.exposed_ns);
  Json still = Json::object();
  for (const auto& [name, ns] : time.still) still[name] = Microseconds(ns);
  (*json)["still_us"] = std::move(still);
  Json ready = Json::object();
  for (const auto& [name, ns] : time.ready) ready[name] = Microseconds(ns);
  (*json)["ready_us"] = std::move(ready);
}

}  // namespace

void PrintNetwork(const NetworkTimes& times, std::ostream& out) {
  out << absl::StreamFormat("\n  rank %13s %13s %13s %13s  of the transfer\n", "network", "waiting",
                            "transfer", "hidden");
  for (size_t r = 0; r < times.ranks.size(); ++r) {
    PrintNetworkLine(absl::StrCat(r), times.ranks[r], out);
  }
  PrintNetworkLine("all", times.all, out);
  PrintSaved(times.all, out);
  if (times.all.exposed_ns == 0) return;
  out << "\n  exposed, " << PrintTime(times.all.exposed_ns) << ", and meanwhile waits  all ranks\n";
  for (const auto& [name, ns] : times.all.still) {
    const double share = static_cast<double>(ns) / static_cast<double>(times.all.exposed_ns);
    out << absl::StreamFormat("  %-12s %13s  %s %5.1f %%\n", name, PrintTime(ns),
                              PrintBar(share, kExposedBar), 100 * share);
  }
  if (times.all.ready.empty()) return;
  out << "  the next group could have hidden of it:";
  const char* separator = " ";
  for (const auto& [name, ns] : times.all.ready) {
    out << separator << PrintTime(ns) << " under " << name;
    separator = ", ";
  }
  out << "\n";
}

void AddNetwork(const NetworkTimes& times, Json* report) {
  AddNetworkOf(times.all, report);
  for (size_t r = 0; r < times.ranks.size(); ++r) {
    AddNetworkOf(times.ranks[r], &(*report)["ranks"][r]);
  }
}

}  // namespace stringline
