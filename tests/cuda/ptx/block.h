// Plays the threads of a block in lock step: all threads at the lowest address perform the
// instruction there, until they reach others or part. Barriers, shuffles and matrix instructions
// wait for their lanes.
//
// Everything that a GPU would not do ends the block with a fault: an access that is not aligned or
// outside of the memory that the launch may use, a race, shared memory that is read before it is
// written, and a barrier or shuffle that some of its lanes never reach.
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

class BlockPlayer {
 public:
  BlockPlayer(const Launch& launch, Time* time);

  // Returns the fault; empty: none.
  std::string Play(Size3 index);

 private:
  enum class State : uint8_t { kRuns, kAtBarrier, kTogether, kExited };
  // The bytes of shared memory that a thread's asynchronous copy fills.
  struct Copy {
    int thread;
    int64_t to;
    int bytes;
    int group;
    std::byte values[16];
  };
  static constexpr int32_t kIdle = INT32_MAX;

  void Begin(Size3 index);
  bool Choose();
  void PlayGroup();
  // Performs an instruction of the group; returns false if the group has parted or waits.
  bool Perform(const Step& step, int32_t* pc);
  bool Branch(const Step& step, int32_t* pc);
  bool Guarded(const Step& step, int32_t* pc);
  bool Together(const Step& step, int32_t pc);
  void PerformTogether(const Step& step);
  void ReleaseWarps(const Step& step, int32_t pc);
  bool Barrier(int32_t pc);
  bool ReleaseBarrier();
  void Stuck();
  void Leave(int32_t pc);
  void SetGroup(int begin, int end);

  template <bool kLoads>
  void Access(const Step& step);
  template <typename T, typename Cell>
  void Transfer(const Step& step, bool loads);
  std::byte* Reach(const Step& step, int t, uint64_t address, int bytes, bool writes);
  std::byte* ReachShared(const Step& step, int t, uint64_t address, int bytes, bool writes);
  std::byte* ReachGlobal(const Step& step, int t, uint64_t address, int bytes, bool writes);
  bool Traced(const Step& step, int t, Trace* traces, uint64_t at, int bytes, int unit, bool writes,
              bool shared);
  void Race(const Step& step, int t, const Trace& trace, Trace::Found found, bool writes,
            const std::string& where);
  void LoadMatrices(const Step& step);
  void BeginCopies(const Step& step);
  void EndCopies(const Step& step);
  void Fault(const Step& step, int t, const std::string& what);
  uint64_t AddressOf(const Step& step, int t) const;

  const Launch launch_;
  const Program& program_;
  Time& time_;
  const int threads_;
  std::string fault_;
  // The instructions of the threads, or kIdle.
  struct Threads {
    std::vector<int32_t> pc;
    std::vector<State> state;
    std::vector<int32_t> waits_at;
    std::vector<uint16_t> warp_barriers;  // by warp
  } at_;
  struct Group {
    Lanes lanes;
    std::vector<uint16_t> list;
    int32_t next = 0;  // the lowest instruction of the others
  } group_;
  std::vector<uint64_t> registers_;
  struct Own {
    std::vector<std::byte> shared, local;
    std::vector<Trace> traces;
  } own_;
  std::vector<std::byte*> reached_;
  std::vector<int> guesses_;  // by step: the piece of memory
  std::deque<Copy> copies_;
  std::vector<int> groups_;  // by thread: committed groups of copies
  int64_t block_ = 0;
};

}  // namespace stringline::ptx
