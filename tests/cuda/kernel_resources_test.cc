// The resources of the compiled kernels, for every GPU that they are compiled for: each can be
// launched, and spills no registers. Read by the toolkit's cuobjdump.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tests/cuda/cuobjdump.h"
#include "tests/cuda/ptx/wide_rows.h"
#include "tests/cuda/standin/kernel_names.h"

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

// The least number of threads of a multiprocessor of sm_90 that registers allow; a row names the
// kernels that need more registers, and the blocks that must fit.
constexpr int kLeastThreads = 1024;
struct FewBlocks {
  const char* kernel;  // the beginning of its name
  int blocks;
  const char* part = "";  // and a part of it
};
constexpr FewBlocks kFewBlocks[] = {
    {"AttentionGradKeys<Bf16, 64, ", 2},
    {"AttentionGradKeys<float, 64, ", 2},
    {"AttentionGradKeys<", 1},
    {"AttentionGradQueries<", 2},
    {"Attention<Bf16, 64, ", 3},
    {"Attention<float, 64, ", 3},
    {"Attention<", 2},
    {"LinearOf<", 3},
    {"LinearInputGradOf<", 3},
    {"PlaceKeys", 3},
    {"AdamWUpdate", 3},
    {"CrossEntropy", 2},
    // Tiles in registers, and rows with the sums over them.
    {"GroupedTensor", 1},
    {"NormGradInRegisters<", 1, "float, float, 4096>"},
    {"NormGradInRegisters<", 2, ", 4096>"},
    {"NormGradInRegisters<", 2, "float, float, 2048>"},
    {"NormGradInRegisters<", 3, ", 2048>"},
    {"NormGradInRegisters<", 5, "float, float, 1024>"},
    {"NormGradInRegisters<", 6, ", 1024>"},
};
// Stacks in the code of sm_90: doubles' angles, and a spill.
constexpr const char* kLocalMemory[] = {"RotaryTable", "HeadNormGrad<float, float>"};

using KernelsByGpu = std::map<std::string, std::vector<Kernel>>;  // by "sm_90"

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
  const std::string text = Cuobjdump("--dump-resource-usage", file);
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

KernelsByGpu AllKernels() {
  KernelsByGpu kernels;
  for (const absl::string_view file :
       absl::StrSplit(STRINGLINE_KERNEL_LIBRARIES, ':', absl::SkipEmpty())) {
    ReadKernels(std::string(file), &kernels);
  }
  return kernels;
}

// Registers of a thread, as they are allocated.
int AllocatedRegisters(const Kernel& kernel) {
  return (kernel.registers + kRegisterUnit - 1) / kRegisterUnit * kRegisterUnit;
}

TEST(KernelResources, EveryKernelCanBeLaunchedAndSpillsNothing) {
  if (std::string(STRINGLINE_CUOBJDUMP).empty()) {
    GTEST_SKIP() << "cuobjdump of the CUDA toolkit is not installed";
  }
  KernelsByGpu kernels = AllKernels();
  ASSERT_FALSE(kernels.empty());
  const size_t count = kernels.begin()->second.size();
  EXPECT_GT(count, 100u);
  for (const auto& [gpu, of_gpu] : kernels) {
    EXPECT_EQ(of_gpu.size(), count) << gpu;
    for (const Kernel& kernel : of_gpu) {
      SCOPED_TRACE(absl::StrCat(kernel.name, " on ", gpu));
      const int registers = AllocatedRegisters(kernel);
      EXPECT_LE(registers * kernel.threads(), kRegisters) << kernel.registers << " a thread";
      EXPECT_LE(kernel.shared, kMostStaticBytes);
      EXPECT_LE(kernel.stack, kMostStackBytes);
      EXPECT_EQ(kernel.local, 0);
    }
  }
}

int LeastBlocks(const Kernel& kernel) {
  const std::string shown = ShownKernel(kernel.name);
  for (const FewBlocks& row : kFewBlocks) {
    if (absl::StartsWith(shown, row.kernel) && absl::StrContains(shown, row.part)) {
      return row.blocks;
    }
  }
  return kLeastThreads / kernel.threads();
}

TEST(KernelResources, RegistersLeaveRoomForEnoughBlocks) {
  if (std::string(STRINGLINE_CUOBJDUMP).empty()) {
    GTEST_SKIP() << "cuobjdump of the CUDA toolkit is not installed";
  }
  KernelsByGpu kernels = AllKernels();
  EXPECT_GT(kernels["sm_90"].size(), 100u);
  for (const Kernel& kernel : kernels["sm_90"]) {
    const int registers = AllocatedRegisters(kernel);
    EXPECT_GE(kRegisters / (registers * kernel.threads()), LeastBlocks(kernel))
        << ShownKernel(kernel.name) << ": " << kernel.registers << " registers";
  }
}

// The stores and the local memory in the code of each kernel of sm_90.
struct Code {
  StoreCounts stores;
  int local = 0;
};

std::map<std::string, Code> CodeOf(const std::string& file) {
  std::map<std::string, Code> all;
  Code* code = nullptr;
  for (absl::string_view line :
       absl::StrSplit(Cuobjdump("--dump-sass --gpu-architecture sm_90", file), '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (absl::ConsumePrefix(&line, "Function : ")) code = &all[ShownKernel(Demangled(line))];
    if (code == nullptr) continue;
    for (const absl::string_view word : absl::StrSplit(line, ' ')) {
      if (absl::StartsWith(word, "STL") || absl::StartsWith(word, "LDL")) ++code->local;
      if (!absl::StartsWith(word, "STG.E") && word != "STG") continue;
      if (absl::StrContains(word, ".128")) {
        ++code->stores.of_16;
      } else if (absl::StrContains(word, ".64")) {
        ++code->stores.of_8;
      } else if (!absl::StrContains(word, ".U16") && !absl::StrContains(word, ".U8")) {
        ++code->stores.of_4;
      }
    }
  }
  return all;
}

TEST(KernelResources, TheCodeStores16BytesAndUsesNoLocalMemory) {
  if (std::string(STRINGLINE_CUOBJDUMP).empty()) {
    GTEST_SKIP() << "cuobjdump of the CUDA toolkit is not installed";
  }
  size_t kernels = 0;
  for (const absl::string_view file :
       absl::StrSplit(STRINGLINE_KERNEL_LIBRARIES, ':', absl::SkipEmpty())) {
    for (const auto& [shown, code] : CodeOf(std::string(file))) {
      ++kernels;
      const bool may_use_local = std::any_of(
          std::begin(kLocalMemory), std::end(kLocalMemory),
          [&](const char* name) { return absl::StartsWith(shown, absl::StrCat(name, " (")); });
      EXPECT_TRUE(code.local == 0 || may_use_local) << shown << ": " << code.local;
      const WideRows* const row = WideRowsOf(shown);
      if (row == nullptr || !row->holds) continue;
      EXPECT_TRUE(Holds(*row, code.stores))
          << shown << ": " << code.stores.of_16 << " stores of 16 bytes, " << code.stores.of_8
          << " of 8, " << code.stores.of_4 << " of 4";
    }
  }
  EXPECT_GT(kernels, 100u);
}

// Lines of the code of sm_90 by kernel, without their bits.
std::map<std::string, std::vector<std::string>> LinesOf(const std::string& file) {
  std::map<std::string, std::vector<std::string>> all;
  std::vector<std::string>* lines = nullptr;
  for (absl::string_view line :
       absl::StrSplit(Cuobjdump("--dump-sass --gpu-architecture sm_90", file), '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (absl::ConsumePrefix(&line, "Function : ")) lines = &all[ShownKernel(Demangled(line))];
    if (lines == nullptr || !absl::StrContains(line, ';')) continue;
    lines->emplace_back(line.substr(0, line.find(';')));
  }
  return all;
}

// True if the line names one of `count` registers from R`first` on.
bool Names(const std::string& line, int first, int count) {
  for (const absl::string_view word : absl::StrSplit(line, absl::ByAnyChar(" ,.[]+-|"))) {
    int number = 0;
    if (!absl::StartsWith(word, "R") || !absl::SimpleAtoi(word.substr(1), &number)) continue;
    if (number >= first && number < first + count) return true;
  }
  return false;
}

// The loads in a loop with a barrier for each row whose registers are named again before the next
// barrier: a thread waits for them there.
std::vector<std::string> LoadsNotAhead(const std::vector<std::string>& lines, int* loads) {
  const auto is_barrier = [](const std::string& line) {
    return absl::StrContains(line, "BAR.SYNC");
  };
  std::vector<std::string> found;
  auto row = std::find_if(lines.begin(), lines.end(), is_barrier);
  while (row != lines.end()) {
    const auto next = std::find_if(row + 1, lines.end(), is_barrier);
    if (next == lines.end()) break;
    for (auto line = row; line != next; ++line) {
      const size_t at = line->find("LDG.E");
      int first = 0;
      if (at == std::string::npos) continue;
      const std::string to = line->substr(line->find(" R", at) + 2);
      EXPECT_TRUE(absl::SimpleAtoi(to.substr(0, to.find(',')), &first)) << *line;
      const int count = absl::StrContains(*line, ".128") ? 4 : 1;
      ++*loads;
      if (std::any_of(line + 1, next,
                      [&](const std::string& later) { return Names(later, first, count); })) {
        found.push_back(*line);
      }
    }
    row = next;
  }
  return found;
}

// Registers that are moved or unpacked where they are loaded make a thread wait for memory.
TEST(KernelResources, RowsOfNormsAreLoadedAhead) {
  if (std::string(STRINGLINE_CUOBJDUMP).empty()) {
    GTEST_SKIP() << "cuobjdump of the CUDA toolkit is not installed";
  }
  int kernels = 0;
  for (const absl::string_view file :
       absl::StrSplit(STRINGLINE_KERNEL_LIBRARIES, ':', absl::SkipEmpty())) {
    if (!absl::StrContains(file, "cuda_kernels")) continue;
    for (const auto& [shown, lines] : LinesOf(std::string(file))) {
      if (!absl::StartsWith(shown, "NormGradInRegisters<")) continue;
      ++kernels;
      int loads = 0;
      EXPECT_EQ(absl::StrJoin(LoadsNotAhead(lines, &loads), "\n"), "") << shown;
      EXPECT_GE(loads, 4) << shown;
    }
  }
  EXPECT_EQ(kernels, 18);
}

// The instructions of a kernel of sm_90 whose name has this word, by their beginning.
int CountOf(const std::string& text, const std::string& word, const std::string& instruction) {
  int count = 0, kernels = 0;
  bool is_meant = false;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const size_t at = line.find("Function : ");
    if (at != absl::string_view::npos) {
      is_meant = absl::StrContains(Demangled(std::string(line.substr(at + 11))), word);
      kernels += is_meant ? 1 : 0;
    }
    if (is_meant && absl::StrContains(line, absl::StrCat(" ", instruction))) ++count;
  }
  EXPECT_GT(kernels, 0) << word;
  return count;
}

TEST(KernelResources, TilesAreMultipliedOnTensorCores) {
  if (std::string(STRINGLINE_CUOBJDUMP).empty()) {
    GTEST_SKIP() << "cuobjdump of the CUDA toolkit is not installed";
  }
  std::string text;
  for (const absl::string_view file :
       absl::StrSplit(STRINGLINE_KERNEL_LIBRARIES, ':', absl::SkipEmpty())) {
    if (!absl::StrContains(file, "cuda_kernels")) continue;
    text = Cuobjdump("--dump-sass --gpu-architecture sm_90", std::string(file));
  }
  for (const char* const body :
       {"GroupedTensorLinear", "GroupedTensorInputGrad", "GroupedTensorWeightGrad"}) {
    EXPECT_EQ(CountOf(text, body, "HMMA.16816.F32.BF16 "), 64) << body;
    EXPECT_EQ(CountOf(text, body, "LDSM.16.M"), 16) << body;
    EXPECT_GT(CountOf(text, body, "LDGSTS.E.BYPASS.128 "), 0) << body;
  }
}
}  // namespace
}  // namespace stringline
