// What would be if the copies of a step's pipeline shared out something else, reduced in other
// buckets, or gathered earlier: the same schedule, lowered, checked and simulated anew.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/session.h"

namespace stringline {

struct CopiesWhatIf {
  std::string name;
  int64_t makespan_ns = 0;
  int64_t after_ns = 0;    // to gather what the optimizer has stepped (AfterStepNs)
  int64_t peak_bytes = 0;  // the most that a rank holds; 0: not known
};

// Where the costs are a formula's every other `sharding`, buckets of four times the size, and links
// of twice the bandwidth for messages and collectives alike; gathers one stage earlier, where a
// rank has so many. Only what changes the times, or the bytes. Nothing
// for a step without copies, or whose plan was lowered already.
absl::StatusOr<std::vector<CopiesWhatIf>> WhatIfCopies(const Session& step);

}  // namespace stringline
