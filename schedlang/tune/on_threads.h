// Independent pieces of work on several threads.
#pragma once

#include <atomic>
#include <cstddef>

#include "schedlang/ask/rounds.h"
#include "schedlang/base/threads.h"

namespace stringline::tune {

// Does work(0) .. work(count - 1) on so many threads; 0: one for each core.
template <typename Work>
void OnThreads(size_t count, int threads, const Work& work) {
  if (count == 0) return;
  std::atomic<size_t> next = 0;
  WorkOnThreads(threads > 0 ? threads : Cores(), [&] {
    for (size_t i = next++; i < count; i = next++) work(i);
  });
}

}  // namespace stringline::tune
