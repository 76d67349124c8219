// The resources of the compiled kernels, for every GPU that they are compiled for: each can be
// launched, and spills no registers. Read by the toolkit's cuobjdump.
#include <cxxabi.h>
#include <gtest/gtest.h>
#include <stdio.h>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace stringline {
namespace {

// Registers of a multiprocessor; a warp allocates them in units of eight per thread.
constexpr int kRegisters = 65536;
constexpr int kRegisterUnit = 8;
// A block has 48 KiB of shared memory by default, 40 of which launches use (launch.h).
constexpr int kMostStaticBytes = 8 << 10;
// The stack of a double's angle reduction is no spill of a hot loop.
constexpr int kMostStackBytes = 64;

struct Kernel {
  std::string name;
  int registers = 0, stack = 0, shared = 0, local = 0;

  // Threads as launched: BodyKernel's template argument; of single warps, eight share a block.
  int threads() const {
    const auto at = name.find("BodyKernel<");
    int threads = 256;
    if (at == std::string::npos) return threads;
    const std::string rest = name.substr(at + std::string("BodyKernel<").size());
    EXPECT_TRUE(absl::SimpleAtoi(rest.substr(0, rest.find(',')), &threads)) << name;
    return threads == 32 ? 256 : threads;
  }
};

using KernelsByGpu = std::map<std::string, std::vector<Kernel>>;  // by "sm_90"

std::string Demangled(const std::string& name) {
  int status = 0;
  char* const text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  const std::string demangled = status == 0 ? text : name;
  std::free(text);
  return demangled;
}

// "REG:40 STACK:0 SHARED:1024 LOCAL:0 …"
void ReadUsage(absl::string_view line, Kernel* kernel) {
  for (const absl::string_view word : absl::StrSplit(line, ' ', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(word, ':');
    for (const auto& [name, value] : {std::pair("REG", &kernel->registers),
                                      {"STACK", &kernel->stack},
                                      {"SHARED", &kernel->shared},
                                      {"LOCAL", &kernel->local}}) {
      if (parts.first != name) continue;
      EXPECT_TRUE(absl::SimpleAtoi(parts.second, value)) << line;
    }
  }
}

void ReadKernels(const std::string& file, KernelsByGpu* kernels) {
  const std::string command =
      absl::StrCat("'", STRINGLINE_CUOBJDUMP, "' --dump-resource-usage '", file, "' 2>&1");
  FILE* const pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr) << command;
  std::string text;
  char piece[4096];
  for (size_t got = 0; (got = fread(piece, 1, sizeof(piece), pipe)) > 0;) text.append(piece, got);
  ASSERT_EQ(pclose(pipe), 0) << command << "\n" << text;
  std::string gpu, name;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (absl::ConsumePrefix(&line, "arch = ")) gpu = std::string(line);
    if (absl::ConsumePrefix(&line, "Function ")) name = std::string(absl::StripSuffix(line, ":"));
    if (!absl::StartsWith(line, "REG:")) continue;
    Kernel& kernel = (*kernels)[gpu].emplace_back();
    kernel.name = Demangled(name);
    ReadUsage(line, &kernel);
    EXPECT_GT(kernel.registers, 0) << line;
  }
}

TEST(KernelResources, EveryKernelCanBeLaunchedAndSpillsNothing) {
  if (std::string(STRINGLINE_CUOBJDUMP).empty()) {
    GTEST_SKIP() << "cuobjdump of the CUDA toolkit is not installed";
  }
  KernelsByGpu kernels;
  for (const absl::string_view file :
       absl::StrSplit(STRINGLINE_KERNEL_LIBRARIES, ':', absl::SkipEmpty())) {
    ReadKernels(std::string(file), &kernels);
  }
  ASSERT_FALSE(kernels.empty());
  const size_t count = kernels.begin()->second.size();
  EXPECT_GT(count, 100u);
  for (const auto& [gpu, of_gpu] : kernels) {
    EXPECT_EQ(of_gpu.size(), count) << gpu;
    for (const Kernel& kernel : of_gpu) {
      SCOPED_TRACE(absl::StrCat(kernel.name, " on ", gpu));
      const int registers = (kernel.registers + kRegisterUnit - 1) / kRegisterUnit * kRegisterUnit;
      EXPECT_LE(registers * kernel.threads(), kRegisters) << kernel.registers << " a thread";
      EXPECT_LE(kernel.shared, kMostStaticBytes);
      EXPECT_LE(kernel.stack, kMostStackBytes);
      EXPECT_EQ(kernel.local, 0);
    }
  }
}

}  // namespace
}  // namespace stringline
