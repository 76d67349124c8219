// Proves a plan before it runs, or reports its faults and their places.
#pragma once

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "schedlang/base/diagnostics.h"
#include "schedlang/check/live_memory.h"
#include "schedlang/memory/memory_limit.h"
#include "schedlang/plan/communicators.h"
#include "schedlang/plan/plan.h"

namespace stringline {

// The conditions of a check.
struct CheckOptions {
  CommLayout layout = CommLayout::kEdge;
  int buffers = 0;       // most messages of a channel sent and not received; 0: rendezvous
  bool lazy = false;     // communicators connect at their first call, and block the host meanwhile
  int activations = -1;  // most stage activations a rank may hold; -1: any number
  MemoryLimit memory;    // most bytes a rank may hold
  MemoryLimit host;      // most bytes of copies a rank may hold on its host
  bool sharded = false;  // every stage begins with its parameters shared out, until an UNSHARD
  std::vector<StageSizes> sizes;  // by stage; needed for `memory` and `host`
};

// A property that must hold. `find` adds its findings. The rules run in the order of the table, and
// a later rule may rely on the earlier ones: after the first rule with findings no other runs.
struct Rule {
  const char* name;
  const char* says;
  Code code;
  void (*find)(const Plan& lowered, const CheckOptions& options, Diagnostics* diagnostics);
};
absl::Span<const Rule> Rules();
// True if the options ask for the rule: `memory` needs a limit, `connection` --lazy.
bool Applies(const Rule& rule, const CheckOptions& options);

// Checks a lowered plan by every rule that applies. True if there are no findings. The model of
// ranks, streams and messages is in replay.h.
bool Check(const Plan& lowered, const CheckOptions& options, Diagnostics* diagnostics);
inline bool Check(const Plan& lowered, Diagnostics* diagnostics) {
  return Check(lowered, CheckOptions{}, diagnostics);
}

}  // namespace stringline
