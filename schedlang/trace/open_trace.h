// Trace files where people have them: named one by one or as a folder, as they are or gzipped.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schedlang/trace/rank_trace.h"

namespace stringline {

// Whether a file is called as a trace is: its name ends in .json or .json.gz.
bool IsTraceName(absl::string_view path);

// The files, and in the place of a folder the traces in it, by name. Errors: NotFound for what is
// not there; InvalidArgument for a folder without one.
absl::StatusOr<std::vector<std::string>> TraceFilesOf(const std::vector<std::string>& paths);

// ReadRankTrace of a file, unpacked on the way. Errors, too: a file that cannot be opened.
absl::StatusOr<RankTrace> OpenRankTrace(const std::string& file);

}  // namespace stringline
