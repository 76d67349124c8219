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

// A word of the language: what it means; an action also what it performs in the schedule's plan,
// `schedule` a picture of that plan, and `rank` the picture and every rank's order. A name: its
// definition, and what it stands for in the plan: a value, what an order gives there, the picture
// of a schedule. Nothing for anything else.
std::optional<HoverText> HoverAt(const Source& source, const NameTable& names,
                                 const TextAnalysis& analysis, uint32_t offset);

// The line that the name is defined in, as code in Markdown; the beginning of a long one.
std::string DefinitionText(const Source& source, const DefinedName& name);

// The value of names()[index] of that plan, as people read it: "3", or "rank 0: 3, rank 1: 2". ""
// for what has none outside a loop. Found by asking the language for it: the text is elaborated
// again with a `require` behind the definition.
std::string ValueText(const Source& source, const DefinedName& name, const Plan& plan);

// The plan's step as a small picture of letters and digits: a line for every rank, time to the
// right, at the default costs. "" for a plan that the checker objects to.
std::string PictureText(const Plan& plan);

}  // namespace stringline
