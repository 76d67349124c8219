#include "tools/open_source.h"

#include <iostream>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schedlang/base/diagnostics.h"
#include "tools/output_paths.h"
#include "tools/schedule_library.h"

namespace stringline {
namespace {

absl::StatusOr<Source> ReadInput() {
  std::string text(std::istreambuf_iterator<char>(std::cin), {});
  if (text.empty()) {
    return absl::InvalidArgumentError("standard input is empty, or was read already");
  }
  return TextOf("<stdin>", std::move(text));
}

// No path and no ending: "zb_v", not "zb_v.sched" or "./zb_v".
bool IsBareName(const std::string& file) {
  return file.find('/') == std::string::npos && file.find('.') == std::string::npos;
}

}  // namespace

absl::StatusOr<Source> OpenSource(const std::string& file) {
  if (file == kStandardStream) return ReadInput();
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
