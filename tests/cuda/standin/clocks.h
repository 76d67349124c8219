// Vector clocks: who may rely on what has run, by the order of streams, the events between them and
// what the host has waited for; and who last used every piece of memory. Two uses that nothing
// orders, one of them to write, are a race, in whatever order they happened to run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace standin {

// By line (a stream, or what one stream had in a graph) how many of its ops have run before.
class Clock {
 public:
  uint32_t At(int line) const {
    return static_cast<size_t>(line) < times_.size() ? times_[static_cast<size_t>(line)] : 0;
  }
  uint32_t Tick(int line);
  // Returns whether that changed anything.
  bool Merge(const Clock& other);

 private:
  std::vector<uint32_t> times_;
};

// Bytes that an op uses.
struct Use {
  const void* begin = nullptr;
  size_t bytes = 0;
  bool writes = false;
};

class Uses {
 public:
  // What runs now: on this line, after all that the clock says, which has ticked for it.
  void Begin(int line, const Clock& clock, const char* what);
  // It uses these bytes. The first race there is stays as a text.
  void Add(const Use& use);
  // Nobody uses them any more, and they may become something else.
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
    std::vector<Stamp> read;  // since then
  };
  // So that a piece begins there, if one covers it.
  void Split(const char* at);
  void Check(const Stamp& before, bool wrote, const Use& use);

  std::map<const char*, Piece> pieces_;  // by begin
  Stamp now_;
  const Clock* clock_ = nullptr;
  std::string race_;
};

}  // namespace standin
