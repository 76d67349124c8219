// What a status says, on whatever host the test runs.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "executor/processes/sockets.h"

namespace stringline {

// The message without the host's name, which is "here".
inline std::string StatusText(const absl::Status& status) {
  return absl::StrReplaceAll(status.ToString(), {{absl::StrCat(" on ", HostName()), " here"}});
}

}  // namespace stringline
