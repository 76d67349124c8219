// A change of a word, and the stretch of the word that it rewrites.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "schedlang/search/problem.h"

namespace stringline::search {

// A change of a rank's word; groups between its two places make room.
struct Move {
  enum class Kind : uint8_t {
    kShift,        // the group at `from` goes to the place `to`
    kJoin,         // the group at `from` becomes a pair with the group at `to`
    kTakeForward,  // the F of the pair at `from` goes before the group at `to`, 0 .. length
    kTakeBack,     // the pair's B or I goes there
    kSplit,        // the B at `from` becomes an I with its W behind it; `to` is the same place
    kMerge,        // the I at `from`, and a W of its stage at `to` behind it, become a B
  };
  int rank = 0;
  int from = 0;
  int to = 0;
  Kind kind = Kind::kShift;
  friend bool operator==(const Move&, const Move&) = default;
};

// True if the groups of the rank's word are those that the move's kind is for.
bool HasGroups(const Move& move, const Group* word, const Problem& problem);

// A group at its place in a word, with all that its time depends on; arrays are by letter, of two
// or one.
struct Slot {
  int64_t time = 0;                    // of unequal microbatches the least
  std::array<int32_t, 2> needs = {};   // places of the values that it needs; -1: none
  std::array<int32_t, 2> gives = {};   // and of those that it gives
  std::array<int32_t, 2> counts = {};  // how often the letter's count was counted before
};

// The stretch of a rank's word that a move rewrites.
struct MoveWindow {
  Move move;
  int low = 0;                // its first place
  int count = 0;              // the number of groups in it now
  std::vector<Group> groups;  // the groups that replace them
  std::vector<Slot> slots;    // theirs, in a trial
  bool is_tried = false;      // by the last trial, which ended

  int rank() const { return move.rank; }
  // The window of a move that has its groups in the rank's word.
  void Find(const Move& new_move, const Group* word);

 private:
  void FindSplit(const Group* word);
};

}  // namespace stringline::search
