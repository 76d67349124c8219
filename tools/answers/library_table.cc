#include "tools/answers/library_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schedlang/ask/open_source.h"
#include "schedlang/ask/schedule_library.h"
#include "schedlang/base/sl_check.h"

namespace stringline {
namespace {

std::string TextAt(const Source& source, Span span) {
  return std::string(source.text().substr(span.begin, span.end - span.begin));
}

LibraryEntry EntryOf(const LibrarySchedule& known) {
  Source source(known.name, known.text);
  Diagnostics findings;
  const std::optional<ast::File> file = ParseWithUses(&source, &findings);
  SL_CHECK(file.has_value()) << known.name;
  const ast::Schedule& schedule = file->schedules.back();
  const absl::string_view first = source.Line(1);
  LibraryEntry entry{
      known.name, std::string(first.substr(first.find_first_not_of("# "))), schedule.name.text, {}};
  for (const ast::Option& option : schedule.parameters) {
    entry.parameters.push_back(
        {option.name.text, option.value ? TextAt(source, option.value->span) : ""});
  }
  return entry;
}

// "P M V=2"
std::string PrintParameters(const LibraryEntry& entry) {
  std::string text;
  for (const LibraryParameter& parameter : entry.parameters) {
    absl::StrAppend(&text, text.empty() ? "" : " ", parameter.name,
                    parameter.value.empty() ? "" : "=", parameter.value);
  }
  return text;
}

}  // namespace

std::vector<LibraryEntry> LibraryEntries() {
  std::vector<LibraryEntry> entries;
  for (const LibrarySchedule& known : ScheduleLibrary()) entries.push_back(EntryOf(known));
  return entries;
}

void PrintLibrary(std::ostream& out) {
  const std::vector<LibraryEntry> entries = LibraryEntries();
  size_t name = 0, parameters = 0;
  for (const LibraryEntry& entry : entries) {
    name = std::max(name, entry.name.size());
    parameters = std::max(parameters, PrintParameters(entry).size());
  }
  for (const LibraryEntry& entry : entries) {
    out << absl::StreamFormat("%-*s  %-*s  %s\n", static_cast<int>(name), entry.name,
                              static_cast<int>(parameters), PrintParameters(entry), entry.summary);
  }
  out << "\nA name stands for its file wherever a schedule is read: stringline show "
      << entries.front().name << " P=4 M=8\n";
}

Json LibraryAsJson() {
  Json schedules = Json::array();
  for (const LibraryEntry& entry : LibraryEntries()) {
    Json parameters = Json::array();
    for (const LibraryParameter& parameter : entry.parameters) {
      parameters.push_back(
          {{"name", parameter.name},
           {"default", parameter.value.empty() ? Json(nullptr) : Json(parameter.value)}});
    }
    schedules.push_back({{"name", entry.name},
                         {"summary", entry.summary},
                         {"schedule", entry.schedule},
                         {"parameters", std::move(parameters)}});
  }
  return {{"ok", true}, {"schedules", std::move(schedules)}};
}

}  // namespace stringline
