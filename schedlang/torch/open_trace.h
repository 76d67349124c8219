// Trace files as people keep them: named singly or as a folder, plain or gzipped.
#pragma once

#include <istream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schedlang/torch/rank_trace.h"

namespace stringline {

// True if a file has the name of a trace: it ends in .json or .json.gz.
bool IsTraceName(absl::string_view path);

// The files; a folder stands for the traces in it, by name. Errors: NotFound for a missing path;
// InvalidArgument for a folder without traces.
absl::StatusOr<std::vector<std::string>> TraceFilesOf(const std::vector<std::string>& paths);

// The bytes of a file, unpacked if gzipped. A broken file ends early. Errors: a file that cannot be
// opened.
absl::StatusOr<std::unique_ptr<std::istream>> OpenUnpacked(const std::string& file);

// ReadRankTrace of a file, unpacked on the way. Further errors: those of OpenUnpacked.
absl::StatusOr<RankTrace> OpenRankTrace(const std::string& file);

}  // namespace stringline
