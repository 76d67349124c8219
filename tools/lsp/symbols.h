// The outline of a schedule's text.
#pragma once

#include <string>
#include <vector>

#include "tools/lsp/names.h"

namespace stringline {

struct OutlineEntry {
  const DefinedName* name = nullptr;
  std::string title;   // "1f1b", "warmup", "size(g)", "rank r"
  std::string detail;  // "a parameter"
  std::vector<OutlineEntry> inside;
};

// Schedules, each with its parameters, values, functions, pipes and rank block, and the rank block
// with its values and orders, nested as in the text. Names of a single statement or loop (arguments
// of functions, numbers of loops and stages) are left out, and so are names nested deeper than the
// language allows.
std::vector<OutlineEntry> OutlineOf(const NameTable& names);

}  // namespace stringline
