#include "schedlang/ask/open_source.h"

#include <filesystem>
#include <iostream>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "schedlang/ask/schedule_library.h"
#include "schedlang/base/diagnostics.h"

namespace stringline {
namespace {

// No path and no ending: "zb_v", not "zb_v.sched" or "./zb_v".
bool IsBareName(const std::string& file) {
  return file.find('/') == std::string::npos && file.find('.') == std::string::npos;
}

const LibrarySchedule* FindInLibrary(const std::string& name) {
  for (const LibrarySchedule& schedule : ScheduleLibrary()) {
    if (name == schedule.name) return &schedule;
  }
  return nullptr;
}

// The library's schedule of this name, after `failure` to open such a file.
absl::StatusOr<Source> OpenInLibrary(const std::string& name, absl::string_view failure) {
  if (const LibrarySchedule* schedule = FindInLibrary(name)) return Source(name, schedule->text);
  std::vector<std::string> names;
  for (const LibrarySchedule& schedule : ScheduleLibrary()) names.emplace_back(schedule.name);
  const std::string close = ClosestName(name, names);
  return absl::NotFoundError(absl::StrCat(failure, ", and no schedule of the library",
                                          close.empty()
                                              ? absl::StrCat(" (", absl::StrJoin(names, ", "), ")")
                                              : absl::StrCat("; did you mean '", close, "'?")));
}

// True if OpenSource has taken `file` from the library.
bool IsOfLibrary(const std::string& file) {
  return IsBareName(file) && FindInLibrary(file) != nullptr && !std::filesystem::exists(file);
}

}  // namespace

absl::StatusOr<Source> OpenSource(const std::string& file) {
  absl::StatusOr<Source> source = ReadSource(file);
  if (source.ok() || !absl::IsNotFound(source.status()) || !IsBareName(file)) return source;
  return OpenInLibrary(file, source.status().message());
}

std::string ShownName(const Source& source, const std::string& schedule,
                      const std::string& name_in_text) {
  const LibrarySchedule* const known = FindInLibrary(source.path());
  const bool is_its_text = known != nullptr && source.text() == known->text;
  return schedule.empty() && is_its_text ? source.path() : name_in_text;
}

absl::StatusOr<Source> OpenOfLibrary(const std::string& name) {
  return OpenInLibrary(std::string(absl::StripSuffix(name, ".sched")), name);
}

absl::StatusOr<Source> OpenUsed(const std::string& name, const std::string& user,
                                const UnsavedText& unsaved) {
  if (name.empty()) return absl::InvalidArgumentError("the name of the file is empty");
  const std::string bare(absl::StripSuffix(name, ".sched"));
  if (IsOfLibrary(user)) {
    return OpenInLibrary(bare, absl::StrCat(name, ": is no file beside it"));
  }
  const std::string path = PathBeside(name, user);
  if (const std::string* text = unsaved ? unsaved(path) : nullptr) return TextOf(path, *text);
  absl::StatusOr<Source> source = ReadSource(path);
  if (source.ok() || !absl::IsNotFound(source.status())) return source;
  if (IsBareName(name)) return OpenInLibrary(name, source.status().message());
  if (!IsBareName(bare) || FindInLibrary(bare) == nullptr) return source;
  return absl::NotFoundError(absl::StrCat(source.status().message(), "; 'use \"", bare,
                                          "\";' is the library's schedule of that name"));
}

std::optional<ast::File> ParseWithUses(Source* source, Diagnostics* diagnostics) {
  const auto read = [](const std::string& name, const std::string& user) {
    return OpenUsed(name, user);
  };
  return ParseWithUses(source, read, diagnostics);
}

}  // namespace stringline
