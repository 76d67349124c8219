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

// Schedules, and in each its parameters, values, functions, pipes and rank block, and in that its
// values and orders, nested as they stand. What lives in one statement or loop only (arguments of
// functions, loops' and stages' numbers) is left out, and so is what is nested deeper than the
// language allows.
std::vector<OutlineEntry> OutlineOf(const NameTable& names);

}  // namespace stringline
