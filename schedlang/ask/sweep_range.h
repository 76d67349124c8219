// The plans of `check --for P=2..64 --for M=P..4*P`: values of parameters in turn, each of which
// may use those before.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "schedlang/plan/plan.h"

namespace stringline {

// An option `--for NAME=ITEM,…`. An item is FIRST..LAST, FIRST..LAST..STEP or a single value, each
// written as an expression of the language.
struct SweepRange {
  struct Item {
    std::string first;
    std::string last;  // as first, for a single value
    std::string step;  // "1" if none is written
  };
  std::string name;
  std::string text;  // behind the '='
  std::vector<Item> items;
};

// Errors: InvalidArgument naming the unreadable part.
absl::StatusOr<SweepRange> ParseSweepRange(const std::string& text);

// Every combination, in the order of the ranges: the last range runs fastest.
struct SweepPoints {
  std::vector<std::string> names;
  std::vector<int64_t> values;  // names.size() for each point

  size_t size() const { return values.size() / names.size(); }
  absl::Span<const int64_t> at(size_t point) const {
    return absl::MakeConstSpan(values).subspan(point * names.size(), names.size());
  }
};

// More points than this are refused.
inline constexpr size_t kMostSweepPoints = 10'000'000;

// `fixed`: parameters with given values; ranges may use them. Errors: InvalidArgument for unknown
// names, for bounds without a value, for too many points or none.
absl::StatusOr<SweepPoints> Enumerate(const std::vector<SweepRange>& ranges,
                                      const std::vector<Parameter>& fixed);

// The value of an expression over these parameters. Errors: InvalidArgument, without a field.
absl::StatusOr<int64_t> ValueWith(const std::string& expression,
                                  const std::vector<Parameter>& parameters);

}  // namespace stringline
