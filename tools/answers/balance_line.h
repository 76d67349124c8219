// The cost of unequal microbatches, and the order of them that would help, in words and in JSON.
#pragma once

#include <cstdint>
#include <ostream>

#include "absl/strings/string_view.h"
#include "schedlang/report/balance.h"
#include "tools/io/json.h"

namespace stringline {

// "equal microbatches would take 412 us, 8.30 % less", and the better of the two sorted orders if
// it is shorter than the given order, which takes `makespan_ns`.
void PrintBalance(const MicrobatchBalance& balance, int64_t makespan_ns, absl::string_view indent,
                  std::ostream& out);

void AddBalance(const MicrobatchBalance& balance, Json* json);

}  // namespace stringline
