// The allowed places of statements, and their number. Each function adds a finding and returns
// false for a violation.
#pragma once

#include <initializer_list>
#include <optional>

#include "absl/strings/string_view.h"
#include "schedlang/base/diagnostics.h"
#include "schedlang/elaborate/program.h"

namespace stringline {

inline constexpr absl::string_view kInSchedule = "directly in a schedule";
inline constexpr absl::string_view kInRank = "directly in a rank block";
inline constexpr absl::string_view kWithinRank = "in a rank block";

// Adds a finding that the statement `what` belongs `where`, unless it is `allowed`.
bool StandsOrFind(bool allowed, Span span, absl::string_view what, absl::string_view where,
                  Diagnostics* diagnostics);

// Once per schedule: `first` keeps the span of the first statement.
bool OnceOrFind(std::optional<Span>* first, Span span, absl::string_view what,
                Diagnostics* diagnostics);

// The word before a rank's block: timetable, greedy, search.
RankMode ModeOf(absl::string_view word);

// The statement `what` belongs in rank blocks of these kinds; the current block is of `mode`.
bool InModeOrFind(std::initializer_list<RankMode> modes, RankMode mode, Span span,
                  absl::string_view what, Diagnostics* diagnostics);

}  // namespace stringline
