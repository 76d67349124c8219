// What every word of a schedule's text means: the names it defines, from where to where each can be
// used, the blocks they stand in, and which definition each word names. All editor features ask
// here, so that one place knows what is visible where.
//
// Found in one pass over the words alone, so that it works while the text does not parse. Of a text
// that the language accepts it says what the resolver says: a value can be used behind its
// statement, an order and a pipe behind their block, everything else in the statement or block that
// it belongs to. A statement that lacks its `;` ends where the next one begins, a schedule that is
// not closed where the next one begins.
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
  kStageVariable,  // stages n on s -> …, split s -> …, costs F s -> …
};

// "a parameter", "an order", …
const char* SortOf(NameSort sort);

struct DefinedName {
  NameSort sort = NameSort::kValue;
  std::string text;
  Span span;
  // It can be used from here to there; in the whole file for a schedule.
  uint32_t visible_begin = UINT32_MAX;
  uint32_t visible_end = UINT32_MAX;
  Span whole;            // all of its definition: the statement, the block, the schedule
  int32_t schedule = 0;  // index of the schedule it belongs to, or is; -1: it stands before all
  int32_t parent = -1;   // names()[parent] is the schedule, rank, order, … that it stands in
  int32_t hides = -1;    // names()[hides] is called so too and visible here, which is an error
  // The name of the rank, where it stands in a rank block.
  std::string rank_variable;
  bool ends_with_semicolon = false;  // a `let`: `whole` ends behind one
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
    kBranch,  // of an `if`
    kOther
  };
  Sort sort = Sort::kOther;
  size_t open = 0;      // its '{'
  size_t close = 0;     // its '}', or the end
  int32_t parent = -1;  // the block it stands in
};

class NameTable {
 public:
  // Keeps `text`, which must outlive it.
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
  // Every word that means that name, its definition among them.
  std::vector<size_t> WordsOf(int32_t name) const;

  // The names that can be used at this place, schedules not among them.
  std::vector<const DefinedName*> VisibleAt(uint32_t offset) const;
  // The innermost block that the place behind that word lies in; null outside of all.
  const NamedBlock* BlockBehind(size_t token) const;
  // The index of the schedule that the place lies in; -1 before the first.
  int32_t ScheduleAt(uint32_t offset) const;
  // How the rank is called in that schedule: by its rank block, or by that of the schedule which it
  // is derived from. Null for a schedule without either.
  const DefinedName* RankNameOf(int32_t schedule) const;
  // The parameters of the first schedule of that name.
  std::vector<const DefinedName*> ParametersOf(absl::string_view schedule) const;

 private:
  friend class NameScan;

  std::vector<Token> tokens_;
  std::vector<DefinedName> names_;
  std::vector<NamedBlock> blocks_;
  std::vector<int32_t> meanings_;  // of every token
  std::vector<uint32_t> schedule_starts_;
  std::vector<int32_t> rank_names_;  // of every schedule; -1: none
};

}  // namespace stringline
