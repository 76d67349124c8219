#include "executor/engine/device.h"

#include "absl/strings/str_cat.h"

namespace stringline {

std::string Print(const LazyName& name) {
  return name.print == nullptr ? absl::StrCat("#", name.index) : name.print(name.self, name.index);
}

absl::Status DeadlockError(absl::string_view stuck) {
  return absl::AbortedError(absl::StrCat("deadlock: nothing can run any more, and ", stuck));
}

}  // namespace stringline
