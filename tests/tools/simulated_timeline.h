// The timeline of a step simulated by the tool, and one by hand.
#pragma once

#include <string>

#include "schedlang/plan/timeline.h"

namespace stringline {

// "1f1b P=2 M=4 --cost F=1,B=2", in the scratch folder.
Timeline SimulatedTimeline(const std::string& words);

// 1F1B on two ranks, two microbatches: rank 0 has copies to the host from 1 to 4 us and copies from
// the host from 2.5 to 7.5 us, for which it waits from 2 to 5 us and from 7 to 7.5 us.
Timeline TimelineWithCopies();

}  // namespace stringline
