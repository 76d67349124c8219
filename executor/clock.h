// The clock. No other file of the executor reads it.
#pragma once

#include <cstdint>

namespace stringline {

// Nanoseconds since some fixed moment; never goes back.
int64_t NowNs();

}  // namespace stringline
