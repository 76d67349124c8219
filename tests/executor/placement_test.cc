// Buffers in one block, and parts of groups on lanes.
#include "executor/engine/placement.h"

#include <random>

#include "gtest/gtest.h"
#include "tests/executor/plans.h"

namespace stringline {
namespace {

TEST(Placement, BuffersAliveAtOnceShareNoByte) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 50; ++round) {
    std::vector<Lifetime> buffers(60);
    int64_t all = 0;
    for (Lifetime& buffer : buffers) {
      buffer.first = static_cast<int>(random() % 40);
      buffer.last = buffer.first + static_cast<int>(random() % 8);
      buffer.bytes = static_cast<int64_t>(random() % 1000);
      all += AlignUp(buffer.bytes);
    }
    const Placement placement = PlaceByLifetime(buffers);
    EXPECT_LT(placement.bytes, all);
    for (size_t i = 0; i < buffers.size(); ++i) {
      const int64_t begin = placement.offsets[i], end = begin + buffers[i].bytes;
      EXPECT_EQ(begin % kBufferAlignment, 0);
      EXPECT_LE(end, placement.bytes);
      for (size_t j = 0; j < i; ++j) {
        const bool together =
            buffers[i].first <= buffers[j].last && buffers[j].first <= buffers[i].last;
        const int64_t other = placement.offsets[j];
        EXPECT_TRUE(!together || end <= other || other + buffers[j].bytes <= begin);
      }
    }
  }
}

TEST(Placement, OneAfterTheOtherUseTheSameBytes) {
  const std::vector<Lifetime> buffers = {{0, 1, 100}, {2, 3, 100}, {4, 5, 100}};
  EXPECT_EQ(PlaceByLifetime(buffers).bytes, 128);
}

}  // namespace
}  // namespace stringline
