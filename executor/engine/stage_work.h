// The work behind the interpreter: the computation of every part of every action, and the buffers
// of every message. Training, programs that do nothing and programs that only take time all
// implement this interface.
//
// The interpreter asks for each piece once, when it builds the step; the answers run in every step.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "executor/engine/device.h"
#include "executor/engine/group.h"
#include "schedlang/plan/parts.h"
#include "schedlang/plan/plan.h"

namespace stringline {

struct Bytes {
  void* data = nullptr;
  int64_t bytes = 0;
};

// A copy between host memory and device memory.
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

// Work done in one piece on one stream: work of the rank alone, then calls, then work again. Work
// without `run` is skipped.
struct Piece {
  Work work;
  std::vector<MemberCall> calls;
  Work after;
};

// A piece of a computation that meets the buckets of collectives (plan/buckets.h): those of an
// UNSHARD that the piece needs, and those of a REDUCE_GRAD whose gradients it is the last to give.
struct BucketPiece {
  Work work;
  std::vector<int> needs;  // indices into the pieces of the collective
  std::vector<int> gives;
};

class StageWork {
 public:
  virtual ~StageWork() = default;

  // The number of mixture-of-experts layers of the stage: its computations come in as many layers
  // of parts (parts.h). A stage without such layers has its whole backward in B.post.
  virtual int layers(StageId /*stage*/) const { return 0; }
  // One part of a computation, on the rank's stream for its lane.
  virtual Piece Compute(const Action& action, LayerPart part) = 0;
  // Copies right before and right after the action, on the compute stream.
  virtual std::vector<HostCopy> CopiesBefore(const Action& /*action*/) { return {}; }
  virtual std::vector<HostCopy> CopiesAfter(const Action& /*action*/) { return {}; }
  // The buffer that a send reads, or that a receive writes. Without `data` no bytes are copied, and
  // the size is the message's length.
  virtual Bytes Payload(const Action& send_or_recv) const = 0;
  // The delay of a message after it has left its channel: on a stream of its own, so that no other
  // message waits behind it. Without `run`: none.
  virtual Work InFlight(const Action& /*recv*/) const { return {}; }
  // A D or a U, on the rank's stream for copies in this direction. Unimplemented if impossible.
  virtual absl::StatusOr<Work> Copy(const Action& action) {
    return absl::UnimplementedError(
        absl::StrCat("there is nothing here that performs ", PrintedKind(action.kind)));
  }
  // An UPDATE, on the compute stream. Unimplemented if impossible.
  virtual absl::StatusOr<Piece> Update(const Action& action) {
    return absl::UnimplementedError(
        absl::StrCat("there is nothing here that performs ", PrintedKind(action.kind)));
  }
  // A schedule's own action, on the stream of its lane; with calls, if all ranks begin it at once.
  // Unimplemented if impossible.
  virtual absl::StatusOr<Piece> Own(const OwnAction& row, const Action& /*action*/) {
    return absl::UnimplementedError(
        absl::StrCat("there is nothing here that performs ", row.name,
                     ", an action of the schedule's own; 'stringline rehearse' does"));
  }
  // True for a collective in several buckets that a computation of its stage can meet one by one.
  virtual bool MeetsBuckets(const Action& /*collective*/) const { return false; }
  // The computation, of a stage without layers, in pieces, in order, that meet the buckets of an
  // UNSHARD, of a REDUCE_GRAD, or of both. Asked only where MeetsBuckets.
  virtual std::vector<BucketPiece> ComputeByBucket(const Action& /*action*/, bool /*gathers*/,
                                                   bool /*reduces*/) {
    return {};
  }
  // The number of first pieces of the stage's UNSHARD asked for last that hold all parameters which
  // a part on the compute lane reads, of a stage with layers.
  virtual int BucketsRead(const Action& /*action*/, LayerPart /*part*/) { return 0; }
  // The buckets of the stage's REDUCE_GRAD to which a part adds gradients, of a stage with layers.
  virtual std::vector<int> BucketsGiven(const Action& /*action*/, LayerPart /*part*/) { return {}; }
  // The work of a collective, on the rank's stream for collectives: a piece for each bucket if the
  // computation `inside` meets them; null: one. Unimplemented if impossible: an action is performed
  // or refused, never left out.
  virtual absl::StatusOr<std::vector<Piece>> Collective(const Action& action,
                                                        const Action* /*inside*/) {
    return absl::UnimplementedError(
        absl::StrCat("there is nothing here that performs ", PrintedKind(action.kind)));
  }
};

// Empty actions and messages without bytes: for tests of orders, and to measure overhead.
class NoWork : public StageWork {
 public:
  Piece Compute(const Action& action, LayerPart part) override {
    if (part.part == kWPost && action.kind == ActionKind::kBackward) return {};
    return Piece{{[](const void*, int64_t, NativeStream) {}, nullptr, 0}, {}, {}};
  }
  Bytes Payload(const Action& /*send_or_recv*/) const override { return {}; }
  absl::StatusOr<Work> Copy(const Action& /*action*/) override {
    return Work{[](const void*, int64_t, NativeStream) {}, nullptr, 0};
  }
  absl::StatusOr<Piece> Update(const Action& /*action*/) override {
    return Piece{{[](const void*, int64_t, NativeStream) {}, nullptr, 0}, {}, {}};
  }
  absl::StatusOr<std::vector<Piece>> Collective(const Action& /*action*/,
                                                const Action* /*inside*/) override {
    return std::vector<Piece>(1);
  }
};

}  // namespace stringline
