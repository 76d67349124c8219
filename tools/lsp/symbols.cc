#include "tools/lsp/symbols.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schedlang/text/parse.h"

namespace stringline {
namespace {

bool IsListed(NameSort sort) {
  switch (sort) {
    case NameSort::kArgument:
    case NameSort::kLoopVariable:
    case NameSort::kStageVariable:
      return false;
    default:
      return true;
  }
}

OutlineEntry EntryOf(const NameTable& names, size_t index) {
  const DefinedName& name = names.names()[index];
  OutlineEntry entry{&name, name.text, SortOf(name.sort), {}};
  if (name.sort == NameSort::kRankVariable) {
    entry.title = absl::StrCat("rank ", name.text);
    entry.detail = "what every rank does";
  }
  if (name.sort == NameSort::kFunction) {
    std::vector<std::string> arguments;
    for (size_t i = index + 1; i < names.names().size(); ++i) {
      const DefinedName& argument = names.names()[i];
      if (argument.parent != static_cast<int32_t>(index)) break;
      arguments.push_back(argument.text);
    }
    absl::StrAppend(&entry.title, "(", absl::StrJoin(arguments, ", "), ")");
  }
  return entry;
}

// The nesting depth of each name.
std::vector<int> DepthsOf(const NameTable& names) {
  std::vector<int> depths;
  for (const DefinedName& name : names.names()) {
    depths.push_back(name.parent < 0 ? 0 : depths[static_cast<size_t>(name.parent)] + 1);
  }
  return depths;
}

}  // namespace

std::vector<OutlineEntry> OutlineOf(const NameTable& names) {
  const std::vector<int> depths = DepthsOf(names);
  std::vector<std::vector<OutlineEntry>> inside(names.names().size());
  std::vector<OutlineEntry> outermost;
  // Backwards, so that the contents of a name are complete before the name is moved.
  for (size_t i = names.names().size(); i-- > 0;) {
    const DefinedName& name = names.names()[i];
    if (!IsListed(name.sort) || depths[i] > kDeepestNesting) continue;
    OutlineEntry entry = EntryOf(names, i);
    entry.inside.assign(std::make_move_iterator(inside[i].rbegin()),
                        std::make_move_iterator(inside[i].rend()));
    auto& place = name.parent < 0 ? outermost : inside[static_cast<size_t>(name.parent)];
    place.push_back(std::move(entry));
  }
  return {std::make_move_iterator(outermost.rbegin()), std::make_move_iterator(outermost.rend())};
}

}  // namespace stringline
