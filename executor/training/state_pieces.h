// The cut of a stage's parameters into blocks, buckets and pieces.
//
// A parameter is cut into blocks, each with a sum of squares of its own: a function of the
// parameter's length alone, so that the norm of all gradients has the same bits however a model is
// cut and its state sharded. A bucket is a row of blocks whose gradients are summed, and whose
// parameters are gathered, in one call. Each member of a shard group owns a piece of every bucket,
// a row of whole blocks; the pieces are of about equal size.
//
// Offsets in the memory of a stage are those of its layout. A member that keeps only its own pieces
// has them contiguously, and takes as much memory as the member that owns most.
#pragma once

#include <cstdint>
#include <vector>

#include "executor/engine/group.h"
#include "executor/training/ready_graph.h"
#include "executor/training/sharding.h"
#include "stages/stage_program.h"

namespace stringline {

struct StateBlock {
  int param = 0;
  int64_t first = 0, count = 0;  // values of the parameter
  int64_t at = 0;                // bytes, in the layout's kParams and kGrads
  int64_t read_at = 0;           // bytes, in the graphs' working copy; -1: no working copy
};

struct Bucket {
  bool experts = false;
  bool narrow = false;  // for BF16 parameters
  int first_block = 0, end_block = 0;
  // The gradients, and the parameters in FP32: their offset in the layout, and their pieces.
  int64_t at = 0;
  Pieces pieces;
  // The same for working copies; read_at is -1 without them.
  int64_t read_at = -1;
  Pieces read;
};

class StatePieces {
 public:
  // A member of `shards` has one piece of each bucket. A parameter that is `alone` starts a new
  // bucket: tied parameters are thus cut alike on both stages.
  StatePieces(const StageProgram& program, const StageLayout& layout,
              const std::vector<bool>& alone, int shards, int64_t bucket_bytes);

  const std::vector<StateBlock>& blocks() const { return blocks_; }
  const std::vector<Bucket>& buckets() const { return buckets_; }

  // The blocks of the member's pieces, in order.
  std::vector<int> BlocksOf(int member) const;
  // A parameter's blocks are contiguous: the index of the first, and a block's index among those of
  // its owner.
  int FirstBlockOf(int param) const { return first_block_of_[param]; }
  int PlaceAmongOwned(int block) const { return place_among_owned_[block]; }
  // The bucket and the owner of a block.
  int BucketOf(int block) const { return bucket_of_[block]; }
  int OwnerOf(int block) const { return owner_of_[block]; }

  // The byte offset of a bucket's piece or a block among its owner's pieces alone, and the largest
  // size over all members: in FP32, and in BF16 for BF16 parameters.
  int64_t OwnAt(int bucket, int member) const { return own_at_[bucket][member]; }
  int64_t OwnAt(int block) const;
  int64_t OwnNarrowAt(int bucket, int member) const { return own_narrow_at_[bucket][member]; }
  int64_t OwnNarrowAt(int block) const;
  int64_t own_bytes() const { return own_bytes_; }
  int64_t own_narrow_bytes() const { return own_narrow_bytes_; }

 private:
  void AddBucket(const StageProgram& program, int first, int end, int shards);
  void PlaceOwn(int shards);

  std::vector<StateBlock> blocks_;
  std::vector<Bucket> buckets_;
  std::vector<int> owner_of_;                                 // by block
  std::vector<int> bucket_of_;                                // by block
  std::vector<int> place_among_owned_;                        // by block
  std::vector<int> first_block_of_;                           // by parameter
  std::vector<std::vector<int64_t>> own_at_, own_narrow_at_;  // by bucket and member
  int64_t own_bytes_ = 0;
  int64_t own_narrow_bytes_ = 0;
};

// The bytes that a rank keeps of a stage from step to step.
struct StateBytes {
  int64_t params = 0;   // in FP32
  int64_t working = 0;  // the graphs' copies of BF16 parameters
  int64_t grads = 0;
  int64_t moment = 0;  // bytes for each of the two moments
  int64_t older = 0;   // versions before the latest, as graphs read them

  int64_t all() const { return params + grads + 2 * moment + working + older; }
};
// `versions`: of the weights, with the latest (Plan::versions).
StateBytes StateOf(const StageLayout& layout, const StatePieces& pieces, Sharding sharding,
                   int versions);

}  // namespace stringline
