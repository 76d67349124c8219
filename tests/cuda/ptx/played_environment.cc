// Every launch of this test program plays compiled kernels.
#include <gtest/gtest.h>

#include <cstdio>

#include "tests/cuda/ptx/played.h"

namespace stringline {
namespace {

class PlayCompiledKernels : public testing::Environment {
 public:
  void SetUp() override { ptx::PlayedKernels::Get().Begin(); }
  void TearDown() override {
    std::printf("%lld thread-instructions played\n",
                static_cast<long long>(ptx::PlayedKernels::Get().instructions()));
    for (auto& n : ptx::PlayedKernels::Get().library().names()) if (!ptx::PlayedKernels::Get().launches().count(n)) std::printf("never %s\n", ptx::ShownName(n).c_str());
  }
};

[[maybe_unused]] auto* const kEnvironment =
    testing::AddGlobalTestEnvironment(new PlayCompiledKernels);

}  // namespace
}  // namespace stringline
