// The ranks of each process: blocks of ranks one behind the other, as even as possible.
#pragma once

#include <string>
#include <vector>

namespace stringline {

std::vector<int> RanksOf(int process, int ranks, int processes);
int ProcessOf(int rank, int ranks, int processes);
// "rank 3 on gpu1"; "process 1 with ranks 2, 3 on gpu1".
std::string NameOfBlock(int process, const std::string& host, int ranks, int processes);

}  // namespace stringline
