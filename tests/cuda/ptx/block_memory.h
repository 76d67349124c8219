// The memory of a block's threads, and every rule about its use: alignment, bounds, what a kernel
// declared, races, and shared memory that is read before it is written.
//
// The first fault is kept, and ends the block.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "tests/cuda/ptx/memory.h"
#include "tests/cuda/ptx/program.h"
#include "tests/cuda/ptx/traces.h"

namespace stringline::ptx {

struct Size3 {
  unsigned x = 1, y = 1, z = 1;
  int64_t count() const { return int64_t{x} * y * z; }
};

struct Launch {
  const Program* program = nullptr;
  Size3 grid, block;
  int64_t dynamic_shared = 0;
  const std::byte* params = nullptr;
  Memory* memory = nullptr;
  int32_t without = -1;                   // the step of a barrier that is left out
  int64_t most_instructions = 1LL << 36;  // more are a fault
};

// Of all launches: intervals are counted, and blocks have their first.
struct Time {
  Interval interval;
  std::vector<uint32_t> blocks;  // of this launch: their first intervals
  int64_t ns = 0;                // of the launch
  int64_t instructions = 0;      // of single threads
};

class BlockMemory {
 public:
  static constexpr int kLanes = 32;

  // For so many threads.
  BlockMemory(const Launch& launch, Time* time, size_t threads);
  void Begin(int64_t block);

  // The bytes of a thread's access; null: a fault.
  std::byte* Reach(const Step& step, int t, uint64_t address, int bytes, bool writes);

  void PassBarrier();
  void PassWarpBarrier(const Step& step, int warp);

  // An asynchronous copy reads `given` bytes at once; the rest is zeros. It writes its bytes at the
  // wait; until then they have no value.
  void BeginCopy(const Step& step, int t, uint64_t to, uint64_t from, int given);
  void Commit(int t) { ++groups_[t]; }
  // Ends all but the last `number` committed groups of the thread.
  void EndCopies(const Step& step, int t);

  void Fault(const Step& step, int t, const std::string& what);
  const std::string& fault() const { return fault_; }

 private:
  struct Copy {
    uint64_t to;
    int bytes;
    int group;
    std::byte values[16];
  };

  std::byte* ReachShared(const Step& step, int t, uint64_t address, int bytes, bool writes);
  std::byte* ReachGlobal(const Step& step, int t, uint64_t address, int bytes, bool writes);
  void Traced(const Step& step, int t, Trace* traces, uint64_t at, int bytes, bool writes,
              bool shared);
  void Race(const Step& step, int t, const Trace& trace, Trace::Found found, bool writes,
            const std::string& where);

  const Launch& launch_;
  const Program& program_;
  Time& time_;
  int64_t block_ = 0;
  std::string fault_;
  std::vector<std::byte> shared_, local_;
  std::vector<Trace> traces_;            // of shared memory
  std::vector<uint16_t> warp_barriers_;  // by warp
  std::vector<int> guesses_;             // by step: the piece of memory
  // By thread: its copies in order, and its committed groups of copies.
  std::vector<std::deque<Copy>> copies_;
  std::vector<int> groups_;
};

}  // namespace stringline::ptx
