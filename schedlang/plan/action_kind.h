// The kinds of actions, by lane, and what they are: actions.def as types.
#pragma once

#include <cstdint>

namespace stringline {

enum class ActionKind : uint8_t {
#define X(kind, print, meaning) kind,
#include "schedlang/plan/actions.def"
#undef X
};
inline constexpr int kActionKinds = static_cast<int>(ActionKind::kOwnNetwork5) + 1;
// F, B, I, W, R, UPDATE and a schedule's own, the first ones.
inline constexpr int kComputeKinds = static_cast<int>(ActionKind::kOwnCompute5) + 1;
inline constexpr int kOrderedKinds = 4;  // F, B, I and W: those of costs of orders, and of search

// A set of kinds, one bit each.
using ActionKinds = uint64_t;
static_assert(kActionKinds <= 64);
constexpr ActionKinds SetOf(ActionKind kind) { return ActionKinds{1} << static_cast<int>(kind); }

const char* PrintedKind(ActionKind kind);    // "F", "SEND_F", …; of a schedule's own see rows.h
const char* MeaningOfKind(ActionKind kind);  // the table's third column

constexpr bool IsBetween(ActionKind first, ActionKind kind, ActionKind last) {
  return kind >= first && kind <= last;
}
constexpr bool IsCompute(ActionKind kind) { return static_cast<int>(kind) < kComputeKinds; }
// True for the letters of an action's parts: a B has weight gradients, as W.
constexpr bool Performs(ActionKind kind, ActionKind letter) {
  return kind == letter || (kind == ActionKind::kBackward && letter == ActionKind::kWeightGradient);
}
constexpr bool IsSend(ActionKind kind) {
  return kind == ActionKind::kSendForward || kind == ActionKind::kSendBackward;
}
constexpr bool IsRecv(ActionKind kind) {
  return kind == ActionKind::kRecvForward || kind == ActionKind::kRecvBackward;
}

constexpr bool IsMessage(ActionKind kind) { return IsSend(kind) || IsRecv(kind); }
// True for a message with an activation; others bring an input gradient back.
constexpr bool CarriesActivation(ActionKind message) {
  return message == ActionKind::kSendForward || message == ActionKind::kRecvForward;
}
// Copies from a rank's device, and to it, each way on a lane of its own (links.h).
constexpr bool CopiesOut(ActionKind kind) {
  return IsBetween(ActionKind::kOffload, kind, ActionKind::kOwnOut2);
}
constexpr bool IsCopy(ActionKind kind) {
  return IsBetween(ActionKind::kOffload, kind, ActionKind::kOwnIn2);
}
// True for the work of a rank alone: what is listed behind a copy has its values, or their memory.
constexpr bool TakesTurn(ActionKind kind) { return IsCompute(kind) || IsCopy(kind); }
// UNSHARD, RESHARD and REDUCE_GRAD: on the parameters of a stage.
constexpr bool IsCollective(ActionKind kind) {
  return IsBetween(ActionKind::kUnshard, kind, ActionKind::kReduceGrad);
}
// A schedule's own actions (rows.h), those on the network among them.
constexpr bool IsOwnNetwork(ActionKind kind) { return kind >= ActionKind::kOwnNetwork0; }
// A bit for each, as every effect of an action is looked up behind this question.
inline constexpr uint64_t kOwnKinds = [] {
  constexpr auto from_to = [](ActionKind first, ActionKind last) {
    return (uint64_t{2} << static_cast<int>(last)) - (uint64_t{1} << static_cast<int>(first));
  };
  return from_to(ActionKind::kOwnCompute0, ActionKind::kOwnCompute5) |
         from_to(ActionKind::kOwnOut0, ActionKind::kOwnOut2) |
         from_to(ActionKind::kOwnIn0, ActionKind::kOwnIn2) |
         from_to(ActionKind::kOwnNetwork0, ActionKind::kOwnNetwork5);
}();
constexpr bool IsOwn(ActionKind kind) { return (kOwnKinds >> static_cast<int>(kind) & 1) != 0; }
// The number of an own action among those of its lane.
constexpr int NumberOnLane(ActionKind own) {
  const ActionKind first = IsOwnNetwork(own) ? ActionKind::kOwnNetwork0
                           : IsCompute(own)  ? ActionKind::kOwnCompute0
                           : CopiesOut(own)  ? ActionKind::kOwnOut0
                                             : ActionKind::kOwnIn0;
  return static_cast<int>(own) - static_cast<int>(first);
}
// True for what stands in no group: a copy, a schedule's own action, an UPDATE.
constexpr bool RunsAlone(ActionKind kind) {
  return IsCopy(kind) || IsOwn(kind) || kind == ActionKind::kUpdate;
}
// True for the work on a microbatch; the number of an UPDATE is a step.
constexpr bool IsOfMicrobatch(ActionKind kind) {
  return kind != ActionKind::kUpdate && !IsCollective(kind);
}
// True for what a plan without backwards may hold.
constexpr bool IsOfForwardOnly(ActionKind kind) {
  return kind == ActionKind::kForward || IsOwn(kind) || kind == ActionKind::kSendForward ||
         kind == ActionKind::kRecvForward || kind == ActionKind::kUnshard ||
         kind == ActionKind::kReshard;
}
// True for F, B, I, W and R: what reads the weights of a stage, or gives their gradients.
constexpr bool ComputesMicrobatch(ActionKind kind) { return kind < ActionKind::kUpdate; }

}  // namespace stringline
