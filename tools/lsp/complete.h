// The completions at a place of a schedule's text.
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
  // The completed name.
  const DefinedName* name = nullptr;
};

struct Completions {
  Span replaced;  // the existing part of the word
  std::vector<Completion> items;
};

// Words of the language and names that fit at the place: at the beginning of a statement its first
// words, and the orders; in an expression the visible names with a value; layouts, actions and
// parts in their places; where a schedule may begin, the library's schedules as a whole. Nothing in
// comments, numbers and strings, except file names behind `use`, and nothing for a new name.
//
// Only words up to the place are read: the text need not parse.
Completions CompleteAt(const Source& source, const NameTable& names, uint32_t offset);

}  // namespace stringline
