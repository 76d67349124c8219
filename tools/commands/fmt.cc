// stringline fmt: lays out schedule files.
#include <filesystem>
#include <iostream>
#include <iterator>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "schedlang/base/status.h"
#include "schedlang/base/write_file.h"
#include "schedlang/text/format.h"
#include "tools/commands/command.h"
#include "tools/io/json.h"

namespace stringline {
namespace {

namespace fs = std::filesystem;

// A file and its formatted text; no text if the file has findings.
struct FormattedFile {
  Source source;
  std::optional<std::string> text;
  Diagnostics diagnostics;
  bool changed = false;
};

absl::StatusOr<std::vector<FormattedFile>> FormatAll(const std::vector<std::string>& paths) {
  std::vector<FormattedFile> files;
  for (const std::string& path : paths) {
    SL_ASSIGN_OR_RETURN(Source source, ReadSource(path));
    FormattedFile file{std::move(source), std::nullopt, {}};
    file.text = Format(file.source, &file.diagnostics);
    file.changed = file.text && *file.text != file.source.text();
    files.push_back(std::move(file));
  }
  return files;
}

// The number of differing lines, and the first of them before and after.
void PrintDifference(const FormattedFile& file, std::ostream& out) {
  const std::vector<absl::string_view> before = absl::StrSplit(file.source.text(), '\n');
  const std::vector<absl::string_view> after = absl::StrSplit(*file.text, '\n');
  size_t same = 0;
  while (same < std::min(before.size(), after.size()) && before[same] == after[same]) ++same;
  size_t tail = 0;
  while (tail < std::min(before.size(), after.size()) - same &&
         before[before.size() - 1 - tail] == after[after.size() - 1 - tail]) {
    ++tail;
  }
  const size_t lines = std::max<size_t>(1, before.size() - same - tail);
  out << file.source.path() << ":" << same + 1 << ": " << lines << (lines == 1 ? " line" : " lines")
      << " would change, from here\n";
  if (same < before.size() - tail) out << "-" << before[same] << "\n";
  if (same < after.size() - tail) out << "+" << after[same] << "\n";
}

// Puts the text in the file's place; a link stays a link, and permissions stay.
absl::Status Replace(const std::string& path, const std::string& text) {
  std::error_code error;
  fs::path target = fs::canonical(path, error);
  if (error) target = path;
  const fs::perms permissions = fs::status(target, error).permissions();
  SL_RETURN_IF_ERROR(WriteFileAtomically(target.string(), text));
  if (!error) fs::permissions(target, permissions, error);
  return absl::OkStatus();
}

// True for a file whose text goes to standard output, and stays as it is.
bool IsPrinted(const FormattedFile& file, const Flags& flags) {
  return !flags.check && (flags.to_stdout || file.source.path() == "<stdin>");
}

Json AsJson(const std::vector<FormattedFile>& files, const Flags& flags, bool ok) {
  Json findings = Json::array(), list = Json::array();
  for (const FormattedFile& file : files) {
    for (Json& finding : FindingsAsJson(file.diagnostics, file.source)) {
      findings.push_back(std::move(finding));
    }
    if (!file.text) continue;
    list.push_back({{"file", file.source.path()}, {"changed", file.changed}});
    if (IsPrinted(file, flags)) list.back()["text"] = *file.text;
  }
  return {{"ok", ok}, {"files", std::move(list)}, {"findings", std::move(findings)}};
}

}  // namespace

int RunFormat(const Flags& flags, const Output& output) {
  const absl::StatusOr<std::vector<FormattedFile>> files = FormatAll(flags.files);
  if (!files.ok()) return Fail(output, files.status().message());
  bool ok = true;
  for (const FormattedFile& file : *files) {
    ok = ok && file.text && !(flags.check && file.changed);
    if (output.json && !file.text) continue;
    if (!file.text) {
      output.err << Render(file.diagnostics, file.source);
    } else if (flags.check) {
      if (file.changed && !output.json) PrintDifference(file, output.out);
    } else if (IsPrinted(file, flags)) {
      if (!output.json) output.out << *file.text;
    } else if (file.changed) {
      const absl::Status written = Replace(file.source.path(), *file.text);
      if (!written.ok()) return Fail(output, written.message());
      if (!output.json) output.out << file.source.path() << ": formatted\n";
    }
  }
  if (output.json) WriteJson(output.out, AsJson(*files, flags, ok));
  return ok ? kOk : kFindings;
}

}  // namespace stringline
