// Which ranks hold copies of a stage's parameters, and the groups in which they sum its gradients.
//
// Copies of a stage are the k-th stages of all pipes (Plan::pipes), on every coordinate of the
// mesh. A rank may hold several of them: it adds those up itself, and comes to the sum with the
// last one. Sums are made in the order of the coordinates, and in each of the ranks as its pipes
// have them. Experts' parameters differ between the expert coordinates: those of one are summed
// over the data coordinates only, in groups of their own.
//
// Where state is shared out, the same rank of the plan on the coordinates of a shard group
// (Mesh::shards) forms one more group, in which parameters are gathered.
#pragma once

#include <vector>

#include "executor/group.h"
#include "executor/mesh.h"
#include "schedlang/plan.h"

namespace stringline {

class Replicas {
 public:
  Replicas(const Plan& plan, const Mesh& mesh, Groups* groups, bool shards = false);

  // The place of a rank in a group; no group: nobody else holds a copy. So many members that follow
  // each other are of one data index.
  struct Seat {
    Group* group = nullptr;
    int member = 0;
    int stride = 1;
  };
  // Of the stage's rank on that coordinate, for parameters that are alike everywhere and for those
  // of experts.
  Seat OfDense(int coordinate, StageId stage) const;
  Seat OfExperts(int coordinate, StageId stage) const;

  // Of those that share out its state.
  Seat OfShards(int coordinate, StageId stage) const;

  // The copies that the stage's rank holds, itself among them, in the order of the pipes.
  std::vector<StageId> OnItsRank(StageId stage) const;

  // Which stage of its pipe it is.
  int PartOf(StageId stage) const { return stage.value % parts_; }

 private:
  // By part: the ranks that hold it, in the order of the pipes.
  const std::vector<RankId>& HoldersOf(StageId stage) const { return holders_[PartOf(stage)]; }
  int HolderIndex(StageId stage) const;

  const Plan& plan_;
  const Mesh mesh_;
  const int parts_;  // stages of one pipe
  std::vector<std::vector<RankId>> holders_;
  std::vector<Group*> dense_;    // by part; null: one holder
  std::vector<Group*> experts_;  // by part and expert coordinate
  std::vector<Group*> shards_;   // by replica, expert coordinate and rank of the plan
};

}  // namespace stringline
