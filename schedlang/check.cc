#include "schedlang/check.h"

#include "schedlang/rules.h"

namespace stringline {

absl::Span<const Rule> Rules() {
  static constexpr Rule kRules[] = {
      {"complete", "every stage does every microbatch exactly once", Code::kIncomplete,
       FindIncomplete},
      {"dataflow", "nothing is used before its rank has it", Code::kDataflow, FindEarlyUse},
      {"matching", "the k-th send of a channel is its k-th receive", Code::kMatching, FindMismatch},
      {"progress", "no ranks wait for each other in a circle", Code::kProgress, FindCircle},
  };
  return kRules;
}

bool Check(const Plan& lowered, Diagnostics* diagnostics) {
  const size_t before = diagnostics->findings().size();
  for (const Rule& rule : Rules()) {
    rule.find(lowered, diagnostics);
    if (diagnostics->findings().size() != before) return false;
  }
  return true;
}

}  // namespace stringline
