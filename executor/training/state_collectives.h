// The calls by which the copies of a stage share their state: REDUCE_GRAD, UNSHARD, and the gathers
// after an update. All go bucket by bucket, in the same order everywhere.
//
// REDUCE_GRAD: a rank adds up the gradients of its own copies of a stage, then all ranks with a
// copy add up theirs, then every copy gets the sum. UNSHARD and gathers: the members of a shard
// group exchange their pieces of the parameters.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "executor/engine/kernels.h"
#include "executor/engine/stage_work.h"
#include "executor/training/replicas.h"
#include "executor/training/sharding.h"
#include "executor/training/stage_params.h"

namespace stringline {

class StateCollectives {
 public:
  StateCollectives(StageParams* params, Kernels* kernels, const StateSharing& sharing)
      : params_(params), kernels_(kernels), sharing_(sharing) {}
  // Before the first call below.
  void Join(const MeshSeat& seat) { seat_ = seat; }

  // The buckets that are summed over ranks: those of which another rank holds a copy.
  std::vector<int> Summed(StageId stage) const;
  // The sum over all copies of the stage, with the last REDUCE_GRAD of the copies on its rank; each
  // member gets its pieces of sharded gradients. A call for each of `buckets`, which are Summed.
  Piece ReduceGrads(StageId stage, absl::Span<const int> buckets);
  // FailedPrecondition if some of the copies on the stage's rank have had their REDUCE_GRAD, and
  // others not.
  absl::Status CheckSummed(StageId stage) const;
  // Gathers the parameters that graphs read, at `to`: a call for each of `buckets`, which are all.
  Piece Unshard(StageId stage, char* to, absl::Span<const int> buckets) const;
  // After an update, calls by which all members get whole parameters again; none if parameters are
  // not sharded, or gathered by UNSHARD.
  std::vector<MemberCall> GatherUpdated(StageId stage) const;

 private:
  // The copies of a stage on its rank: the first accumulates all gradients, and the sum goes to
  // all.
  struct Copies {
    StateCollectives* owner;
    std::vector<StageId> stages;
  };
  Replicas::Seat SeatOf(StageId stage, const Bucket& bucket) const;
  MemberCall SumOf(StageId stage, const Bucket& bucket, const Replicas::Seat& seat);
  int64_t NameOfBucket(StageId stage, int64_t bucket) const {
    return (bucket << 32) + seat_.replicas->PartOf(stage);
  }
  static void AddUp(const void* self, int64_t argument, NativeStream stream);
  static void HandOut(const void* self, int64_t argument, NativeStream stream);
  static std::string PrintGradients(const void* self, int64_t bucket);
  static std::string PrintParameters(const void* self, int64_t bucket);

  StageParams* const params_;
  Kernels* const kernels_;
  const StateSharing sharing_;
  MeshSeat seat_;
  std::deque<Copies> copies_;
  std::deque<Pieces> summed_pieces_;  // of calls, in the terms of their groups
  std::vector<int> came_to_sum_;      // by stage of the first copy on its rank: the copies that
                                      // have come
};

}  // namespace stringline
