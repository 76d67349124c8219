// Declares the memory read and written by launches to the stand-in for the CUDA runtime, which
// tests link: it reports conflicting accesses without an order between them. Beside the real
// runtime the declarations have no effect. Copies, fills and the library's products need none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

extern "C" {

struct StringlineUse {
  const void* begin;
  size_t bytes;
  int writes;  // 1, or 0: only reads
};

// Defined by the stand-in only. The first declares the memory of every kernel that this thread
// launches from now on; the second, the memory of the kernel whose twin runs.
__attribute__((weak)) void stringline_declare(const StringlineUse* uses, int count);
__attribute__((weak)) void stringline_twin_uses(const void* begin, size_t bytes, int writes);

}  // extern "C"

namespace stringline {

// During its lifetime, kernels launched by this thread use these.
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

// Declares the use of a twin, called while the twin runs.
inline void TwinUses(const void* begin, int64_t bytes, bool writes) {
  if (stringline_twin_uses != nullptr && bytes > 0) {
    stringline_twin_uses(begin, static_cast<size_t>(bytes), writes ? 1 : 0);
  }
}

}  // namespace stringline
