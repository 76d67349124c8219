// Random numbers, equal on every machine for a seed.
#pragma once

#include <cstdint>

namespace stringline::search {

// SplitMix64 (Steele, Lea, Flood 2014).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  // 0 .. count - 1.
  int64_t Below(int64_t count) {
    return static_cast<int64_t>(
        (static_cast<unsigned __int128>(Next()) * static_cast<unsigned __int128>(count)) >> 64);
  }
  double Share() { return static_cast<double>(Next() >> 11) * 0x1p-53; }  // 0 .. 1
  bool OneIn(int64_t count) { return Below(count) == 0; }

 private:
  uint64_t state_;
};

}  // namespace stringline::search
