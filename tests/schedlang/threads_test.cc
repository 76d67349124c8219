// Threads that the library starts leave the signals that stop a process to the thread that waits
// for them.
#include "schedlang/base/threads.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace stringline {
namespace {

bool Blocks(int signal) {
  sigset_t mask;
  sigemptyset(&mask);
  pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  return sigismember(&mask, signal) == 1;
}

TEST(Threads, LeaveStopSignalsToOthers) {
  bool blocked[3] = {};
  std::vector<std::thread> threads;
  ASSERT_TRUE(StartThreads(
                  1,
                  [&blocked] {
                    blocked[0] = Blocks(SIGINT);
                    blocked[1] = Blocks(SIGTERM);
                    blocked[2] = Blocks(SIGUSR1);
                  },
                  &threads)
                  .ok());
  threads[0].join();
  EXPECT_TRUE(blocked[0] && blocked[1]);
  EXPECT_FALSE(blocked[2]);
  EXPECT_FALSE(Blocks(SIGINT) || Blocks(SIGTERM)) << "the starting thread is as before";
}

}  // namespace
}  // namespace stringline
