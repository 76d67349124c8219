// Limits on the bytes of ranks: a number for all of them, or an own number for some.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace stringline {

struct MemoryLimit {
  static constexpr int kMostRanks = 1 << 20;  // that can have a limit of their own

  int64_t all = -1;            // for ranks without a limit of their own; -1: no limit
  std::vector<int64_t> ranks;  // by rank, possibly fewer than ranks: its own limit; -1: none
  bool is_of_each = false;     // `ranks` should have an entry for every rank

  MemoryLimit(int64_t bytes = -1) : all(bytes) {}  // NOLINT: a number is a limit for all

  int64_t of(int rank) const {
    const auto r = static_cast<size_t>(rank);
    return r < ranks.size() && ranks[r] >= 0 ? ranks[r] : all;
  }
  // True if any rank has a limit.
  bool is_given() const {
    return all >= 0 ||
           std::any_of(ranks.begin(), ranks.end(), [](int64_t own) { return own >= 0; });
  }
};

// "80GiB", "80GiB,80GiB,40GiB" by rank, or "0:80GiB,3:40GiB". Errors name the field.
absl::StatusOr<MemoryLimit> ParseMemoryLimit(const std::string& text,
                                             const std::string& field = "memory");

}  // namespace stringline
