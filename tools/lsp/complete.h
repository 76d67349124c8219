// What can stand at a place of a schedule's text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedlang/base/source.h"
#include "tools/lsp/names.h"

namespace stringline {

struct Completion {
  enum class Sort : uint8_t { kWord, kAction, kName, kPart, kLibrary };
  Sort sort = Sort::kWord;
  std::string label;
  std::string detail;    // in a few words
  std::string meaning;   // a sentence, in Markdown; may be empty
  std::string inserted;  // instead of the label; empty: the label
  // Of a name.
  const DefinedName* name = nullptr;
};

struct Completions {
  Span replaced;  // the part of the word that is there already
  std::vector<Completion> items;
};

// Words of the language and names, as the words before the place ask for them: at the beginning of
// a statement those that begin one there, and the orders; where a value stands the names that are
// visible and hold one; layouts, actions and parts in their places; where a schedule may begin
// those of the library as a whole. Nothing in comments, numbers and strings, but for the file that
// a `use` names, and nothing where a new name is made up.
//
// It reads words only, up to the place: the text need not parse.
Completions CompleteAt(const Source& source, const NameTable& names, uint32_t offset);

}  // namespace stringline
