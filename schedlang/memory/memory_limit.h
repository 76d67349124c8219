// How many bytes ranks may hold: a number for all of them, or for one and another their own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace stringline {

struct MemoryLimit {
  int64_t all = -1;            // of ranks that have none of their own; -1: any number
  std::vector<int64_t> ranks;  // by rank, as far as it goes: its own; -1: none
  bool is_of_each = false;     // `ranks` is meant to have one for every rank

  MemoryLimit(int64_t bytes = -1) : all(bytes) {}  // NOLINT: a number is a limit for all

  int64_t of(int rank) const {
    const auto r = static_cast<size_t>(rank);
    return r < ranks.size() && ranks[r] >= 0 ? ranks[r] : all;
  }
  // Whether any rank has one.
  bool is_given() const {
    return all >= 0 ||
           std::any_of(ranks.begin(), ranks.end(), [](int64_t own) { return own >= 0; });
  }
};

}  // namespace stringline
