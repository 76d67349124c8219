#include "schedlang/search/move.h"

#include <algorithm>

namespace stringline::search {
namespace {

// The pair of an F and another group, the F first.
Group PairOf(Group a, Group b) {
  const bool is_forward = KindOf(a.first) == ActionKind::kForward;
  return is_forward ? Group{a.first, b.first} : Group{b.first, a.first};
}

bool IsWhole(Group group) {
  return !group.is_pair() && KindOf(group.first) == ActionKind::kBackward;
}
// True for an I and a W of one stage.
bool IsSplit(Group input, Group weight) {
  return !input.is_pair() && !weight.is_pair() &&
         KindOf(input.first) == ActionKind::kInputGradient &&
         KindOf(weight.first) == ActionKind::kWeightGradient &&
         StageOf(input.first) == StageOf(weight.first);
}

}  // namespace

bool HasGroups(const Move& move, const Group* word, const Problem& problem) {
  const Group moved = word[move.from];
  if (move.kind == Move::Kind::kShift) return true;
  if (move.kind == Move::Kind::kSplit) return IsWhole(moved) && problem.split;
  const bool parts = move.kind == Move::Kind::kTakeForward || move.kind == Move::Kind::kTakeBack;
  if (parts) return moved.is_pair();
  const Group other = word[move.to];
  if (move.kind == Move::Kind::kMerge) return IsSplit(moved, other) && problem.whole;
  if (moved.is_pair() || other.is_pair()) return false;
  const Group pair = PairOf(moved, other);
  return KindOf(pair.first) == ActionKind::kForward &&
         (KindOf(pair.second) == ActionKind::kBackward ||
          KindOf(pair.second) == ActionKind::kInputGradient) &&
         problem.TimeOf(pair) >= 0;
}

// The groups at the places low .. high after a split of the first of them, or its merge with the
// last.
void MoveWindow::FindSplit(const Group* word) {
  const int stage = StageOf(word[move.from].first);
  low = move.from;
  count = move.to + 1 - move.from;
  groups.clear();
  if (move.kind == Move::Kind::kSplit) {
    groups.push_back({LetterOf(ActionKind::kInputGradient, stage)});
    groups.push_back({LetterOf(ActionKind::kWeightGradient, stage)});
    return;
  }
  groups.push_back({LetterOf(ActionKind::kBackward, stage)});
  for (int i = move.from + 1; i < move.to; ++i) groups.push_back(word[i]);
}

void MoveWindow::Find(const Move& new_move, const Group* word) {
  is_tried = false;
  move = new_move;
  if (move.kind == Move::Kind::kSplit || move.kind == Move::Kind::kMerge) {
    return FindSplit(word);
  }
  const Group moved = word[move.from];
  const bool parts = move.kind == Move::Kind::kTakeForward || move.kind == Move::Kind::kTakeBack;
  const int high = std::max(move.from, parts ? move.to - 1 : move.to);
  low = std::min(move.from, move.to);
  count = high + 1 - low;
  Group goes = moved;
  if (move.kind == Move::Kind::kTakeForward) goes = {moved.first};
  if (move.kind == Move::Kind::kTakeBack) goes = {moved.second};
  if (move.kind == Move::Kind::kJoin) goes = PairOf(moved, word[move.to]);
  groups.clear();
  const bool is_up = move.to <= move.from;
  if (is_up) groups.push_back(goes);
  for (int i = low; i <= high; ++i) {
    if (i == move.to && move.kind == Move::Kind::kJoin) continue;
    if (i != move.from) {
      groups.push_back(word[i]);
    } else if (parts) {
      groups.push_back({goes.first == moved.first ? moved.second : moved.first});
    }
  }
  if (!is_up) groups.push_back(goes);
}

}  // namespace stringline::search
