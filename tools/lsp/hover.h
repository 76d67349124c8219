// The text that an editor shows for the word under the pointer.
#pragma once

#include <optional>
#include <string>

#include "tools/lsp/analysis.h"
#include "tools/lsp/names.h"

namespace stringline {

struct HoverText {
  Span span;  // the word's
  std::string markdown;
};

// For a word of the language, its meaning; for an action also its performed actions in the
// schedule's plan, for `schedule` a picture of the plan, and for `rank` the picture and every
// rank's order. For a name, its definition and its meaning in the plan: a value, an order's
// actions, the picture of a schedule. Nothing for any other place.
std::optional<HoverText> HoverAt(const Source& source, const NameTable& names,
                                 const TextAnalysis& analysis, uint32_t offset);

// The line of the name's definition, as code in Markdown; the beginning of a long line.
std::string DefinitionText(const Source& source, const DefinedName& name);

// The value of names()[index] in the plan, in readable form: "3", or "rank 0: 3, rank 1: 2". "" for
// names without a value outside a loop. Found by the language itself: the text is elaborated again
// with a `require` behind the definition.
std::string ValueText(const Source& source, const DefinedName& name, const Plan& plan);

// The plan's step as a small picture of letters and digits: a line for every rank, time to the
// right, at the default costs. "" for a plan that the checker objects to.
std::string PictureText(const Plan& plan);

}  // namespace stringline
