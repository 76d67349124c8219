#include "schedlang/base/kept_memory.h"

#if defined(__linux__)
#include <malloc.h>
#endif

#include "schedlang/base/threads.h"

namespace stringline {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kPagesOfTurn = 1024;
constexpr size_t kPagesForThreads = 4096;  // fewer are made while threads start

}  // namespace

void KeepLargeMemory() {
#if defined(__GLIBC__)
  mallopt(M_MMAP_MAX, 0);         // large arrays come from the heap
  mallopt(M_TRIM_THRESHOLD, -1);  // which stays as large as it was
#endif
}

void MakePages(void* begin, size_t bytes) {
  const size_t pages = bytes / kPage;
  if (pages < kPagesForThreads || ThreadsFor(bytes) == 1) return;
  volatile char* const first = static_cast<char*>(begin);
  const auto turns = static_cast<int>(pages / kPagesOfTurn);
  ForEachOnCores(turns, bytes, [first](int turn) {
    volatile char* const page = first + static_cast<size_t>(turn) * kPagesOfTurn * kPage;
    for (size_t k = 0; k < kPagesOfTurn; ++k) page[k * kPage] = 0;
  });
}

}  // namespace stringline
