// Threads that may not be there: a limit of the user, of the container or of the memory for their
// stacks ends what the system gives.
#pragma once

#include <functional>
#include <thread>
#include <vector>

#include "absl/status/status.h"

namespace stringline {

// Starts `count` threads that run `work` and appends them to `threads`. ResourceExhausted when the
// system does not start one; those before it run, and the caller joins them as ever.
absl::Status StartThreads(int count, const std::function<void()>& work,
                          std::vector<std::thread>* threads);

// Does `work` on `count` threads at once, this one among them, and waits for all of them. Where the
// system has fewer, those do it.
void WorkOnThreads(int count, const std::function<void()>& work);

}  // namespace stringline
