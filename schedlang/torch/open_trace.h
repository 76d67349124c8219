// Trace files as people keep them: named singly or as a folder, plain or gzipped.
#pragma once

#include <functional>
#include <istream>
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

// Reads the bytes of a file, unpacked if gzipped. A broken file ends early. Errors: those of
// `read`; a file that cannot be opened; InvalidArgument for one that unpacks to far more than
// traces do.
absl::Status ReadUnpacked(const std::string& file,
                          const std::function<absl::Status(std::istream& text)>& read);

// ReadRankTrace of a file, unpacked on the way. Further errors: those of ReadUnpacked.
absl::StatusOr<RankTrace> OpenRankTrace(const std::string& file);

}  // namespace stringline
