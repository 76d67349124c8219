// The failure of a run in which a process was lost, as a mark on its status: the process died, a
// connection to it was severed, or it did not answer in time. The run itself did nothing wrong, so
// it may be started again; a process that gives up by itself, with a full disk, is not lost.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"

namespace stringline {

inline constexpr char kLostProcess[] = "stringline/lost_process";

inline absl::Status AsLost(absl::Status status) {
  if (!status.ok()) status.SetPayload(kLostProcess, absl::Cord());
  return status;
}

inline bool IsLost(const absl::Status& status) {
  return status.GetPayload(kLostProcess).has_value();
}

// The failure that another process tells: one of its own it would call absl::kAborted.
inline absl::Status AsTold(absl::Status status) {
  const bool lost = absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
  return lost ? AsLost(std::move(status)) : status;
}

// The same failure in other words.
inline absl::Status WithMessage(const absl::Status& status, absl::string_view message) {
  absl::Status other(status.code(), message);
  return IsLost(status) ? AsLost(std::move(other)) : other;
}

}  // namespace stringline
