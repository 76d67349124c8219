// How the numbers of a stage's parameters are cut: into blocks, buckets and pieces.
//
// A parameter is cut into blocks, of which each has a sum of squares of its own: a function of the
// parameter's length alone, so that the norm of all gradients has the same bits however a model is
// cut and its state shared out. A bucket is a row of blocks whose gradients are summed, and whose
// parameters are gathered, in one call. Of every bucket each member of a shard group owns one
// piece, a row of whole blocks; the pieces are about of one size.
//
// Places in the memory of a stage are those of its layout. Whoever keeps only the own pieces has
// them one after the other, and takes as much memory as the member that owns most.
#pragma once

#include <cstdint>
#include <vector>

#include "executor/group.h"
#include "executor/programs/ready_graph.h"
#include "executor/sharding.h"
#include "stages/stage_program.h"

namespace stringline {

struct StateBlock {
  int param = 0;
  int64_t first = 0, count = 0;  // values of the parameter
  int64_t at = 0;                // bytes, in the layout's kParams and kGrads
  int64_t read_at = 0;           // bytes, where graphs read its working copy; -1: there is none
};

struct Bucket {
  bool experts = false;
  bool narrow = false;  // of BF16 parameters
  int first_block = 0, end_block = 0;
  // The gradients, and the parameters in FP32: where they begin in the layout, and their pieces.
  int64_t at = 0;
  Pieces pieces;
  // The same of working copies; read_at is -1 where there are none.
  int64_t read_at = -1;
  Pieces read;
};

class StatePieces {
 public:
  // A member of `shards` has one piece of each bucket. Buckets begin anew at parameters that are
  // `alone`: those that are tied to one of another stage are cut there like here.
  StatePieces(const StageProgram& program, const StageLayout& layout,
              const std::vector<bool>& alone, int shards, int64_t bucket_bytes);

  const std::vector<StateBlock>& blocks() const { return blocks_; }
  const std::vector<Bucket>& buckets() const { return buckets_; }

  // The blocks of the member's pieces, in order.
  std::vector<int> BlocksOf(int member) const;
  // Those of a parameter follow each other: the first of them, and where a block is among those of
  // its owner.
  int FirstBlockOf(int param) const { return first_block_of_[param]; }
  int PlaceAmongOwned(int block) const { return place_among_owned_[block]; }
  // Which member owns the block, and of which bucket it is.
  int BucketOf(int block) const { return bucket_of_[block]; }
  int OwnerOf(int block) const { return owner_of_[block]; }

  // Where, among its owner's pieces alone, a piece of a bucket or a block begins, and how many
  // bytes the member that has most has: in FP32, and in BF16 of BF16 parameters.
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

// What a rank keeps of a stage from step to step.
struct StateBytes {
  int64_t params = 0;   // in FP32
  int64_t working = 0;  // what graphs read of BF16 parameters
  int64_t grads = 0;
  int64_t moment = 0;  // of each of the two

  int64_t all() const { return params + grads + 2 * moment + working; }
};
StateBytes StateOf(const StageLayout& layout, const StatePieces& pieces, Sharding sharding);

}  // namespace stringline
