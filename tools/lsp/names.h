// The meaning of every word of a schedule's text: the names it defines, their ranges of visibility,
// their blocks, and the definition behind each word. All editor features ask here, so visibility is
// decided in a single place.
//
// Found in a single pass over the words, so the text need not parse. For a text that the language
// accepts, the answers equal the resolver's: a value is visible behind its statement, an order and
// a pipe behind their block, every other name in its statement or block. A statement without its
// `;` ends where the next statement begins, an unclosed schedule where the next schedule begins.
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
  kArgument,  // in a function
  kOrder,
  kPipe,
  kRankVariable,   // rank r
  kLoopVariable,   // repeat n as i
  kStageVariable,  // stages n on s -> …, split s -> …, costs F s -> …, value v of s
  kOwnValue,       // value v of s
  kOwnAction,      // action A s { … }
};

// "a parameter", "an order", …
const char* SortOf(NameSort sort);

struct DefinedName {
  NameSort sort = NameSort::kValue;
  std::string text;
  Span span;
  // The name is visible from here to there; in the whole file for a schedule.
  uint32_t visible_begin = UINT32_MAX;
  uint32_t visible_end = UINT32_MAX;
  Span whole;            // all of its definition: the statement, the block, the schedule
  int32_t schedule = 0;  // index of the name's schedule; -1: before the first
  int32_t parent = -1;   // names()[parent] encloses this name; -1: none
  int32_t hides = -1;    // names()[hides] is called so too and visible here, which is an error
  // The name of the rank, for names in a rank block.
  std::string rank_variable;
  bool ends_with_semicolon = false;  // a `let` with its `;`
};

struct NamedBlock {
  enum class Sort : uint8_t {
    kSchedule,
    kPipe,
    kOverlap,
    kLane,  // compute, network
    kSequence,
    kTimetable,
    kGreedy,
    kSearch,
    kOrder,
    kRepeat,
    kBranch,   // in an `if`
    kEffects,  // of an own action
    kOther
  };
  Sort sort = Sort::kOther;
  size_t open = 0;      // its '{'
  size_t close = 0;     // its '}', or the end
  int32_t parent = -1;  // the enclosing block
};

class NameTable {
 public:
  // Keeps a view of `text`, which must outlive the table.
  explicit NameTable(absl::string_view text);

  const std::vector<Token>& tokens() const { return tokens_; }
  // In the order of the text.
  const std::vector<DefinedName>& names() const { return names_; }
  const std::vector<NamedBlock>& blocks() const { return blocks_; }

  // The index of the word at this place, or tokens().size() - 1 (the end) for none.
  size_t TokenAt(uint32_t offset) const;
  // The index of the name that the word defines or uses; -1 for a word that is no visible name.
  int32_t NameOf(size_t token) const { return meanings_[token]; }
  // The same as a name; null for none.
  const DefinedName* Find(size_t token) const;
  // Every word that means this name, including its definition.
  std::vector<size_t> WordsOf(int32_t name) const;

  // The names visible at this place, except schedules.
  std::vector<const DefinedName*> VisibleAt(uint32_t offset) const;
  // The innermost block around the place behind the word; null outside of all.
  const NamedBlock* BlockBehind(size_t token) const;
  // The index of the schedule around the place; -1 before the first.
  int32_t ScheduleAt(uint32_t offset) const;
  // The name of the rank in the schedule: from its rank block, or from its base's. Null for a
  // schedule without either.
  const DefinedName* RankNameOf(int32_t schedule) const;
  // The parameters of the first schedule with this name.
  std::vector<const DefinedName*> ParametersOf(absl::string_view schedule) const;

 private:
  friend class NameScan;

  std::vector<Token> tokens_;
  std::vector<DefinedName> names_;
  std::vector<NamedBlock> blocks_;
  std::vector<int32_t> meanings_;  // for every token
  std::vector<uint32_t> schedule_starts_;
  std::vector<int32_t> rank_names_;  // for every schedule; -1: none
};

}  // namespace stringline
