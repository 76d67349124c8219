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
  bool constant = false;            // no traces
  uint64_t base = 0, base_end = 0;  // its allocation
  Trace* traces = nullptr;          // of `base`, once the piece is used
};

// The traces of allocations, kept from launch to launch: a launch ignores what others left.
class KeptTraces {
 public:
  // Zeros where nothing was kept.
  Trace* Of(uint64_t begin, uint64_t end, int unit);
  void Forget() {
    kept_.clear();
    bytes_ = 0;
  }
  size_t bytes() const { return bytes_; }

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
  size_t bytes_ = 0;  // all that was ever taken
};

// Bytes as they were before a launch touched them.
struct Saved {
  Piece piece;
  std::vector<char> bytes;
};

// Pieces in order, without overlaps.
class Memory {
 public:
  // The contents of every piece are appended to `saved` before it is used for the first time; null:
  // not needed.
  Memory(std::vector<Piece> allocations, const std::vector<Piece>& declared, int unit,
         KeptTraces* kept, std::vector<Saved>* saved = nullptr);

  // The piece that holds all the bytes; null: none. `last` is a guess, at first -1.
  const Piece* Find(uint64_t address, int bytes, int* last) {
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

 private:
  const Piece* Search(uint64_t address, int bytes, int* last);
  void AddDeclared(const std::vector<Piece>& declared);

  std::vector<Piece> allocations_, pieces_;
  std::vector<char> used_;  // by piece
  const int unit_;
  KeptTraces* const kept_;
  std::vector<Saved>* const saved_;
};

}  // namespace stringline::ptx
