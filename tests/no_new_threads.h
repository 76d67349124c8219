// A machine that starts no thread, for tests of this failure.
#pragma once

#include <gtest/gtest.h>
#include <pthread.h>

namespace stringline {

// While an object lives, the stacks of new threads are larger than any address space, so that the
// system refuses every thread: "Resource temporarily unavailable".
class NoNewThreads {
 public:
  NoNewThreads() {
    pthread_attr_t huge;
    EXPECT_EQ(pthread_getattr_default_np(&usual_), 0);
    EXPECT_EQ(pthread_getattr_default_np(&huge), 0);
    EXPECT_EQ(pthread_attr_setstacksize(&huge, size_t{1} << 47), 0);
    EXPECT_EQ(pthread_setattr_default_np(&huge), 0);
    pthread_attr_destroy(&huge);
  }
  ~NoNewThreads() {
    EXPECT_EQ(pthread_setattr_default_np(&usual_), 0);
    pthread_attr_destroy(&usual_);
  }
  NoNewThreads(const NoNewThreads&) = delete;
  NoNewThreads& operator=(const NoNewThreads&) = delete;

 private:
  pthread_attr_t usual_;
};

}  // namespace stringline
