// Buckets of gradients: they hold as many blocks as `bucket` bytes take, to the byte.
#include "executor/training/state_pieces.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/executor/tiny_models.h"

namespace stringline {
namespace {

constexpr int64_t kAlignment = 64;  // a buffer's, in bytes

int64_t BytesOf(const StateBlock& block) {
  return (block.count * 4 + kAlignment - 1) / kAlignment * kAlignment;
}

StageProgram ProgramOf(TinyFamily family) {
  const AnyShape shape = TinyModel(family, 2);
  return BuildModelStages(shape, {2})->front();
}

// Blocks whose bytes may share a bucket with those before them.
bool MayFollow(const StageProgram& program, const StateBlock& before, const StateBlock& block) {
  return program.params[before.param].expert == program.params[block.param].expert;
}

TEST(StatePieces, ABucketEndsWhereTheNextBlockDoesNotFit) {
  for (const TinyFamily family : kTinyFamilies) {
    const StageProgram program = ProgramOf(family);
    const StageLayout layout(program);
    const std::vector<bool> alone(program.params.size(), false);
    const StatePieces whole(program, layout, alone, 2, int64_t{1} << 40);
    // Every size at which a bucket is exactly full, a byte less and a byte more.
    std::set<int64_t> sizes;
    int64_t sum = 0;
    for (const StateBlock& block : whole.blocks()) {
      sum += BytesOf(block);
      sizes.insert({sum - 1, sum, sum + 1});
    }
    for (const int64_t size : sizes) {
      SCOPED_TRACE(absl::StrCat(NameOf(family), ", bucket ", size));
      const StatePieces pieces(program, layout, alone, 2, size);
      ASSERT_EQ(pieces.blocks().size(), whole.blocks().size());
      // The rule, said once more: blocks one after the other, as long as they fit.
      std::vector<std::pair<int, int>> expected;
      int64_t held = 0;
      for (int b = 0; b < static_cast<int>(pieces.blocks().size()); ++b) {
        const StateBlock& block = pieces.blocks()[b];
        const bool begins = b == 0 || held + BytesOf(block) > size ||
                            !MayFollow(program, pieces.blocks()[b - 1], block);
        if (begins) expected.emplace_back(b, b);
        held = (begins ? 0 : held) + BytesOf(block);
        expected.back().second = b + 1;
      }
      std::vector<std::pair<int, int>> found;
      for (const Bucket& bucket : pieces.buckets()) {
        found.emplace_back(bucket.first_block, bucket.end_block);
      }
      EXPECT_EQ(found, expected);
    }
  }
}

// Pieces of all members are the bucket, without gaps, and end where a block does.
TEST(StatePieces, PiecesOfABucketEndWithABlock) {
  const StageProgram program = ProgramOf(TinyFamily::kGpt);
  const StageLayout layout(program);
  const std::vector<bool> alone(program.params.size(), false);
  for (const int shards : {1, 2, 3, 7}) {
    const StatePieces pieces(program, layout, alone, shards, 4096);
    for (const Bucket& bucket : pieces.buckets()) {
      ASSERT_EQ(bucket.pieces.count(), shards);
      std::set<int64_t> ends = {0};
      int64_t end = 0;
      for (int b = bucket.first_block; b < bucket.end_block; ++b) {
        const StateBlock& block = pieces.blocks()[b];
        end = block.at - bucket.at + block.count * 4;
        ends.insert({block.at - bucket.at, end});
      }
      EXPECT_EQ(bucket.pieces.begin.front(), 0);
      EXPECT_EQ(bucket.pieces.begin.back(), end);
      EXPECT_TRUE(std::is_sorted(bucket.pieces.begin.begin(), bucket.pieces.begin.end()));
      for (const int64_t begin : bucket.pieces.begin) EXPECT_EQ(ends.count(begin), 1u) << begin;
    }
  }
}

}  // namespace
}  // namespace stringline
