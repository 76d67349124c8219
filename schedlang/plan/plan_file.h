// A plan's text with the way in which a runtime issues its messages:
//
//   plan interleaved P=2 M=2 V=2 lowered
//   stages 0 1 0 1
//   messages pair lazy
//   rank 0: 0F0 0SEND_F0 0WAIT_SEND_F0 0F1 …
//
// `messages LAYOUT` says that each rank issues its list in order, each call once all computation
// listed before it has ended, over communicators of this layout (communicators.h); `lazy` behind it
// that they are made at their first call, which blocks the host. In such a plan 0WAIT_SEND_F0 and
// 1WAIT_RECV_F0 hold the rank until that send or receive has ended.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "schedlang/plan/communicators.h"
#include "schedlang/plan/plan.h"

namespace stringline {

// The rank goes on only when a message of its own, or a reduction of gradients, has ended.
struct MessageWait {
  ActionKind of = ActionKind::kSendForward;  // a send, a receive, or kReduceGrad
  StageId stage;
  MicrobatchId microbatch;
  RankId rank;
  uint32_t before = 0;  // stands before plan.actions[before], or at the end of its rank
  Span span;
};

// The line `messages`.
struct IssuedMessages {
  CommLayout layout = CommLayout::kEdge;
  bool lazy = false;
};

struct PlanFile {
  Plan plan;
  std::optional<IssuedMessages> issued;
  std::vector<MessageWait> waits;  // rank by rank, in order; none without `issued`
};

std::optional<PlanFile> ReadPlanFile(const Source& source, Diagnostics* diagnostics);
std::string Print(const Plan& plan, const std::optional<IssuedMessages>& issued,
                  const std::vector<MessageWait>& waits);
// "0WAIT_SEND_F3".
std::string Print(const Plan& plan, const MessageWait& wait);

}  // namespace stringline
