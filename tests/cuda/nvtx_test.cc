// A tool for NVTX, linked into this program: ranges are named after the plan's actions.
#define NVTX_NO_IMPL  // uses the device's implementation of NVTX
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include "executor/cuda/copies/group.h"
#include "executor/cuda/device.h"
#include "executor/engine/interpreter.h"
#include "executor/engine/recorder.h"
#include "gtest/gtest.h"
#include "tests/cuda/standin/standin.h"
#include "tests/executor/plans.h"

namespace {

// The tool's observations: the names of domains, and of ranges as they began.
struct ToolSaw {
  bool looks = false;
  std::vector<std::string> domains, ranges;
  int open = 0, deepest = 0;
  std::deque<std::string> registered;  // a deque: elements do not move
};
ToolSaw& Saw() {
  static auto* const saw = new ToolSaw;
  return *saw;
}

nvtxDomainHandle_t CreateDomain(const char* name) {
  if (!Saw().looks) return nullptr;
  Saw().domains.push_back(name);
  return reinterpret_cast<nvtxDomainHandle_t>(&Saw());
}
nvtxStringHandle_t RegisterString(nvtxDomainHandle_t, const char* text) {
  return reinterpret_cast<nvtxStringHandle_t>(&Saw().registered.emplace_back(text));
}
int PushRange(nvtxDomainHandle_t, const nvtxEventAttributes_t* range) {
  Saw().ranges.push_back(*reinterpret_cast<const std::string*>(range->message.registered));
  Saw().deepest = std::max(Saw().deepest, ++Saw().open);
  return Saw().open;
}
int PopRange(nvtxDomainHandle_t) { return --Saw().open; }

int Attach(NvtxGetExportTableFunc_t get_table) {
  const auto* const callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (!callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size)) return 0;
  const auto set = [&](int index, auto function) {
    *table[index] = reinterpret_cast<NvtxFunctionPointer>(function);
  };
  set(NVTX_CBID_CORE2_DomainCreateA, CreateDomain);
  set(NVTX_CBID_CORE2_DomainRegisterStringA, RegisterString);
  set(NVTX_CBID_CORE2_DomainRangePushEx, PushRange);
  set(NVTX_CBID_CORE2_DomainRangePop, PopRange);
  return 1;
}

}  // namespace

// By this symbol NVTX finds a tool in the program.
extern "C" {
NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr = Attach;
}

namespace stringline {
namespace {

TEST(Nvtx, RangesAreNamedAsThePlansActions) {
  standin_reset(1);
  Saw() = {};
  Saw().looks = true;
  auto device = CudaDevice::Make();
  Saw().looks = false;
  ASSERT_TRUE(device.ok()) << device.status();
  const Plan plan = LoweredFrom(
      "plan v P=2 M=1\n"
      "stages 0 1\n"
      "rank 0: 0F0 0B0\n"
      "rank 1: 1F0 1B0\n");
  CopyGroups groups(device->get());
  NoWork work;
  const auto step = Interpreter::Make(plan, &work, device->get(), &groups, nullptr);
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_EQ(Saw().domains, std::vector<std::string>{"stringline"});
  for (int i = 0; i < 2; ++i) {
    Saw().ranges.clear();
    (*step)->EnqueueStep();
    ASSERT_TRUE((*device)->Synchronize().ok());
    for (const Action& action : plan.actions) {
      const std::string name = Print(plan, action);
      EXPECT_NE(std::find(Saw().ranges.begin(), Saw().ranges.end(), name), Saw().ranges.end())
          << name;
    }
    EXPECT_EQ(Saw().deepest, 1);
    EXPECT_EQ(Saw().open, 0);
    // Every name is printed and registered once.
    EXPECT_EQ(Saw().registered.size(), plan.actions.size());
  }
  // A replay is a single range.
  (*step)->EnqueueStep();
  const auto captured = (*device)->Capture();
  ASSERT_TRUE(captured.ok()) << captured.status();
  Saw().ranges.clear();
  (*device)->Replay(*captured);
  ASSERT_TRUE((*device)->Synchronize().ok());
  EXPECT_EQ(Saw().ranges, std::vector<std::string>{"a captured step"});
}

// Then names are neither printed nor kept.
TEST(Nvtx, WithoutAToolThereIsNothing) {
  standin_reset(1);
  Saw() = {};
  auto device = CudaDevice::Make();
  ASSERT_TRUE(device.ok()) << device.status();
  const StreamId stream = (*device)->NewStream({}, 4);
  int printed = 0;
  (*device)->Mark(stream, {[](const void* self, int64_t) {
                             ++*static_cast<int*>(const_cast<void*>(self));
                             return std::string("a mark");
                           },
                           &printed, 0});
  (*device)->Launch(stream, {[](const void*, int64_t, NativeStream) {}, nullptr, 0});
  ASSERT_TRUE((*device)->Synchronize().ok());
  EXPECT_EQ(printed, 0);
  EXPECT_TRUE(Saw().ranges.empty());
}

}  // namespace
}  // namespace stringline
