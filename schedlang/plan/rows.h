// Actions and values that a schedule adds to the table of effects.h, in the same terms:
//
//   value part of s on each rank;
//   action S s by each rank { needs x s; gives part s; }
//
// In a plan's text form:
//
//   value part on each rank
//   action S compute by each needs x gives part
//
// A value belongs to a stage and a microbatch, and lives on the device of the stage's rank, on that
// of each rank, on the host of the stage's rank, or on the device of another rank. An action `by
// each rank` is done for a stage's microbatch by every rank, when it comes to it; `with all ranks`
// it begins on all of them at once. On a rank other than the stage's such an action needs, gives
// and frees only what each rank has.
//
// An action may name some built-in values: `saved`, what F keeps of a microbatch, or what R begins
// with; `stash`; `output`, what F made, there until its B or I; `in_grad`, what B or I made; and
// `input` and `out_grad`, which it may give: then the data of first stages, and the gradients of
// the loss, come from it alone.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "schedlang/base/diagnostics.h"
#include "schedlang/plan/action_kind.h"
#include "schedlang/plan/values.h"

namespace stringline {

struct Word;  // text_form.h

// The lane of an action: each lane of a rank performs its own in the order of the rank's list.
enum class RowLane : uint8_t { kCompute, kNetwork, kCopyOut, kCopyIn };
inline constexpr int kRowLaneCount = 4;
const char* NameOf(RowLane lane);  // "compute", "network", "copy_out", "copy_in"
std::optional<RowLane> ReadRowLane(absl::string_view name);
// The actions that a schedule may have of its own on the lane.
int MostOwnOn(RowLane lane);

struct OwnValue {
  std::string name;
  StageValue value = StageValue::kOwn0;  // its range tells where it lives
  std::vector<int32_t> ranks;            // by stage, for a value on another rank's device
  Span span;
};

enum class By : uint8_t { kStage, kEachRank, kAllRanks };

struct OwnAction {
  std::string name;
  ActionKind kind = ActionKind::kOwnCompute0;  // its range tells the lane
  By by = By::kStage;
  Values needs = 0, gives = 0, frees = 0;  // what it frees it needs, too
  Span span;
  // On the rank of a stage without R, of one with it, and on another rank.
  std::array<Effects, 3> effects;
};

struct OwnRows {
  std::vector<OwnValue> values;
  std::vector<OwnAction> actions;

  bool empty() const { return values.empty() && actions.empty(); }
  // The row of an own kind.
  const OwnAction& of(ActionKind kind) const;
  // True for an own action that every rank does, for itself or with all others.
  bool IsOfEveryRank(ActionKind kind) const { return IsOwn(kind) && of(kind).by != By::kStage; }
  // True if some own action is a copy.
  bool HasCopies() const;
  // Null if no row has the name.
  const OwnAction* Find(absl::string_view name) const;
  const OwnValue* FindValue(StageValue value) const;
  Values given() const;  // by any action
};

// A new value, or nothing if there are too many there; and an action of the lane, likewise.
enum class Home : uint8_t { kStage, kEachRank, kHost, kOtherRank };
std::optional<StageValue> NextValue(const OwnRows& rows, Home home);
Home HomeOf(StageValue own);
int MostOwnAt(Home home);
std::optional<ActionKind> NextAction(const OwnRows& rows, RowLane lane);
RowLane RowLaneOf(ActionKind own);

// The values that a row may name: "saved", "output", …, or one of `rows`; 0 for another word.
Values ReadRowValue(const OwnRows& rows, absl::string_view name);
// The names of the built-in ones among the values, and those that a row may give, and free.
std::vector<std::string> NamesOfBuiltIn(Values values = ~Values{0});
Values MayGive();
Values MayFree();

// Computes the action's effects from its needs, gives and frees.
void SetEffects(OwnAction* action);

// A name for an own value; and for an own action: capital letters and underscores, none of the
// built-in ones.
bool IsValueName(absl::string_view name);
bool IsActionName(absl::string_view name);
// The message for a name that IsActionName refuses.
std::string NoActionName(absl::string_view name);

// "F", "SEND_F", or the name of an own action.
const char* PrintedKind(const OwnRows& rows, ActionKind kind);
std::string NameOf(const OwnRows& rows, StageValue value);
std::string NameOf(const OwnRows& rows, MemoryClass memory_class);
// The own value of the class, or null.
const OwnValue* OwnValueOf(const OwnRows& rows, MemoryClass memory_class);

// The lines of the text form, one for each row; and reads such a line, the words of which are
// given, in a plan of so many ranks. False for a wrong one.
std::string Print(const OwnRows& rows);
bool ReadRow(absl::Span<const Word> words, int64_t ranks, OwnRows* rows);
// True for the words of a line that should be a row: ReadRow tells whether it is.
bool BeginsRow(absl::Span<const Word> words);

}  // namespace stringline
