// Threads that the system may refuse: limits of the user, of the container or of memory for stacks
// apply.
#pragma once

#include <functional>
#include <thread>
#include <vector>

#include "absl/status/status.h"

namespace stringline {

// Starts `count` threads that run `work`, and appends them to `threads`. They block SIGINT and
// SIGTERM: these are for the thread that waits for them, and would else end the process in whatever
// thread the system picks. ResourceExhausted when the
// system refuses a thread; earlier threads run, and the caller joins them.
absl::Status StartThreads(int count, const std::function<void()>& work,
                          std::vector<std::thread>* threads);

// The system gives this thread short turns of the processor, and so one soon after it wakes
// although others compute. Where the system knows no such turns (before Linux 6.12) nothing
// changes.
void TakeShortTurns();

// Runs `work` on `count` threads, among them the caller's, and waits for all. Uses fewer threads if
// the system refuses more.
void WorkOnThreads(int count, const std::function<void()>& work);

int Cores();

// The threads that pay for work on so many actions: one for each core, or only the caller's for
// few actions, and on the threads of WorkOnThreads.
int ThreadsFor(size_t actions);

// Calls work(0) .. work(count - 1) on so many threads at most (0: one for each core), in any order;
// on a single one in this order. An exception ends the calls, and is thrown again on the caller's
// thread.
void ForEachOnThreads(int count, int threads, const std::function<void(int)>& work);

// The same on ThreadsFor(actions) threads.
void ForEachOnCores(int count, size_t actions, const std::function<void(int)>& work);

}  // namespace stringline
