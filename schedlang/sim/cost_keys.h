// Every key that a cost file or --cost may hold: what it means, in which unit, and whether a stage
// may have its own value. The one table; parser, messages and documents read it.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "schedlang/values.h"

namespace stringline {

enum class CostUnit : uint8_t {
  kTime,       // nanoseconds; written in microseconds, or with ns, us, ms, s
  kBytes,      // bytes; or with kB, MB, GB, KiB, MiB, GiB
  kBandwidth,  // bytes a second; written as 25GB/s
  kShare,      // millionths; written as 5% or 0.05
  kCount,      // a whole number
};

struct CostKey {
  const char* name;
  CostUnit unit;
  bool per_stage;  // a list gives one value a stage
  const char* meaning;
};

absl::Span<const CostKey> CostKeys();

// The key that says how many bytes of it a stage has: "memory.weights", "message".
const char* KeyOf(MemoryClass memory_class);

// Whether what a model costs is the sum of what its stages do: so of computation, collectives and
// memory; not of messages, not of parts, which are a layer's, and not of what a stage is.
bool IsSharedByStages(const CostKey& key);

// Null when there is none of that name.
const CostKey* FindCostKey(absl::string_view name);

// "1.5ms", "16MiB", "25GB/s", "5%", "8": an integer in the unit. Errors: InvalidArgument that
// quotes the text.
absl::StatusOr<int64_t> ParseInUnit(CostUnit unit, absl::string_view text);

// The same in the key's unit. Errors begin with the key.
absl::StatusOr<int64_t> ParseCost(const CostKey& key, absl::string_view text);

}  // namespace stringline
