// A cost file with a model, on a machine that another file gives.
#pragma once

#include "absl/status/statusor.h"
#include "schedlang/base/source.h"
#include "schedlang/costs/costs.h"

namespace stringline {

// ReadCosts (costs.h) for a text with a model, but without `hardware`: `machine` is the hardware
// file.
absl::StatusOr<CostSpec> ReadCostsOn(const Source& source, const Source& machine);

}  // namespace stringline
