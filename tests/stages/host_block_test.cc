// HostBlock's promises of order, and its detection of races.
#include "executor/cuda/bodies/host_block.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace stringline::cuda {
namespace {

// The tree of a reduction, written out.
struct Tree {
  std::string text;
};
std::string TreeOf(int n, int threads) {
  HostScratchMemory memory(0);
  const HostBlock block(0, 1, threads, &memory);
  return block
      .reduce(
          n, Tree{}, [](int i, Tree& s) { absl::StrAppend(&s.text, s.text.empty() ? "" : "+", i); },
          [](Tree& a, const Tree& b) {
            if (b.text.empty()) return;
            a.text = a.text.empty() ? b.text : absl::StrCat("(", a.text, " ", b.text, ")");
          })
      .text;
}

TEST(HostBlockTest, ReducesInTheOrderOfAGpu) {
  EXPECT_EQ(TreeOf(0, 32), "");
  EXPECT_EQ(TreeOf(3, 32), "((0 2) 1)");
  EXPECT_EQ(TreeOf(5, 32), "(((0 4) 2) (1 3))");
  EXPECT_EQ(TreeOf(34, 32).substr(0, 24), "(((((0+32 16) (8 24)) ((");
  EXPECT_EQ(TreeOf(33, 64).substr(0, 7), "((((((0");
  EXPECT_EQ(TreeOf(33, 64).substr(TreeOf(33, 64).size() - 4), " 32)");
}

TEST(HostBlockTest, ScratchIsSeenAfterASync) {
  HostScratchMemory memory(64);
  const HostBlock block(0, 1, 32, &memory);
  const auto words = block.scratch<int32_t>(0);
  block.each(64, [&](int i) { words.put(i, i); });
  block.sync();
  block.each(64, [&](int i) { EXPECT_EQ(words.get(63 - i), 63 - i); });
}

TEST(HostBlockDeathTest, FindsRaces) {
  HostScratchMemory memory(64);
  const HostBlock block(0, 1, 32, &memory);
  const auto words = block.scratch<int32_t>(0);
  const auto put_own = [&] { block.each(64, [&](int i) { words.put(i, i); }); };
  const auto read_next = [&] { block.each(64, [&](int i) { words.get((i + 1) % 64); }); };
  EXPECT_DEATH(
      {
        put_own();
        read_next();
      },
      "thread 0 reads word 1, which thread 1 has just written");
  EXPECT_DEATH(
      {
        put_own();
        block.sync();
        read_next();
        put_own();
      },
      "thread 0 writes word 0, which others have just read");
  EXPECT_DEATH(block.each(2, [&](int) { words.put(5, 1); }), "threads 1 and 0 write word 5");
  EXPECT_DEATH(words.get(64), "word 64");
  // A single thread's write and a read by all.
  EXPECT_DEATH(
      {
        block.once([&] { words.put(3, 1); });
        words.get(3);
      },
      "every thread reads word 3, which thread 0 has just written");
  EXPECT_DEATH(
      {
        words.get(3);
        block.once([&] { words.put(3, 1); });
      },
      "thread 0 writes word 3, which others have just read");
  EXPECT_DEATH(words.put(3, 1), "every thread writes word 3");
}

}  // namespace
}  // namespace stringline::cuda
