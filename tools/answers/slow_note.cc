#include "tools/answers/slow_note.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace stringline {

std::string SlowNote(const StepCosts& costs) {
  std::vector<std::string> notes;
  for (const SlowRank& slow : costs.slow) {
    notes.push_back(absl::StrFormat("rank %d computes %g %% longer", slow.rank,
                                    static_cast<double>(slow.share) / 1e4));
  }
  for (const SlowLink& slow : costs.slow_links) {
    notes.push_back(absl::StrFormat("messages over %s take %g %% longer", Print(slow.link),
                                    static_cast<double>(slow.share) / 1e4));
  }
  return absl::StrJoin(notes, ", ");
}

void AddSlow(const StepCosts& costs, Json* json) {
  for (const SlowRank& slow : costs.slow) {
    (*json)["slow"][absl::StrCat(slow.rank)] = static_cast<double>(slow.share) / 1e6;
  }
  for (const SlowLink& slow : costs.slow_links) {
    (*json)["slow"][Print(slow.link)] = static_cast<double>(slow.share) / 1e6;
  }
}

}  // namespace stringline
