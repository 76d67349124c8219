// Plays the threads of a block in lock step: all threads at the lowest address perform the
// instruction there, until they reach others or part. Barriers, shuffles and matrix instructions
// wait for their lanes.
//
// What block_memory.h calls a fault ends the block, and so does a barrier or shuffle that some of
// its lanes never reach.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/cuda/ptx/block_memory.h"
#include "tests/cuda/ptx/program.h"

namespace stringline::ptx {

class BlockPlayer {
 public:
  BlockPlayer(const Launch& launch, Time* time);

  // Returns the fault; empty: none.
  std::string Play(Size3 index);

 private:
  enum class State : uint8_t { kRuns, kAtBarrier, kTogether, kExited };
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

  template <bool kLoads>
  void Access(const Step& step);
  template <typename T, typename Cell>
  void Transfer(const Step& step, bool loads);
  void LoadMatrices(const Step& step);
  void BeginCopies(const Step& step);
  uint64_t AddressOf(const Step& step, int t) const;

  const Launch launch_;
  const Program& program_;
  Time& time_;
  const int threads_;
  BlockMemory memory_;
  // The instructions of the threads, or kIdle.
  struct Threads {
    std::vector<int32_t> pc;
    std::vector<State> state;
    std::vector<int32_t> waits_at;
  } at_;
  struct Group {
    Lanes lanes;
    std::vector<uint16_t> list;
    int32_t next = 0;  // the lowest instruction of the others
  } group_;
  std::vector<uint64_t> registers_;
  std::vector<std::byte*> reached_;
};

}  // namespace stringline::ptx
