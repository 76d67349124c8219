// The text of a status, the same on every host that runs the test.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "executor/processes/sockets.h"

namespace stringline {

// The message with "here" for the host's name, and without the mark of a lost process.
inline std::string StatusText(const absl::Status& status) {
  return absl::StrReplaceAll(status.ToString(absl::StatusToStringMode::kWithNoExtraData),
                             {{absl::StrCat(" on ", HostName()), " here"}});
}

}  // namespace stringline
