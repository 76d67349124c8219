// Time turned round: the end of a step is filled by the rules for its start.
//
// A rule decides with what it knows so far, so its orders begin well and end badly. Backwards in
// time a step is a step, too: what was the last B of a pipe's first stage comes first, B takes
// memory and F gives it back. A rule for the mirrored problem makes orders that end well; and
// orders that begin like one and end like another one have both.
#pragma once

#include <cstdint>

#include "schedlang/search/problem.h"

namespace stringline::search {

// The problem backwards in time. Its F stands for the letters of `back` (B or I), and its B for F;
// it has no I and W. A W beside I takes no time there, and its memory is freed with its I's.
Problem Mirrored(const Problem& problem, ActionKind back);

// Orders of the mirrored problem as orders of F and `back`, without W.
Words Reversed(Words words, ActionKind back);

// The groups that begin before `time` in `begin`, whose times these are; then all that is left, in
// the order of `end`. Both have the same letters, and no pairs. The result may wait for ever, or
// exceed a capacity.
Words Spliced(const Words& begin, const Times& times, const Words& end, int64_t time);

}  // namespace stringline::search
