// The processes of a run by name: the ranks of each, and its host once the processes have told each
// other. Until then only this process's ranks are known.
#pragma once

#include <string>
#include <vector>

#include "executor/engine/world.h"

namespace stringline {

class ProcessNames {
 public:
  explicit ProcessNames(const World& world);
  // Nothing if that is known already.
  void Add(int process, std::string host, const std::vector<int>& ranks);

  int own() const { return own_; }
  int processes() const { return processes_; }
  int ranks() const { return static_cast<int>(process_of_rank_.size()); }
  // -1: not known yet.
  int ProcessOf(int rank) const { return process_of_rank_[rank]; }
  bool IsHere(int rank) const { return process_of_rank_[rank] == own_; }
  std::vector<int> RanksOf(int process) const;
  // "": not known yet.
  std::string HostOf(int process) const {
    return process < static_cast<int>(hosts_.size()) ? hosts_[process] : "";
  }
  // "rank 3 on gpu1".
  std::string NameOfRank(int rank) const;
  // "rank 3 on gpu1"; "process 1 with ranks 2, 3 on gpu1".
  std::string NameOf(int process) const;

 private:
  const int own_;
  const int processes_;
  std::vector<int> process_of_rank_;
  std::vector<std::string> hosts_;  // by process
};

}  // namespace stringline
