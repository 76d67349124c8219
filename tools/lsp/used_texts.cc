#include "tools/lsp/used_texts.h"

#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace stringline {
namespace {

bool IsInText(const Source& source, Span span) { return span.begin <= source.text().size(); }

// "1f1b.sched:3:5: "
std::string PlaceOf(const Source& source, Span span) {
  const LineColumn at = source.Locate(span.begin);
  return absl::StrCat(source.PathAt(span.begin), ":", at.line, ":", at.column, ": ");
}

}  // namespace

std::string PathOfUri(const std::string& uri) {
  absl::string_view rest = uri;
  if (!absl::ConsumePrefix(&rest, "file://")) return uri;
  std::string path;
  for (size_t i = 0; i < rest.size(); ++i) {
    const bool coded = rest[i] == '%' && i + 2 < rest.size() && absl::ascii_isxdigit(rest[i + 1]) &&
                       absl::ascii_isxdigit(rest[i + 2]);
    if (!coded) {
      path += rest[i];
      continue;
    }
    path += absl::HexStringToBytes(rest.substr(i + 1, 2));
    i += 2;
  }
  return std::filesystem::path(path).lexically_normal().string();
}

void AppendFindings(const Diagnostics& from, const Source& source, Span place, Diagnostics* to) {
  for (const Diagnostic& finding : from.findings()) {
    const bool here = IsInText(source, finding.span);
    std::vector<Note> notes;
    for (const Note& note : finding.notes) {
      if (!note.has_place || IsInText(source, note.span)) {
        notes.push_back(note);
        if (!here && note.has_place) place = note.span;
      } else {
        notes.push_back({{}, PlaceOf(source, note.span) + note.text, note.where, false});
      }
    }
    const Span span = here ? finding.span : place;
    if (to->Has(finding.code, span)) continue;
    Diagnostic& added =
        to->Add(finding.code, span,
                here ? finding.text : PlaceOf(source, finding.span) + finding.text, finding.count);
    added.where = finding.where;
    added.notes = std::move(notes);
  }
}

}  // namespace stringline
