// The decision of the processes of a run about how it goes on with others than before, as each
// process is told it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "executor/engine/held_version.h"

namespace stringline {

// A process of the run, and the address at which it listens until its end.
struct HealMember {
  std::string name;
  std::string host;
  int port = 0;
};

struct HealedPlace {
  int process = -1;             // in the run as it goes on; -1: this process leaves
  int data = 0;                 // copies of the pipeline from now on
  int times = 0;                // that the run has changed its processes
  std::string nonce;            // of the run from now on
  std::pair<int, int64_t> age;  // the version of the state from which it goes on (HeldVersion)
  std::string told;  // "process 1 with ranks 2, 3 on gpu1 was lost: copies 0, 2 of 4 go on …"
  std::vector<HealMember> members;  // the processes from now on; the first is process 0
  // By numbers before: the process that takes the shares of this one, -1 for none; and those whose
  // shares this one takes.
  int gives_to = -1;
  std::vector<int> takes_from;
};

std::string Pack(const HealedPlace& place);
std::optional<HealedPlace> ReadHealedPlace(absl::string_view bytes);

// The versions that a process holds, as one text.
std::string Print(const std::vector<HeldVersion>& versions);
std::vector<HeldVersion> ReadHeldVersions(absl::string_view text);

}  // namespace stringline
