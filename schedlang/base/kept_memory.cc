#include "schedlang/base/kept_memory.h"

#if defined(__linux__)
#include <malloc.h>
#endif

namespace stringline {

void KeepLargeMemory() {
#if defined(__GLIBC__)
  mallopt(M_MMAP_MAX, 0);         // large arrays come from the heap
  mallopt(M_TRIM_THRESHOLD, -1);  // which stays as large as it was
#endif
}

}  // namespace stringline
