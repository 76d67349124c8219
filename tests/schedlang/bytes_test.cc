// Amounts of memory, as people read them.
#include "schedlang/base/bytes.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace stringline {
namespace {

constexpr int64_t kKiB = 1024, kMiB = kKiB * 1024, kGiB = kMiB * 1024, kTiB = kGiB * 1024;

TEST(BytesTest, AreInTheLargestUnitOfWhichThereIsAWholeOne) {
  EXPECT_EQ(PrintBytes(0), "0 B");
  EXPECT_EQ(PrintBytes(1023), "1023 B");
  EXPECT_EQ(PrintBytes(1024), "1.00 KiB");
  EXPECT_EQ(PrintBytes(kMiB - 1), "1024.00 KiB");
  EXPECT_EQ(PrintBytes(kGiB + kGiB / 2), "1.50 GiB");
  EXPECT_EQ(PrintBytes(5000 * kTiB), "5000.00 TiB");
  EXPECT_EQ(PrintBytes(kGiB + kGiB / 2, 0), "2 GiB");
  EXPECT_EQ(PrintBytes(kMiB + kKiB, 3), "1.001 MiB");
}

TEST(BytesTest, ShareTheUnitOfALargerFigure) {
  EXPECT_EQ(PrintBytesBeside(3 * kGiB, 512 * kMiB, 3), "0.500 GiB");
  EXPECT_EQ(PrintBytesBeside(3 * kGiB, 0, 3), "0.000 GiB");
  // Half of the last digit is seen, less is not.
  EXPECT_EQ(PrintBytesBeside(kGiB, kGiB / 2000 + 1, 3), "0.001 GiB");
  EXPECT_EQ(PrintBytesBeside(kGiB, kGiB / 2000 - 1, 3), "0.512 MiB");
  EXPECT_EQ(PrintBytesBeside(kGiB, 1, 3), "0.001 KiB");
  EXPECT_EQ(PrintBytesBeside(kGiB, 1, 2), "1 B");
  EXPECT_EQ(PrintBytesBeside(kGiB, kGiB / 100, 1), "10.2 MiB");
}

}  // namespace
}  // namespace stringline
