// What an editor shows for the word under the pointer.
#pragma once

#include <optional>
#include <string>

#include "tools/lsp/analysis.h"
#include "tools/lsp/names.h"

namespace stringline {

struct HoverText {
  Span span;  // of the word
  std::string markdown;
};

// A word of the language: what it means; an action also what it performs, and `rank` every rank's
// order, both in the schedule's plan. A name: its definition, and its value there, or what the
// order gives there. Nothing for
// anything else.
std::optional<HoverText> HoverAt(const Source& source, const NameTable& names,
                                 const TextAnalysis& analysis, uint32_t offset);

// The value of names()[index] of that plan, as people read it: "3", or "rank 0: 3, rank 1: 2". ""
// for what has none outside a loop. Found by asking the language for it: the text is elaborated
// again with a `require` behind the definition.
std::string ValueText(const Source& source, const DefinedName& name, const Plan& plan);

}  // namespace stringline
