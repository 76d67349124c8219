// What the interpreter runs, without knowing what it is: the work of every part of every action,
// and where the bytes of every message lie. Real training, programs that do nothing and programs
// that only take time all stand behind this interface.
//
// Everything is asked once, when the step is put together, and what is returned runs in every step.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "executor/device.h"
#include "executor/group.h"
#include "schedlang/parts/parts.h"
#include "schedlang/plan.h"

namespace stringline {

struct Bytes {
  void* data = nullptr;
  int64_t bytes = 0;
};

// Between host memory and the device's.
struct HostCopy {
  void* to = nullptr;
  const void* from = nullptr;
  int64_t bytes = 0;
};

// A call on a group, as one of its members.
struct MemberCall {
  Group* group = nullptr;
  int member = 0;
  Call call;
};

// What is done in one piece on one stream: work of the rank alone, then calls, then work again.
// Work without `run` is none.
struct Piece {
  Work work;
  std::vector<MemberCall> calls;
  Work after;
};

class StageWork {
 public:
  virtual ~StageWork() = default;

  // How many mixture-of-experts layers the stage has: its computations come in that many layers of
  // parts (parts.h). Of one that has none a backward is all in its B.post.
  virtual int layers(StageId /*stage*/) const { return 0; }
  // One part of a computation, on the rank's stream for its lane.
  virtual Piece Compute(const Action& action, LayerPart part) = 0;
  // What is copied right before and right after the action, on the compute stream.
  virtual std::vector<HostCopy> CopiesBefore(const Action& /*action*/) { return {}; }
  virtual std::vector<HostCopy> CopiesAfter(const Action& /*action*/) { return {}; }
  // What a send reads, or where a receive writes. Without `data` nothing is copied, and the bytes
  // only tell how long the message is.
  virtual Bytes Payload(const Action& send_or_recv) const = 0;
  // What a message that has left its channel waits for before it is there: on a stream of its own,
  // so that it keeps no other message waiting. Without `run`: nothing.
  virtual Work InFlight(const Action& /*recv*/) const { return {}; }
  // What a collective does, on the rank's stream for them. Unimplemented where it cannot be done:
  // an action is performed or refused, never left out.
  virtual absl::StatusOr<Piece> Collective(const Action& action) {
    return absl::UnimplementedError(
        absl::StrCat("there is nothing here that performs ", PrintedKind(action.kind)));
  }
};

// Actions that do nothing and messages without bytes: for tests of orders, and to measure overhead.
class NoWork final : public StageWork {
 public:
  Piece Compute(const Action& action, LayerPart part) override {
    if (part.part == kWPost && action.kind == ActionKind::kBackward) return {};
    return Piece{{[](const void*, int64_t, NativeStream) {}, nullptr, 0}, {}, {}};
  }
  Bytes Payload(const Action& /*send_or_recv*/) const override { return {}; }
  absl::StatusOr<Piece> Collective(const Action& /*action*/) override { return Piece(); }
};

}  // namespace stringline
