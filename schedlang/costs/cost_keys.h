// Every key that a cost file or --cost may hold: meaning, unit, and if stages may have values of
// their own. The only table of keys; parser, messages and documents read it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "schedlang/plan/stage_graph.h"
#include "schedlang/plan/values.h"

namespace stringline {

enum class CostUnit : uint8_t {
  kTime,       // nanoseconds; written in microseconds, or with ns, us, ms, s
  kBytes,      // bytes; or with kB, MB, GB, KiB, MiB, GiB
  kBandwidth,  // bytes a second; written as 25GB/s
  kShare,      // millionths; written as 5% or 0.05; 5 is refused
  kCount,      // a whole number
  kFactor,     // millionths; written as 1.3 or 130%
};

struct CostKey {
  const char* name;
  CostUnit unit;
  bool per_stage;  // a list gives one value a stage
  const char* meaning;
};

absl::Span<const CostKey> CostKeys();

// The key for a stage's bytes of this class: "memory.weights", "message".
const char* KeyOf(MemoryClass memory_class);

// True if a model's cost is the sum of its stages' costs: for computation, collectives and memory;
// not for messages, for parts (costs of a layer) and for properties of a stage.
bool IsSharedByStages(const CostKey& key);

// Null for an unknown name. A part may have the word for a dense layer (plan/parts.h): "F.mlp".
const CostKey* FindCostKey(absl::string_view name);
// True for the form of a key of a schedule's own: the time of an action of plan/rows.h, as `S`, the
// bytes of a value, as `memory.part`, or those of what moves over an edge, as `message.0>2`. A plan
// knows whether it has them.
bool IsOwnCostKey(absl::string_view name);
// "message.0>2", where stages are no chain.
std::string EdgeKey(const Edge& edge);

// "1.5ms", "16MiB", "25GB/s", "5%", "8": an integer in the unit. Errors: InvalidArgument with the
// quoted text.
absl::StatusOr<int64_t> ParseInUnit(CostUnit unit, absl::string_view text);

// The same where a plain number says too little, as in `timeout: 600`: every number but 0 needs its
// unit. Errors: also a number without a unit; the message proposes units.
absl::StatusOr<int64_t> ParseWithUnit(CostUnit unit, absl::string_view text);

// ParseInUnit in the key's unit. Errors begin with the key.
absl::StatusOr<int64_t> ParseCost(const CostKey& key, absl::string_view text);

}  // namespace stringline
