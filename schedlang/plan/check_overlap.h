// Checks that the order of parts in an `overlap` block can run.
#pragma once

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "schedlang/base/diagnostics.h"
#include "schedlang/plan/plan.h"

namespace stringline {

// The index of an action of a group of `members`, written from 1; `members` for a wrong number.
int PlaceOfMember(absl::string_view written, size_t members);

// Sets the places of parts that are not given, where a single action of the group has their letter.
void FindPlaces(Overlap* overlap);

// Adds a finding and returns false if the block names only a single action; if a part is unknown,
// not of the group, of several actions alike, on the wrong lane, repeated or missing; if
// gradients are out of the order of the actions; if the two lanes would wait for each other
// forever; or if another block of `others` covers the same actions. After FindPlaces.
bool CheckOverlap(const Overlap& overlap, absl::Span<const Overlap> others,
                  Diagnostics* diagnostics);

}  // namespace stringline
