// The ranks that hold copies of a stage's parameters, and the groups in which they sum gradients.
//
// Copies of a stage are the k-th stages of all pipes (Plan::pipes), on every coordinate of the
// mesh. A rank with several copies adds those up itself, and joins the group's sum with its last
// copy. Sums run in the order of the coordinates, and within a coordinate in the order of the
// pipes. Experts' parameters differ between the expert coordinates: each expert coordinate sums
// over the data coordinates only, in a group of its own.
//
// If state is sharded, the same rank of the plan on the coordinates of a shard group (Mesh::shards)
// forms a further group, in which parameters are gathered.
#pragma once

#include <vector>

#include "executor/engine/group.h"
#include "executor/engine/mesh.h"
#include "schedlang/plan/plan.h"

namespace stringline {

class Replicas {
 public:
  Replicas(const Plan& plan, const Mesh& mesh, Groups* groups, bool shards = false);

  // The seat of a rank in a group; null: no other rank holds a copy. `stride` consecutive members
  // have the same data index.
  struct Seat {
    Group* group = nullptr;
    int member = 0;
    int stride = 1;
  };
  // The seat of the stage's rank at a coordinate: for parameters common to all coordinates, and for
  // experts' parameters.
  Seat OfDense(int coordinate, StageId stage) const;
  Seat OfExperts(int coordinate, StageId stage) const;

  // The seat in the shard group.
  Seat OfShards(int coordinate, StageId stage) const;

  // The copies that the stage's rank holds, including the stage, in the order of the pipes.
  std::vector<StageId> OnItsRank(StageId stage) const;

  // The stage's index in its pipe.
  int PartOf(StageId stage) const { return stage.value % parts_; }

 private:
  // By part: the ranks that hold the part, in the order of the pipes.
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

// The place of a copy of the pipeline in the mesh, with the groups in which its ranks meet those of
// other copies.
struct MeshSeat {
  int coordinate = 0;
  const Replicas* replicas = nullptr;
  std::vector<Group*> experts;  // by rank: all ranks that share the experts of its stages
  int expert = 0;               // member in those groups
  int shard = 0;                // member of the shard group
};

}  // namespace stringline
