// Every launch of this test program plays compiled kernels. STRINGLINE_PLAY_ALL=1 insists that all
// of them are played, and STRINGLINE_TAKE_OUT_BARRIERS=1 that no barrier can be missed.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/cuda/ptx/heap.h"
#include "tests/cuda/ptx/played.h"

namespace stringline {
namespace {

class PlayCompiledKernels : public testing::Environment {
 public:
  void SetUp() override {
    ptx::PlayedKernels& kernels = ptx::PlayedKernels::Get();
    ptx::HeapBegins();
    kernels.AddMemory(ptx::HeapPieces);
    if (IsSet("STRINGLINE_TAKE_OUT_BARRIERS")) kernels.TakeOutBarriers();
    kernels.Begin();
  }

  void TearDown() override {
    ptx::PlayedKernels& kernels = ptx::PlayedKernels::Get();
    std::printf("%lld thread-instructions played\n",
                static_cast<long long>(kernels.instructions()));
    if (IsSet("STRINGLINE_PLAY_ALL")) {
      for (const std::string& name : kernels.library().names()) {
        EXPECT_EQ(kernels.launches().count(name), 1u) << "never played: " << ptx::ShownName(name);
      }
    }
    if (!IsSet("STRINGLINE_TAKE_OUT_BARRIERS")) return;
    std::printf("%lld barriers taken out and noticed\n",
                static_cast<long long>(kernels.removal().noticed()));
    for (const std::string& barrier : kernels.removal().Unnoticed()) ADD_FAILURE() << barrier;
  }

 private:
  static bool IsSet(const char* name) { return std::getenv(name) != nullptr; }
};

[[maybe_unused]] auto* const kEnvironment =
    testing::AddGlobalTestEnvironment(new PlayCompiledKernels);

}  // namespace
}  // namespace stringline
