// The compiled kernels of this build in the stand-in for CUDA's runtime: every launch plays its
// PTX.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda/ptx/barriers.h"
#include "tests/cuda/ptx/library.h"
#include "tests/cuda/standin/standin.h"

namespace stringline::ptx {

class PlayedKernels {
 public:
  // Those of this build, loaded once.
  static PlayedKernels& Get();

  // From now on the stand-in plays them.
  void Begin() { standin_play_with(&standin_); }

  // Launches may also use what this returns.
  void AddMemory(std::function<std::vector<Piece>()> memory) { memory_ = std::move(memory); }
  // Every launch also tries the barriers of its kernel.
  void TakeOutBarriers() { takes_out_ = true; }
  const BarrierRemoval& removal() const { return removal_; }

  Library& library() { return *library_; }
  Player& player() { return player_; }
  // By mangled name: launches so far.
  const std::map<std::string, int64_t>& launches() const { return launches_; }
  // By name as shown: the most shared memory of a block in them.
  const std::map<std::string, int64_t>& shared_bytes() const { return shared_; }
  int64_t instructions() const { return instructions_; }

 private:
  PlayedKernels();
  StandinPlayed Play(const StandinLaunch& launch);

  std::unique_ptr<Library> library_;
  Player player_;
  StandinPlayer standin_;
  std::function<std::vector<Piece>()> memory_;
  bool takes_out_ = false;
  BarrierRemoval removal_;
  std::map<std::string, int64_t> launches_, shared_;
  int64_t instructions_ = 0;
};

}  // namespace stringline::ptx
