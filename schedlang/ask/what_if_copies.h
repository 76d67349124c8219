// A step whose pipeline copies share out other state, reduce other buckets, or gather earlier: the
// same schedule, lowered, checked and simulated anew.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/ask/session.h"

namespace stringline {

struct CopiesWhatIf {
  std::string name;
  int64_t makespan_ns = 0;
  int64_t after_ns = 0;    // to gather the parameters that the optimizer updated (AfterStepNs)
  int64_t peak_bytes = 0;  // the most bytes of a rank; 0: not known
};

// For costs of a formula every other `sharding`, buckets of four times the size, and links of twice
// the bandwidth for messages and collectives alike; gathers a stage earlier, if a rank has several.
// Only changes of times or bytes are listed. Nothing for a step without copies, or whose plan was
// lowered already.
absl::StatusOr<std::vector<CopiesWhatIf>> WhatIfCopies(const Session& step);

}  // namespace stringline
