// The collectives between ranks that share out the experts, when the memory of all of them is at
// hand: what they mean, as plainly as it can be said. Whatever exchanges rows between processes or
// devices gives the same.
//
// Rank x sends the rows of its experts-sorted slots in as many pieces as there are ranks, piece y
// being the rows of rank y's experts. Rank y receives the pieces in the order of the ranks, its own
// among them; each is sorted by expert as it was sent.
#pragma once

#include "absl/types/span.h"
#include "executor/cpu/kernel.h"

namespace stringline::cpu {

// Runs `node`, a collective (IsCollective), for all members at once: in[x] and out[x] are the
// operands of rank x, as a kernel has them. Rows that nobody sends are not written, but for those
// of a combine, which are zeros.
void Exchange(const Node& node, absl::Span<const absl::Span<const Tensor>> in,
              absl::Span<const absl::Span<const Tensor>> out);

}  // namespace stringline::cpu
