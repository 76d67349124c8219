// From files of torch's profiler to a timeline, with the figures that Holistic Trace Analysis gives
// for them: the answer of `import`.
#pragma once

#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/trace/import_step.h"
#include "tools/json.h"

namespace stringline {

// Whether `import` takes it for a trace: a folder, or a file with the name of one.
bool IsTrace(const std::string& path);

// Files, one a rank, or folders of them, read on all cores. `watch` is called before each, from any
// thread; false ends it with Cancelled. `step`: of the profiler; by default the last whole one.
// Errors: those of TraceFilesOf, OpenRankTrace and ImportStep, of the first file that has one.
absl::StatusOr<ImportedStep> ImportTraces(
    const std::vector<std::string>& paths, std::optional<int> step,
    const std::function<bool()>& watch = [] { return true; });

void PrintImport(const ImportedStep& imported, std::ostream& out);
Json ImportAsJson(const ImportedStep& imported);

}  // namespace stringline
