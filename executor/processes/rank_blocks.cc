#include "executor/processes/rank_blocks.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace stringline {
namespace {

int FirstRankOf(int process, int ranks, int processes) {
  return static_cast<int>(int64_t{process} * ranks / processes);
}

}  // namespace

std::vector<int> RanksOf(int process, int ranks, int processes) {
  std::vector<int> of;
  const int end = FirstRankOf(process + 1, ranks, processes);
  for (int rank = FirstRankOf(process, ranks, processes); rank < end; ++rank) of.push_back(rank);
  return of;
}

int ProcessOf(int rank, int ranks, int processes) {
  int process = 0;
  while (FirstRankOf(process + 1, ranks, processes) <= rank) ++process;
  return process;
}

std::string NameOfBlock(int process, const std::string& host, int ranks, int processes) {
  const std::vector<int> block = RanksOf(process, ranks, processes);
  if (block.size() == 1) return absl::StrCat("rank ", block[0], " on ", host);
  return absl::StrCat("process ", process, " with ranks ", absl::StrJoin(block, ", "), " on ",
                      host);
}

}  // namespace stringline
