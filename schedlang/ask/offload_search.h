// A search that may also choose copies to the host, and R ahead of the gradients.
//
// The optimiser keeps its letters: in its problem an offloading stage holds less between F and B,
// and orders found so become plans (placed_work.h), of which the shortest that fits counts.
// Searches follow each other: without copies, with all of them, with any but no R, and one that
// climbs from the best of these, each stage in turn taking the choice that is best for it. So the
// result is no worse than any of them. Its bound holds for all choices: it is that of a relaxation
// which is as quick, and holds as little, as any of them at any moment.
#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "schedlang/ask/search_session.h"

namespace stringline {

// A search without copies or R.
using PlainSearch = std::function<absl::StatusOr<FoundSchedule>(const SearchRequest& request)>;

// Errors: those of the plain search; without a cost of copies, a message that says so.
absl::StatusOr<FoundSchedule> SearchWork(const SearchRequest& request, const WatchSearch& watch,
                                         const PlainSearch& plain);

}  // namespace stringline
