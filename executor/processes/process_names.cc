#include "executor/processes/process_names.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace stringline {

ProcessNames::ProcessNames(const World& world)
    : own_(world.process()), processes_(world.processes()), process_of_rank_(world.ranks(), -1) {
  for (const int rank : world.local()) process_of_rank_[rank] = own_;
}

void ProcessNames::Add(int process, std::string host, const std::vector<int>& ranks) {
  if (process < static_cast<int>(hosts_.size()) && !hosts_[process].empty()) return;
  hosts_.resize(std::max(hosts_.size(), static_cast<size_t>(process) + 1));
  hosts_[process] = std::move(host);
  for (const int rank : ranks) process_of_rank_[rank] = process;
}

std::vector<int> ProcessNames::RanksOf(int process) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < this->ranks(); ++rank) {
    if (process_of_rank_[rank] == process) ranks.push_back(rank);
  }
  return ranks;
}

std::string ProcessNames::NameOf(int process) const {
  const std::vector<int> ranks = RanksOf(process);
  if (ranks.size() == 1) return NameOfRank(ranks[0]);
  return absl::StrCat("process ", process, " with ranks ", absl::StrJoin(ranks, ", "),
                      process < static_cast<int>(hosts_.size()) ? " on " + hosts_[process] : "");
}

std::string ProcessNames::NameOfRank(int rank) const {
  const int process = process_of_rank_[rank];
  return absl::StrCat("rank ", rank,
                      process < static_cast<int>(hosts_.size()) ? " on " + hosts_[process] : "");
}

}  // namespace stringline
