// Every launch of this test program plays compiled kernels. STRINGLINE_PLAY_ALL=1 insists that all
// of them are played and leave room for other blocks, and STRINGLINE_TAKE_OUT_BARRIERS=1 that no
// barrier can be missed.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "tests/cuda/ptx/heap.h"
#include "tests/cuda/ptx/played.h"
#include "tests/cuda/standin/kernel_names.h"

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
        EXPECT_EQ(kernels.launches().count(name), 1u)
            << "never played: " << ShownKernel(Demangled(name));
      }
    }
    if (IsSet("STRINGLINE_PLAY_ALL")) ExpectRoom(kernels.shared_bytes());
    if (IsSet("STRINGLINE_TAKE_OUT_BARRIERS")) ExpectNoticed(kernels.removal());
  }

 private:
  // Shared memory leaves room for four blocks on a multiprocessor of an H100, or for as many as are
  // named.
  static void ExpectRoom(const std::map<std::string, int64_t>& shared_bytes) {
    constexpr int64_t kShared = 228 << 10, kOfEveryBlock = 1 << 10;
    const std::map<std::string, int> few = {
        {"AttentionGradKeys", 1},   {"AttentionGradQueries", 1},   {"Attention", 2},
        {"GroupedTensorLinear", 1}, {"GroupedTensorInputGrad", 1}, {"GroupedTensorWeightGrad", 1}};
    for (const auto& [kernel, bytes] : shared_bytes) {
      const auto named = few.find(kernel.substr(0, kernel.find_first_of("< ")));
      EXPECT_GE(kShared / (bytes + kOfEveryBlock), named == few.end() ? 4 : named->second)
          << kernel << ": " << bytes << " bytes of shared memory";
    }
  }
  // A barrier of a warp comes with each of its reductions, and orders nothing where the body has no
  // scratch memory.
  static void ExpectNoticed(const ptx::BarrierRemoval& removal) {
    std::printf("%lld barriers taken out and noticed, %zu of warps not\n",
                static_cast<long long>(removal.noticed()),
                removal.UnnoticedOf(ptx::Kind::kWarpBarrier).size());
    std::map<std::string, int> harmless = {
        // The last running sum's barrier, the kernel's last.
        {"PlanGroups (256 threads)", 1},
        // That before the first copies into scratch memory: here nothing is prepared for them.
        {"GroupedTensorLinear (256 threads)", 1},
        {"GroupedTensorInputGrad (256 threads)", 1},
    };
    for (const auto& [kernel, barrier] : removal.UnnoticedOf(ptx::Kind::kBarrier)) {
      EXPECT_GE(--harmless[kernel], 0) << kernel << ": " << barrier;
    }
    for (const auto& [kernel, left] : harmless) EXPECT_LE(left, 0) << kernel << " misses all";
  }
  static bool IsSet(const char* name) { return std::getenv(name) != nullptr; }
};

[[maybe_unused]] auto* const kEnvironment =
    testing::AddGlobalTestEnvironment(new PlayCompiledKernels);

}  // namespace
}  // namespace stringline
