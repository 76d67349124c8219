// Findings about a text of the user. The parser, the elaborator and the checker add them and go on,
// so that one run reports all of them.
//
// A finding is a place, a fact, and then the other places (notes). Text is lower case, without a
// full stop, names in quotes, what was seen rather than what is forbidden.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/string_view.h"
#include "schedlang/base/source.h"

namespace stringline {

// The kind of a finding; diagnostics.def is the table of them all.
enum class Code : uint8_t {
#define X(name, slug, meaning) name,
#include "schedlang/base/diagnostics.def"
#undef X
};

struct CodeRow {
  Code code;
  const char* slug;
  const char* meaning;
};

// The rows of diagnostics.def, in order.
const std::vector<CodeRow>& AllCodes();
const char* SlugOf(Code code);

struct Note {
  Span span;
  std::string text;
  std::string where;      // after the marker line, in parentheses: "iteration 0, P=2 M=4"
  bool has_place = true;  // false: a note without a source line
};

struct Diagnostic {
  Code code;
  Span span;
  std::string text;
  std::string where;  // as in Note; empty for none
  std::vector<Note> notes;
  int count = 1;  // the findings of this code and place that were merged into this
};

class Diagnostics {
 public:
  // Adds a finding, or merges it into an earlier finding of the same code and place: then only the
  // earlier count goes up, and writes to the result are dropped. `count`: the number of findings
  // added at once.
  Diagnostic& Add(Code code, Span span, std::string text, int count = 1);
  // True if an earlier finding has this code and place.
  bool Has(Code code, Span span) const { return index_.count({code, span.begin, span.end}) > 0; }

  bool empty() const { return findings_.empty(); }
  const std::vector<Diagnostic>& findings() const { return findings_; }

 private:
  std::vector<Diagnostic> findings_;
  std::map<std::tuple<Code, uint32_t, uint32_t>, size_t> index_;  // code and place -> finding
  Diagnostic merged_;  // the result of Add for a merged finding: written to, never shown
};

// The finding by which a schedule refuses these parameters: a `require`, or a size outside of what
// the schedule takes. Null if the schedule accepts them, right or wrong.
const Diagnostic* RefusalIn(const Diagnostics& diagnostics);

// All findings as text, in order of addition:
//
//   zbv.sched:14:22: error: rank 1 waits forever at 2I0
//      14 |     repeat r { I up; F up }
//         |                ^~~~  (iteration 0, P=2 M=4)
//   note: rank 0 would send it after 3I0
//      11 |     repeat P - r { F up }
//         |                    ^~~~
std::string Render(const Diagnostics& diagnostics, const Source& source);

// "did you mean": the candidate closest to `name`, or "" when none is close.
std::string ClosestName(absl::string_view name, const std::vector<std::string>& candidates);

}  // namespace stringline
