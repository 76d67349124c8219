#include "tools/open_source.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schedlang/base/diagnostics.h"
#include "tools/schedule_library.h"

namespace stringline {
namespace {

// No path and no ending: "zb_v", not "zb_v.sched" or "./zb_v".
bool IsBareName(const std::string& file) {
  return file.find('/') == std::string::npos && file.find('.') == std::string::npos;
}

}  // namespace

absl::StatusOr<Source> OpenSource(const std::string& file) {
  absl::StatusOr<Source> source = ReadSource(file);
  if (source.ok() || !absl::IsNotFound(source.status()) || !IsBareName(file)) return source;
  std::vector<std::string> names;
  for (const LibrarySchedule& schedule : ScheduleLibrary()) {
    if (file == schedule.name) return Source(file, schedule.text);
    names.emplace_back(schedule.name);
  }
  const std::string close = ClosestName(file, names);
  return absl::NotFoundError(
      absl::StrCat(source.status().message(), ", and no schedule of the library",
                   close.empty() ? absl::StrCat(" (", absl::StrJoin(names, ", "), ")")
                                 : absl::StrCat("; did you mean '", close, "'?")));
}

}  // namespace stringline
