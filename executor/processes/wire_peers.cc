#include "executor/processes/wire_peers.h"

#include <algorithm>
#include <set>
#include <string>

namespace stringline {

void WirePeers::NoteGroup(absl::Span<const int> ranks, absl::Span<const MemberPair> talks) {
  for (const auto& [from, to] : talks) {
    if (names_->IsHere(ranks[from])) meets_[ranks[to]] = true;
    if (names_->IsHere(ranks[to])) meets_[ranks[from]] = true;
  }
  const auto here = [this](int rank) { return names_->IsHere(rank); };
  if (!talks.empty() || std::none_of(ranks.begin(), ranks.end(), here)) return;
  for (const int rank : ranks) meets_[rank] = true;
}

std::vector<bool> WirePeers::All() const {
  const std::vector<int> deciders = DecidersOf(*names_);
  const bool decides = std::find(deciders.begin(), deciders.end(), names_->own()) != deciders.end();
  std::vector<bool> all(names_->processes(), decides);
  for (const int process : deciders) all[process] = true;
  for (int rank = 0; rank < names_->ranks(); ++rank) {
    if (meets_[rank]) all[names_->ProcessOf(rank)] = true;
  }
  all[names_->own()] = false;
  return all;
}

std::vector<int> DecidersOf(const ProcessNames& names) {
  std::vector<int> deciders;
  std::set<std::string> hosts;
  for (const bool others : {true, false}) {  // of other hosts than those before, then any
    for (int p = 0; p < names.processes() && deciders.size() < kMostDeciders; ++p) {
      if (others && !hosts.insert(names.HostOf(p)).second) continue;
      if (std::find(deciders.begin(), deciders.end(), p) == deciders.end()) deciders.push_back(p);
    }
  }
  return deciders;
}

}  // namespace stringline
