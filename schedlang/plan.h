// The elaborated schedule: for every rank, the actions it performs, in order.
//
// This is the project's narrow waist. Parser and elaborator end here; lowering, checker, simulator
// and executor begin here and never see a loop, a parameter or an expression. Its text form is what
// golden tests compare:
//
//   plan one_f_one_b P=2 M=2             ("lowered" at the end for a lowered one)
//   stages 0 1
//   rank 0: 0F0 0F1 0B0 0B1
//   rank 1: 1F0 1B0 1F1&1B1
//
// `stages` gives the rank of every stage. An action prints as stage, kind, microbatch; `a&b` are
// parts that share the rank. A lowered plan also holds sends and receives (0SEND_F0, 1RECV_F0),
// written as torch does: the stage is the one whose rank performs it, the peer follows from it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "schedlang/base/diagnostics.h"
#include "schedlang/base/ids.h"
#include "schedlang/base/source.h"

namespace stringline {

enum class ActionKind : uint8_t {
#define X(kind, print, meaning) kind,
#include "schedlang/actions.def"
#undef X
};
inline constexpr int kActionKinds = 8;

const char* PrintedKind(ActionKind kind);    // "F", "SEND_F", …
const char* MeaningOfKind(ActionKind kind);  // the table's third column

constexpr bool IsCompute(ActionKind kind) { return kind <= ActionKind::kWeightGradient; }
constexpr bool IsSend(ActionKind kind) {
  return kind == ActionKind::kSendForward || kind == ActionKind::kSendBackward;
}
constexpr bool IsRecv(ActionKind kind) {
  return kind == ActionKind::kRecvForward || kind == ActionKind::kRecvBackward;
}

struct Action {
  ActionKind kind = ActionKind::kForward;
  bool joined = false;  // shares the rank with the action before it: the b of `a & b`
  StageId stage;
  MicrobatchId microbatch;
  uint32_t place = 0;      // index into Plan::places: where it was written
  int32_t iteration = -1;  // index into Plan::iterations: the innermost loop pass; -1 for none
};

// One pass of one loop: the `i`-th, inside pass `outer` of the loop around it (-1: no loop).
struct Iteration {
  int32_t outer = -1;
  int32_t i = 0;
};

// Where a stage lives, and its neighbours in its pipe.
struct Stage {
  RankId rank;
  StageId previous;  // none for a pipe's first stage
  StageId next;      // none for a pipe's last stage
};

struct Parameter {
  std::string name;
  int64_t value = 0;
};

struct Plan {
  std::string schedule;               // its name
  std::vector<Parameter> parameters;  // P, M, then the options in the order declared
  int microbatches = 0;
  std::vector<Stage> stages;
  // The actions of rank r are actions[first[r]] .. actions[first[r + 1] - 1].
  std::vector<uint32_t> first = {0};
  std::vector<Action> actions;
  bool lowered = false;  // sends and receives are in it

  Span header;  // the schedule's name: where findings about it all point
  std::vector<Span> places;
  std::vector<Iteration> iterations;

  int ranks() const { return static_cast<int>(first.size()) - 1; }
  absl::Span<const Action> of(RankId rank) const {
    return absl::MakeConstSpan(actions).subspan(first[rank.value],
                                                first[rank.value + 1] - first[rank.value]);
  }
  const Stage& stage(StageId id) const { return stages[id.value]; }
};

// The other stage of a send or a receive: where the message goes to or comes from.
StageId PeerStage(const Plan& plan, const Action& action);

// The parts of the group that begins at actions[begin]: that action and those joined to it.
absl::Span<const Action> GroupAt(absl::Span<const Action> actions, size_t begin);

std::string Print(const Action& action);  // 3F7
// "0F3&1B0": the group of parts that begins at actions[index].
std::string PrintGroup(absl::Span<const Action> actions, size_t index);
std::string Print(const Plan& plan);
std::string PrintParameters(const Plan& plan);  // "P=4 M=8"
// "iteration 3, P=4 M=8": what a message puts behind its marker; the loops from the outside in.
std::string WhereOf(const Plan& plan, const Action& action);
Span SpanOf(const Plan& plan, const Action& action);

// Reads the text form back. The spans of the plan lie in `source`.
std::optional<Plan> ReadPlan(const Source& source, Diagnostics* diagnostics);

}  // namespace stringline
