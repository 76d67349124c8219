// The part of a step in a picture: some of its ranks, a stretch of its time, some of its
// microbatches. Figures beside the picture remain those of the whole step.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "schedlang/plan/timeline.h"

namespace stringline {

struct ShownPart {
  static constexpr int64_t kToTheEnd = -1;
  int64_t first_rank = 0;
  int64_t last_rank = kToTheEnd;
  int64_t from_ns = 0;
  int64_t to_ns = kToTheEnd;
  int64_t first_microbatch = 0;  // counted through the whole step
  int64_t last_microbatch = kToTheEnd;

  bool IsWhole() const { return !CutsRanks() && !CutsTime() && !CutsMicrobatches(); }
  bool CutsRanks() const { return first_rank > 0 || last_rank != kToTheEnd; }
  bool CutsTime() const { return from_ns > 0 || to_ns != kToTheEnd; }
  bool CutsMicrobatches() const { return first_microbatch > 0 || last_microbatch != kToTheEnd; }

  bool ShowsRank(int64_t rank) const;
  bool ShowsMicrobatch(int64_t microbatch) const;
  // The length of the shown time in a step that ends at `step_ns`.
  int64_t LengthIn(int64_t step_ns) const;
};

// From "0..15" or "3", "0..200ms" (a number without a unit takes the other's unit, or else
// microseconds), "0..7"; "" shows all. Errors: those of FieldError.
absl::StatusOr<ShownPart> ParseShownPart(const std::string& ranks, const std::string& time,
                                         const std::string& microbatches);

// Error: a rank or a microbatch that the timeline lacks, or a time behind its end.
absl::Status CheckShownPart(const ShownPart& part, const Timeline& timeline);

// The rows first .. last (of ranks, or of lanes), renumbered from 0, and their events in the part's
// time, whose beginning becomes time 0.
Timeline Crop(const Timeline& timeline, int first, int last, const ShownPart& part);

// "shown: ranks 0 to 15, 0 to 200 ms, microbatches 0 to 7 of the step"; "" of all.
std::string WordsOf(const ShownPart& part, const Timeline& timeline);

}  // namespace stringline
