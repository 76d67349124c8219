// Takes barriers out of compiled kernels, one at a time, to see whether the removal is noticed: by
// a fault, or by other results.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/cuda/ptx/library.h"

namespace stringline::ptx {

class BarrierRemoval {
 public:
  // Plays a launch as it is. Then plays it again without each barrier whose removal no launch has
  // noticed before. The memory is left as by the first.
  Played Play(Player* player, const Program& program, const LaunchSize& size, void* const* args,
              const LaunchMemory& allowed);

  int64_t noticed() const { return noticed_; }
  // The barriers of blocks, or those of warps, that nobody missed.
  struct Unnoticed {
    std::string kernel;   // as shown
    std::string barrier;  // "`bar.sync 0` (PTX line 12), left out of 30 launches"
  };
  std::vector<Unnoticed> UnnoticedOf(Kind kind) const;

 private:
  struct Barrier {
    bool noticed = false;
    int launches = 0;
  };
  static constexpr int kMostLaunches = 40;

  bool Notices(Player* player, const Program& program, const LaunchSize& size, void* const* args,
               const std::vector<Saved>& before, const std::vector<Saved>& after,
               int64_t instructions);

  std::map<const Program*, std::map<int32_t, Barrier>> barriers_;
  int64_t noticed_ = 0;
};

}  // namespace stringline::ptx
