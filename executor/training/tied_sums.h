// Sums of the gradients of one parameter that stands on two stages (Param::tied_to), for every pipe
// and coordinate. After Enqueue's work both stages have the sum: of the whole gradient, or, where
// gradients are sharded, of the pieces that they own, which are cut alike at both ends.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "executor/engine/group.h"
#include "executor/engine/kernels.h"
#include "executor/training/pipelines.h"
#include "executor/training/training_job.h"

namespace stringline {

class TiedSums {
 public:
  // Makes the groups, after those of the pipelines: the same ones in every process.
  TiedSums(const TrainingJob* job, Pipelines* pipelines);
  // Once the pipelines are prepared.
  void Prepare();
  // After all other sums of the gradients.
  void Enqueue();

 private:
  // A parameter of `stage` tied to a parameter of `other`, and the group of their ranks, if they
  // differ.
  struct Tie {
    int coordinate;
    StageId other, stage;
    int index_of[2];  // of the parameter on each of the two
    Group* group;
  };
  // A rank's end of a sum; the whole sum if one rank has both (no group).
  struct TiedCall {
    int coordinate;
    StageId stage;
    Group* group;
    int member;
    Kernels* kernels;
    Call call;  // `from` is the first parameter's gradient, `to` the second's
  };
  void MakeTie(int coordinate, StageId stage, int index);
  void PrepareTie(const Tie& tie);
  void AddCalls(const Tie& tie, int64_t first, int64_t bytes);
  static void AddBoth(const void* self, int64_t argument, NativeStream stream);

  const TrainingJob* const job_;
  Pipelines* const pipelines_;
  std::vector<Tie> ties_;
  std::deque<TiedCall> calls_;  // the ends in this process
};

}  // namespace stringline
