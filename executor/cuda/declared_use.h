// What launches read and write, told to the stand-in for the CUDA runtime, which tests link: it
// finds uses of one piece of memory that nothing orders. Beside the real runtime nothing here does
// anything. Copies, fills and the library's products need not be declared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

extern "C" {

struct StringlineUse {
  const void* begin;
  size_t bytes;
  int writes;  // 1, or 0: it is only read
};

// Only the stand-in has these. What every kernel uses that this thread launches from now on; and
// what the kernel uses whose twin runs.
__attribute__((weak)) void stringline_declare(const StringlineUse* uses, int count);
__attribute__((weak)) void stringline_twin_uses(const void* begin, size_t bytes, int writes);

}  // extern "C"

namespace stringline {

// While it lives, the kernels that this thread launches use these.
class DeclaredUse {
 public:
  DeclaredUse(const StringlineUse* uses, size_t count) {
    if (stringline_declare != nullptr) stringline_declare(uses, static_cast<int>(count));
  }
  DeclaredUse(std::initializer_list<StringlineUse> uses) : DeclaredUse(uses.begin(), uses.size()) {}
  ~DeclaredUse() {
    if (stringline_declare != nullptr) stringline_declare(nullptr, 0);
  }
  DeclaredUse(const DeclaredUse&) = delete;
  DeclaredUse& operator=(const DeclaredUse&) = delete;
};

// Of a twin, when it runs.
inline void TwinUses(const void* begin, int64_t bytes, bool writes) {
  if (stringline_twin_uses != nullptr && bytes > 0) {
    stringline_twin_uses(begin, static_cast<size_t>(bytes), writes ? 1 : 0);
  }
}

}  // namespace stringline
