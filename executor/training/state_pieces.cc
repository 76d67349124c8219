// A single walk over the parameters in layout order.
#include "executor/training/state_pieces.h"

#include <algorithm>

#include "schedlang/base/align.h"

namespace stringline {
namespace {

constexpr int64_t kFloat = sizeof(float);
// The number of blocks aimed at for a parameter: fewer if blocks would be tiny, more if they would
// be too long for a bucket. Blocks begin at whole buffers.
constexpr int64_t kBlocks = 64;
constexpr int64_t kUnit = kBufferAlignment / kFloat;
constexpr int64_t kLeastBlock = 16 * kUnit;
constexpr int64_t kMostBlock = int64_t{1} << 18;

int64_t BlockLength(int64_t values) {
  const int64_t even = (values + kBlocks - 1) / kBlocks;
  const int64_t whole = (even + kUnit - 1) / kUnit * kUnit;
  return std::clamp(whole, kLeastBlock, kMostBlock);
}

}  // namespace

StatePieces::StatePieces(const StageProgram& program, const StageLayout& layout,
                         const std::vector<bool>& alone, int shards, int64_t bucket_bytes) {
  const std::vector<int> order = layout.InOrder();
  first_block_of_.resize(order.size());
  int first = 0;
  int64_t bytes = 0;
  const auto end_bucket = [&] {
    const auto end = static_cast<int>(blocks_.size());
    if (end > first) AddBucket(program, first, end, shards);
    first = end;
    bytes = 0;
  };
  for (size_t i = 0; i < order.size(); ++i) {
    const Param& param = program.params[order[i]];
    if (i > 0) {
      const Param& before = program.params[order[i - 1]];
      if (before.expert != param.expert || before.type.dtype != param.type.dtype ||
          alone[order[i]] || alone[order[i - 1]]) {
        end_bucket();
      }
    }
    first_block_of_[order[i]] = static_cast<int>(blocks_.size());
    // A balance load and its bias are updated as a whole.
    const int64_t length = param.update == Update::kBalance ? param.type.elements()
                                                            : BlockLength(param.type.elements());
    for (int64_t at = 0; at < param.type.elements(); at += length) {
      const int64_t count = std::min(length, param.type.elements() - at);
      if (bytes > 0 && bytes + AlignUp(count * kFloat) > bucket_bytes) end_bucket();
      bytes += AlignUp(count * kFloat);
      const int64_t read = layout.working[order[i]];
      const int64_t size = param.type.bytes() / param.type.elements();
      blocks_.push_back({order[i], at, count, layout.params[order[i]] + at * kFloat,
                         read < 0 ? -1 : read + at * size});
    }
  }
  end_bucket();
  PlaceOwn(shards);
  std::vector<int> owned(shards, 0);
  for (const int owner : owner_of_) place_among_owned_.push_back(owned[owner]++);
}

void StatePieces::PlaceOwn(int shards) {
  std::vector<int64_t> own(shards, 0), own_narrow(shards, 0);
  for (const Bucket& bucket : buckets_) {
    own_at_.push_back(own);
    own_narrow_at_.push_back(own_narrow);
    for (int m = 0; m < shards; ++m) {
      own[m] += AlignUp(bucket.pieces.bytes(m));
      if (bucket.narrow) own_narrow[m] += AlignUp(bucket.read.bytes(m));
    }
  }
  own_bytes_ = *std::max_element(own.begin(), own.end());
  own_narrow_bytes_ = *std::max_element(own_narrow.begin(), own_narrow.end());
}

// Each piece ends with the block that contains the end of its even share.
void StatePieces::AddBucket(const StageProgram& program, int first, int end, int shards) {
  Bucket& bucket = buckets_.emplace_back();
  bucket.experts = program.params[blocks_[first].param].expert;
  bucket.narrow = program.params[blocks_[first].param].type.dtype != DType::kF32;
  bucket.first_block = first;
  bucket.end_block = end;
  bucket.at = blocks_[first].at;
  bucket.read_at = blocks_[first].read_at;
  const Param& last = program.params[blocks_[end - 1].param];
  const int64_t size = last.type.bytes() / last.type.elements();
  const int64_t bytes = blocks_[end - 1].at + blocks_[end - 1].count * kFloat - bucket.at;
  const int64_t read_bytes =
      blocks_[end - 1].read_at + blocks_[end - 1].count * size - bucket.read_at;
  int block = first;
  for (int m = 0; m < shards; ++m) {
    const int64_t share_end = bytes * (m + 1) / shards;
    for (; block < end && (m + 1 == shards || blocks_[block].at - bucket.at < share_end); ++block) {
      owner_of_.push_back(m);
      bucket_of_.push_back(static_cast<int>(buckets_.size()) - 1);
    }
    bucket.pieces.begin.push_back(block < end ? blocks_[block].at - bucket.at : bytes);
    bucket.read.begin.push_back(block < end ? blocks_[block].read_at - bucket.read_at : read_bytes);
  }
}

std::vector<int> StatePieces::BlocksOf(int member) const {
  std::vector<int> own;
  for (size_t b = 0; b < blocks_.size(); ++b) {
    if (owner_of_[b] == member) own.push_back(static_cast<int>(b));
  }
  return own;
}

int64_t StatePieces::OwnAt(int block) const {
  const int bucket = bucket_of_[block], owner = owner_of_[block];
  const Bucket& of = buckets_[bucket];
  return own_at_[bucket][owner] + blocks_[block].at - of.at - of.pieces.begin[owner];
}

int64_t StatePieces::OwnNarrowAt(int block) const {
  const int bucket = bucket_of_[block], owner = owner_of_[block];
  const Bucket& of = buckets_[bucket];
  return own_narrow_at_[bucket][owner] + blocks_[block].read_at - of.read_at - of.read.begin[owner];
}

StateBytes StateOf(const StageLayout& layout, const StatePieces& pieces, Sharding sharding,
                   int versions) {
  StateBytes bytes;
  bytes.older = (versions - 1) * layout.read_bytes();
  bytes.grads = layout.param_bytes;
  bytes.params = layout.param_bytes;
  bytes.working = layout.working_bytes;
  bytes.moment = sharding == Sharding::kNone ? layout.param_bytes : pieces.own_bytes();
  if (sharding == Sharding::kParameters) {
    bytes.params = pieces.own_bytes();
    bytes.working = pieces.own_narrow_bytes();
  }
  return bytes;
}

}  // namespace stringline
