// The words of the language with their meanings: keywords, and words with a meaning only in their
// place. Hover texts and the editors' grammar read this table.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace stringline {

enum class WordSort : uint8_t {
  kLetter,     // F, B, I, W
  kStatement,  // begins a statement, or is the schedule itself; no name
  kKeyword,    // stands inside a statement; no name
  kInPlace,    // means something in its place only, and may be a name elsewhere: `line`, `by`
  kFunction,   // min, max; no name
};

struct WordRow {
  const char* word;
  WordSort sort;
  const char* meaning;
};
absl::Span<const WordRow> AllWords();

// The word's row; null if the language has no such word.
const WordRow* FindWord(absl::string_view text);

// F, B, I, W.
bool IsActionLetter(absl::string_view text);
// R, D and U: letters where an action begins, and free as names.
bool IsFurtherLetter(absl::string_view text);
// `steps`, `versions` and `update`: words where a statement begins, and free as names.
bool BeginsInPlace(absl::string_view text);

// A word that is reserved everywhere: `repeat`, `and`, …
bool IsKeyword(absl::string_view text);

// The words at the beginning of statements, action letters included; for "did you mean".
const std::vector<std::string>& StatementWords();

}  // namespace stringline
