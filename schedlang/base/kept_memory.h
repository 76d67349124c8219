// Memory for the arrays of large plans, for a process that makes them one after the other and ends.
#pragma once

namespace stringline {

// From now on the process keeps the memory that it frees for its next arrays, which then need no
// new pages. Where the C library knows no such wish, nothing changes.
void KeepLargeMemory();

}  // namespace stringline
