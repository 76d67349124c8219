#include "schedlang/base/diagnostics.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace stringline {
namespace {

// The most findings of one code that are rendered; the rest are counted.
constexpr int kMostRendered = 10;

// Shortens a long line, such as a row of a CSV file, to a part around *column. Dots stand for the
// rest; the result is the number of bytes by which the dots exceed their columns.
size_t ShortenAround(std::string* line, size_t* column) {
  constexpr size_t kWidest = 160;
  constexpr size_t kBefore = 40;
  constexpr size_t kShown = 100;
  constexpr absl::string_view kDots = "…";
  if (line->size() <= kWidest) return 0;
  const auto inside_letter = [line](size_t i) {
    return i < line->size() && (static_cast<unsigned char>((*line)[i]) & 0xc0) == 0x80;
  };
  size_t first = *column > kBefore ? *column - kBefore : 0;
  while (first > 0 && inside_letter(first)) --first;
  size_t last = std::min(line->size(), first + kShown);
  while (inside_letter(last)) ++last;
  const absl::string_view before = first > 0 ? kDots : "";
  const absl::string_view after = last < line->size() ? kDots : "";
  *line = absl::StrCat(before, line->substr(first, last - first), after);
  if (first > 0) *column += 1 - first;
  return (before.empty() ? 0 : kDots.size() - 1) + after.size();
}

// The source line of `span` with a marker below. A span over several lines is marked to the end of
// the first.
std::string Excerpt(const Source& source, Span span, absl::string_view where) {
  const LineColumn begin = source.Locate(span.begin);
  std::string line(source.LineAt(span.begin));
  // Control characters would break the marker's column or the terminal.
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  size_t column = static_cast<size_t>(begin.column - 1);
  const size_t cut = ShortenAround(&line, &column);
  const size_t width = line.size() - cut;
  const size_t room = width > column ? width - column : 1;
  const size_t length = std::clamp<size_t>(span.end - span.begin, 1, std::max<size_t>(room, 1));
  std::string out = absl::StrFormat("%5d | %s\n", begin.line, line);
  absl::StrAppend(&out, "      | ", std::string(column, ' '), "^", std::string(length - 1, '~'));
  if (!where.empty()) absl::StrAppend(&out, "  (", where, ")");
  absl::StrAppend(&out, "\n");
  return out;
}

// The number of letters to add, drop, change or swap with the next; case is ignored.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  const auto same = [](char x, char y) { return absl::ascii_tolower(x) == absl::ascii_tolower(y); };
  std::vector<size_t> before, last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = last[j - 1] + (same(a[i - 1], b[j - 1]) ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, substituted});
      const bool swapped = i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]);
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = last;
    last = row;
  }
  return last[b.size()];
}

}  // namespace

const std::vector<CodeRow>& AllCodes() {
  static const auto* rows = new std::vector<CodeRow>{
#define X(name, slug, meaning) {Code::name, slug, meaning},
#include "schedlang/base/diagnostics.def"
#undef X
  };
  return *rows;
}

const char* SlugOf(Code code) { return AllCodes()[static_cast<size_t>(code)].slug; }

Diagnostic& Diagnostics::Add(Code code, Span span, std::string text, int count) {
  const auto [slot, added] = index_.try_emplace({code, span.begin, span.end}, findings_.size());
  if (!added) {
    findings_[slot->second].count += count;
    merged_ = Diagnostic{};
    return merged_;
  }
  findings_.push_back({.code = code, .span = span, .text = std::move(text), .count = count});
  return findings_.back();
}

const Diagnostic* RefusalIn(const Diagnostics& diagnostics) {
  for (const Diagnostic& finding : diagnostics.findings()) {
    if (finding.code == Code::kRequire || finding.code == Code::kBadParameter) return &finding;
  }
  return nullptr;
}

std::string Render(const Diagnostics& diagnostics, const Source& source) {
  std::string out;
  std::map<Code, int> told;
  int left_out = 0;
  for (const Diagnostic& d : diagnostics.findings()) {
    if (++told[d.code] > kMostRendered) {
      left_out += d.count;
      continue;
    }
    const LineColumn at = source.Locate(d.span.begin);
    const std::string& path = source.PathAt(d.span.begin);
    absl::StrAppend(&out, path, ":", at.line, ":", at.column, ": error: ", d.text);
    if (d.count > 1) absl::StrAppend(&out, " (and ", d.count - 1, " more like this)");
    absl::StrAppend(&out, "\n", Excerpt(source, d.span, d.where));
    for (const Note& note : d.notes) {
      const std::string& other = source.PathAt(note.has_place ? note.span.begin : d.span.begin);
      absl::StrAppend(&out, "note: ", other == path ? "" : absl::StrCat(other, ": "), note.text,
                      "\n");
      if (note.has_place) absl::StrAppend(&out, Excerpt(source, note.span, note.where));
    }
  }
  if (left_out > 0) {
    absl::StrAppend(&out, left_out, left_out == 1 ? " more error" : " more errors",
                    " of these kinds; --json has all of them\n");
  }
  return out;
}

std::string ClosestName(absl::string_view name, const std::vector<std::string>& candidates) {
  std::string best;
  // At least one letter must agree; hence no other letter is close to a name of one letter.
  size_t best_distance = std::min(name.size(), std::max<size_t>(1, name.size() / 3) + 1);
  constexpr size_t kLongest = 100;
  if (name.size() > kLongest) return best;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > 2 * kLongest) continue;
    const size_t distance = EditDistance(name, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace stringline
