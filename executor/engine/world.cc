#include "executor/engine/world.h"

#include "executor/engine/packed_numbers.h"
#include "schedlang/base/status.h"

namespace stringline {

absl::Status World::Sum(absl::Span<uint64_t> numbers) {
  PackedNumbers mine;
  mine.AddAll<uint64_t>(numbers);
  SL_ASSIGN_OR_RETURN(const std::vector<std::string> all, Exchange(mine.bytes()));
  for (int p = 0; p < processes(); ++p) {
    if (p == process()) continue;
    NumberReader theirs(all[p]);
    for (uint64_t& number : numbers) number += theirs.Take<uint64_t>();
  }
  return absl::OkStatus();
}

}  // namespace stringline
