#include "executor/copies/group.h"
#include "gtest/gtest.h"
TEST(CudaDevice, Starts) {
  const auto device = stringline::CudaDevice::Make();
  EXPECT_TRUE(device.ok()) << device.status();
}
