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
#include "schedlang/base/sl_check.h"

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

// The command's status, and what it said.
int Cuobjdump(const std::string& arguments, std::string* text) {
  const std::string command = absl::StrCat("'", STRINGLINE_CUOBJDUMP, "' ", arguments, " 2>&1");
  FILE* const pipe = popen(command.c_str(), "r");
  SL_CHECK(pipe != nullptr) << command;
  char piece[4096];
  for (size_t got = 0; (got = fread(piece, 1, sizeof(piece), pipe)) > 0;) text->append(piece, got);
  return pclose(pipe);
}

void ReadKernels(const std::string& file, KernelsByGpu* kernels) {
  std::string text;
  ASSERT_EQ(Cuobjdump(absl::StrCat("--dump-resource-usage '", file, "'"), &text), 0) << text;
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

// The instructions of a kernel for an H100 whose name has these words, by their beginning.
int CountOf(const std::string& text, const std::vector<std::string>& words,
            const std::string& instruction) {
  int count = 0, kernels = 0;
  bool is_meant = false;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const size_t at = line.find("Function : ");
    if (at != absl::string_view::npos) {
      const std::string name = Demangled(std::string(line.substr(at + 11)));
      is_meant = true;
      for (const std::string& word : words) is_meant = is_meant && absl::StrContains(name, word);
      kernels += is_meant ? 1 : 0;
    }
    if (is_meant && absl::StrContains(line, absl::StrCat(" ", instruction))) ++count;
  }
  EXPECT_GT(kernels, 0) << words.front();
  return count;
}

TEST(KernelResources, VectorsAreStoredAndTilesMultipliedAsMeant) {
  std::string text;
  for (const absl::string_view file :
       absl::StrSplit(STRINGLINE_KERNEL_LIBRARIES, ':', absl::SkipEmpty())) {
    if (!absl::StrContains(file, "cuda_kernels")) continue;
    if (std::string(STRINGLINE_CUOBJDUMP).empty() ||
        Cuobjdump(absl::StrCat("--dump-sass --gpu-architecture sm_90 '", file, "'"), &text) != 0) {
      GTEST_SKIP() << "cuobjdump and nvdisasm of the CUDA toolkit are not installed";
    }
  }
  // Sixteen bytes in one instruction; those of four are of single numbers.
  const struct {
    std::vector<std::string> words;
    int most_of_four;
  } stores[] = {{{"::Swiglu<", "Bf16"}, 0},
                {{"::SwigluGrad<", "Bf16"}, 1},
                {{"::Gelu<", "Bf16"}, 0},
                {{"::NormGradInRegisters<", "Bf16"}, 0}};
  for (const auto& one : stores) {
    EXPECT_GT(CountOf(text, one.words, "STG.E.128 "), 0) << one.words.front();
    EXPECT_LE(CountOf(text, one.words, "STG.E "), one.most_of_four) << one.words.front();
  }
  for (const char* const body :
       {"GroupedTensorLinear", "GroupedTensorInputGrad", "GroupedTensorWeightGrad"}) {
    EXPECT_EQ(CountOf(text, {body}, "HMMA.16816.F32.BF16 "), 64) << body;
    EXPECT_EQ(CountOf(text, {body}, "LDSM.16.M"), 16) << body;
    EXPECT_GT(CountOf(text, {body}, "LDGSTS.E.BYPASS.128 "), 0) << body;
  }
}

}  // namespace
}  // namespace stringline
