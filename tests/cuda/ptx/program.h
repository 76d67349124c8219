// A kernel as a flat array of decoded instructions. Calls are inlined, registers are cells, and
// constants are registers too.
//
// A thread's registers are cells at byte offsets; the cells of all threads of a block lie side by
// side, so that an instruction is a loop over an array.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/cuda/ptx/module.h"

namespace stringline::ptx {

// The threads of a block that perform an instruction, and the registers of all its threads.
struct Lanes {
  std::byte* registers = nullptr;
  size_t stride = 0;  // threads for which there is room
  int begin = 0, end = 0;
  const uint16_t* list = nullptr;  // null: all from begin to end
  int count = 0;

  template <typename T>
  T* cells(uint32_t at) const {
    return reinterpret_cast<T*>(registers + at * stride);
  }
};

// f(thread) for each of them. A thread's results depend on no other thread's.
template <class F>
inline void ForEach(const Lanes& lanes, F f) {
  if (lanes.list == nullptr) {
    const int end = lanes.end;
#pragma GCC ivdep
    for (int t = lanes.begin; t < end; ++t) f(t);
  } else {
    for (int k = 0; k < lanes.count; ++k) f(lanes.list[k]);
  }
}

enum class Kind : uint8_t {
  kEach,         // `apply`, thread by thread
  kTogether,     // `apply`, warp by warp: the instruction waits for the lanes of its mask
  kWarpBarrier,  // the same, without `apply`
  kBarrier,
  kBranch,
  kExit,
  kLoad,
  kStore,
  kMatrices,  // ldmatrix
  kCopy,      // cp.async
  kCommit,
  kWait,
  kTime,
  kSleep,
};

enum class Space : uint8_t { kGeneric, kGlobal, kShared, kLocal, kParam };

constexpr int kMostOperands = 14;

struct Step {
  Kind kind = Kind::kEach;
  Space space = Space::kGeneric;
  uint8_t element = 0;  // bytes in memory
  uint8_t cell = 0;     // bytes of each register
  uint8_t count = 1;    // elements
  bool is_signed = false;
  bool transposed = false;
  bool guard_is = true;
  uint8_t address_bytes = 8;
  int32_t guard = -1;   // cell; -1: none
  int32_t target = -1;  // of a branch
  int32_t number = 0;   // of groups, bytes or lanes; the cell of a mask, -1: all lanes
  int64_t offset = 0;   // of the address; of the second address, of cp.async
  int64_t from_offset = 0;
  uint32_t address = 0;
  uint32_t at[kMostOperands] = {};  // results first
  void (*apply)(const Step&, const Lanes&) = nullptr;
  int32_t text = 0;  // index of its statement
};

struct Constant {
  uint32_t at;
  uint8_t bytes;
  uint64_t bits;
};

// A cell filled for every block: "%tid.x", or 0 of "%globaltimer", which is read when it is used.
struct Special {
  uint32_t at;
  std::string name;
};

struct Program {
  std::string name, shown;  // mangled; for messages
  std::vector<Step> steps;
  std::vector<Constant> constants;
  std::vector<Special> specials;
  std::vector<Statement> statements;
  std::vector<Variable> params;
  std::vector<int64_t> param_at;
  int64_t param_bytes = 0;
  uint32_t register_bytes = 0;
  int64_t shared_bytes = 0;  // static
  int64_t local_bytes = 0;
  // The smallest access to shared memory and to any other, at most 4 bytes.
  int shared_unit = 4, global_unit = 4;

  std::string TextOf(const Step& step) const;
};

// Generic addresses beside those of the host's memory.
constexpr uint64_t kSharedWindow = uint64_t{1} << 60;
constexpr uint64_t kLocalWindow = uint64_t{1} << 61;
constexpr uint64_t kParamWindow = uint64_t{1} << 62;
constexpr uint64_t kWindows = uint64_t{7} << 60;

// `variables` are the addresses of the module's variables in global memory.
absl::StatusOr<Program> DecodeKernel(const Module& module, const Function& entry,
                                     const std::map<std::string, uint64_t>& variables);

}  // namespace stringline::ptx
