// Memory for the arrays of large plans, for a process that makes them one after the other and ends.
#pragma once

#include <cstddef>
#include <vector>

namespace stringline {

// From now on the process keeps the memory that it frees for its next arrays, which then need no
// new pages. Where the C library knows no such wish, nothing changes.
void KeepLargeMemory();

// The system makes a page of memory when it is first written to, which takes longer than to fill
// it. All cores that the caller may use write to the pages of a large array, before one thread
// fills it.
void MakePages(void* begin, size_t bytes);

// Makes room for so many values at the end, in pages that are made already.
template <typename T>
void ReserveOnCores(size_t count, std::vector<T>* values) {
  values->reserve(values->size() + count);
  MakePages(values->data() + values->size(), count * sizeof(T));
}

}  // namespace stringline
