// Vector clocks: the ops known to have run, by the order of streams, the events between them and
// the waits of the host; and the last users of every piece of memory. Two unordered uses, at least
// one of them a write, are a race, in whatever order they happened to run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace standin {

// By line (a stream, or a stream's part of a graph) the number of its ops that have run before.
class Clock {
 public:
  uint32_t At(int line) const {
    return static_cast<size_t>(line) < times_.size() ? times_[static_cast<size_t>(line)] : 0;
  }
  uint32_t Tick(int line);
  // Returns true if the clock changed.
  bool Merge(const Clock& other);

 private:
  std::vector<uint32_t> times_;
};

// Bytes used by an op.
struct Use {
  const void* begin = nullptr;
  size_t bytes = 0;
  bool writes = false;
};

class Uses {
 public:
  // Begins an op on a line, after all ops in `clock`, which has ticked for it.
  void Begin(int line, const Clock& clock, const char* what);
  // The op uses these bytes. The first race is kept as a text.
  void Add(const Use& use);
  // The bytes are freed, and may be allocated anew.
  void Forget(const void* begin, size_t bytes);
  void Reset() { *this = Uses(); }

  const std::string& race() const { return race_; }

 private:
  struct Stamp {
    int line = -1;
    uint32_t time = 0;
    const char* what = "";
  };
  struct Piece {
    const char* end = nullptr;
    Stamp written;
    std::vector<Stamp> read;  // since the last write
  };
  // Splits the piece around `at`: a piece then begins at `at`.
  void Split(const char* at);
  void Check(const Stamp& before, bool wrote, const Use& use);

  std::map<const char*, Piece> pieces_;  // by begin
  Stamp now_;
  const Clock* clock_ = nullptr;
  std::string race_;
};

}  // namespace standin
