// Which definition a name in a schedule's text means, found in its words alone, so that it works
// while the text does not parse.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "schedlang/text/tokens.h"

namespace stringline {

enum class NameSort : uint8_t {
  kSchedule,
  kParameter,
  kValue,     // let x = …
  kFunction,  // let f(x) = …
  kArgument,  // of a function
  kOrder,
  kPipe,
  kRankVariable,   // rank r
  kLoopVariable,   // repeat n as i
  kStageVariable,  // stages n on s -> …
};

// "a parameter", "an order", …
const char* SortOf(NameSort sort);

struct DefinedName {
  NameSort sort = NameSort::kValue;
  std::string text;
  Span span;
  uint32_t visible_end = 0;    // it is visible from its place to here
  int32_t schedule = -1;       // index of the schedule it belongs to, or is
  std::string rank_variable;   // of the rank block it stands in; empty outside
  uint32_t statement_end = 0;  // for a value: behind its ';', or where one is missing
  bool ends_with_semicolon = false;
};

class NameTable {
 public:
  // Keeps `text`, which must outlive it.
  explicit NameTable(absl::string_view text);

  const std::vector<Token>& tokens() const { return tokens_; }
  const std::vector<DefinedName>& names() const { return names_; }
  // The index of the word at this place, or tokens().size() - 1 (the end) for none.
  size_t TokenAt(uint32_t offset) const;
  // What the word means; null for a word that is no visible name.
  const DefinedName* Find(size_t token) const;
  // The index of the schedule that the place lies in; -1 before the first.
  int32_t ScheduleAt(uint32_t offset) const;

 private:
  friend class NameScan;
  // `name = e` among the arguments of a derived schedule: those of its base.
  struct BaseCall {
    size_t begin = 0, end = 0;  // tokens
    std::string base;
  };

  // The base's name of that sort and text.
  const DefinedName* FindOfBase(const BaseCall& call, NameSort sort, absl::string_view text) const;
  const DefinedName* FindVisible(const Token& use) const;

  std::vector<Token> tokens_;
  std::vector<DefinedName> names_;
  std::vector<uint32_t> schedule_starts_;
  std::vector<BaseCall> base_calls_;
};

}  // namespace stringline
