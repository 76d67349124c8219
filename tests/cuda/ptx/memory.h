// The memory of a launch: the pieces that it may use, and a trace of every few bytes of them.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <vector>

#include "tests/cuda/ptx/traces.h"

namespace stringline::ptx {

struct Piece {
  uint64_t begin = 0, end = 0;
  bool writable = true;
  Trace* traces = nullptr;  // of `base`; null: none
  uint64_t base = 0;
};

// The traces of allocations, kept from launch to launch: a launch ignores what others left.
class KeptTraces {
 public:
  // Zeros where nothing was kept.
  Trace* Of(uint64_t begin, uint64_t end, int unit);
  void Forget() { kept_.clear(); }

 private:
  struct Free {
    void operator()(Trace* traces) const { std::free(traces); }
  };
  struct Kept {
    uint64_t end = 0;
    int unit = 0;
    std::unique_ptr<Trace, Free> traces;
  };
  std::map<uint64_t, Kept> kept_;
};

// Pieces in order, without overlaps.
class Memory {
 public:
  Memory(std::vector<Piece> allocations, const std::vector<Piece>& declared, int unit,
         KeptTraces* kept);

  // The piece that holds all the bytes; null: none. `last` is a guess.
  const Piece* Find(uint64_t address, int bytes, int* last) const {
    if (static_cast<size_t>(*last) < pieces_.size()) {
      const Piece& piece = pieces_[static_cast<size_t>(*last)];
      if (address >= piece.begin && address + static_cast<uint64_t>(bytes) <= piece.end) {
        return &piece;
      }
    }
    return Search(address, bytes, last);
  }
  // True if the bytes are in an allocation.
  bool IsAllocated(uint64_t address, int bytes) const;
  const std::vector<Piece>& pieces() const { return pieces_; }

 private:
  const Piece* Search(uint64_t address, int bytes, int* last) const;

  std::vector<Piece> allocations_, pieces_;
};

}  // namespace stringline::ptx
