// A single pass over the words: the word before a name decides the sort of its definition. A stack
// of open blocks knows the names that end with each, so the range of a name is known when its block
// closes. No tree is needed, and so no text that parses.
#include "tools/lsp/names.h"

#include <algorithm>

namespace stringline {

const char* SortOf(NameSort sort) {
  switch (sort) {
    case NameSort::kSchedule:
      return "a schedule";
    case NameSort::kParameter:
      return "a parameter";
    case NameSort::kValue:
      return "a value";
    case NameSort::kFunction:
      return "a function";
    case NameSort::kArgument:
      return "an argument";
    case NameSort::kOrder:
      return "an order";
    case NameSort::kPipe:
      return "a pipe";
    case NameSort::kRankVariable:
      return "the number of the rank";
    case NameSort::kLoopVariable:
      return "the number of the pass";
    case NameSort::kStageVariable:
      return "the number of the stage";
    case NameSort::kOwnValue:
      return "a value of the schedule's own";
    case NameSort::kOwnAction:
      return "an action of the schedule's own";
  }
  return "";
}

size_t NameTable::TokenAt(uint32_t offset) const {
  const auto after = std::partition_point(tokens_.begin(), tokens_.end() - 1,
                                          [&](const Token& t) { return t.span.begin <= offset; });
  const size_t end = tokens_.size() - 1;
  if (after == tokens_.begin()) return end;
  const size_t i = static_cast<size_t>(after - tokens_.begin()) - 1;
  if (offset < tokens_[i].span.end) return i;
  // A place right behind a word belongs to the word.
  if (offset == tokens_[i].span.end && tokens_[i].kind == Token::Kind::kName) return i;
  return end;
}

const DefinedName* NameTable::Find(size_t token) const {
  const int32_t name = meanings_[token];
  return name < 0 ? nullptr : &names_[static_cast<size_t>(name)];
}

std::vector<size_t> NameTable::WordsOf(int32_t name) const {
  std::vector<size_t> words;
  for (size_t i = 0; i < meanings_.size(); ++i) {
    if (meanings_[i] == name) words.push_back(i);
  }
  return words;
}

std::vector<const DefinedName*> NameTable::VisibleAt(uint32_t offset) const {
  std::vector<const DefinedName*> visible;
  for (const DefinedName& name : names_) {
    if (name.sort == NameSort::kSchedule) continue;
    if (name.visible_begin <= offset && offset <= name.visible_end) visible.push_back(&name);
  }
  return visible;
}

const NamedBlock* NameTable::BlockBehind(size_t token) const {
  const NamedBlock* innermost = nullptr;
  for (const NamedBlock& block : blocks_) {
    if (block.open <= token && token < block.close) innermost = &block;
  }
  return innermost;
}

const DefinedName* NameTable::RankNameOf(int32_t schedule) const {
  if (schedule < 0 || static_cast<size_t>(schedule) >= rank_names_.size()) return nullptr;
  const int32_t name = rank_names_[static_cast<size_t>(schedule)];
  return name < 0 ? nullptr : &names_[static_cast<size_t>(name)];
}

std::vector<const DefinedName*> NameTable::ParametersOf(absl::string_view schedule) const {
  std::vector<const DefinedName*> parameters;
  const auto first = std::find_if(names_.begin(), names_.end(), [&](const DefinedName& name) {
    return name.sort == NameSort::kSchedule && name.text == schedule;
  });
  if (first == names_.end()) return parameters;
  for (const DefinedName& name : names_) {
    const bool its_own = name.schedule == first->schedule;
    if (its_own && name.sort == NameSort::kParameter) parameters.push_back(&name);
  }
  return parameters;
}

int32_t NameTable::ScheduleAt(uint32_t offset) const {
  const auto after = std::upper_bound(schedule_starts_.begin(), schedule_starts_.end(), offset);
  return static_cast<int32_t>(after - schedule_starts_.begin()) - 1;
}

}  // namespace stringline
