// What tells files and plans apart that ought to be the same.
#pragma once

#include <cstdint>
#include <string>

namespace stringline {

// FNV-1a, number by number.
class Fnv {
 public:
  void Add(uint64_t number) { value_ = (value_ ^ number) * 1099511628211U; }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 14695981039346656037U;
};

// "4000 bytes, 8f3a…": a file's size and a hash of at most 64 pieces of it, which are all of one up
// to 4 MiB; "none" where it cannot be read.
std::string FingerprintOf(const std::string& path);

}  // namespace stringline
