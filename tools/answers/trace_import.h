// From files of torch's profiler to a timeline, with the figures of Holistic Trace Analysis: the
// answer of `import`.
#pragma once

#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/torch/import_step.h"
#include "tools/io/json.h"

namespace stringline {

// True if `import` takes the path for a trace: a folder, or a file with a trace's name.
bool IsTrace(const std::string& path);

// Files, one a rank, or folders of them, read on all cores. `watch` is called before each, from any
// thread; false ends the import with Cancelled. `step`: of the profiler; by default the last whole
// step. Errors: those of TraceFilesOf, OpenRankTrace and ImportStep, for the first file with an
// error.
absl::StatusOr<ImportedStep> ImportTraces(
    const std::vector<std::string>& paths, std::optional<int> step,
    const std::function<bool()>& watch = [] { return true; });

// The clocks that were moved, by how much, and how sure that is: lines, or "" if none was moved and
// each is known to be right.
std::string PrintClocks(const ImportedStep& imported);
void PrintImport(const ImportedStep& imported, std::ostream& out);
Json ImportAsJson(const ImportedStep& imported);

}  // namespace stringline
