#include "schedlang/memory/memory_limit.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "schedlang/base/fields.h"
#include "schedlang/costs/cost_keys.h"

namespace stringline {

absl::StatusOr<MemoryLimit> ParseMemoryLimit(const std::string& text, const std::string& field) {
  const std::vector<std::string> words = absl::StrSplit(text, ',');
  MemoryLimit limit;
  for (size_t i = 0; i < words.size(); ++i) {
    const size_t colon = words[i].find(':');
    const bool names_rank = colon != std::string::npos;
    int rank = static_cast<int>(i);
    if (names_rank != (words[0].find(':') != std::string::npos) ||
        (names_rank && !absl::SimpleAtoi(words[i].substr(0, colon), &rank)) || rank < 0 ||
        rank >= MemoryLimit::kMostRanks) {
      return absl::InvalidArgumentError(
          absl::StrCat("`", field, "=", text,
                       "`: give one limit for all ranks, as 80GiB, one for each from rank 0 on, as "
                       "80GiB,40GiB, or those of some, as 0:80GiB,3:40GiB"));
    }
    const absl::StatusOr<int64_t> bytes =
        ParseWithUnit(CostUnit::kBytes, names_rank ? words[i].substr(colon + 1) : words[i]);
    if (!bytes.ok()) {
      return FieldError(field, bytes.status().message());
    }
    if (words.size() == 1 && !names_rank) return MemoryLimit(*bytes);
    limit.is_of_each = !names_rank;
    const auto size = std::max(limit.ranks.size(), static_cast<size_t>(rank) + 1);
    limit.ranks.resize(size, -1);
    limit.ranks[static_cast<size_t>(rank)] = *bytes;
  }
  return limit;
}

}  // namespace stringline
