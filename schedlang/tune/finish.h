// The end of a plan for a cluster: better orders for the best few choices, the parts of their
// steps, and with a jitter the choices that are best then.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "schedlang/tune/plan_cache.h"
#include "schedlang/tune/tune.h"

namespace stringline::tune {

// `start_ns`: when the request's seconds began (clock.h). Errors: costs that a choice cannot have.
absl::Status Finish(const TuneRequest& request, int64_t start_ns, PlanCache* cache,
                    TunedChoices* answer);

}  // namespace stringline::tune
