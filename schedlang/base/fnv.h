// FNV-1a over numbers: a hash with the same value on every machine.
#pragma once

#include <cstdint>

namespace stringline {

class Fnv {
 public:
  void Add(uint64_t number) { value_ = (value_ ^ number) * 1099511628211U; }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 14695981039346656037U;
};

}  // namespace stringline
