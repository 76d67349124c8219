// Strangers that knock at the ports of a test's processes, in a process of their own.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>

namespace stringline {

class Strangers {
 public:
  // So many, at this port and every other on which this process, or a child of it, listens now or
  // later. Each of them connects again and again; and says nothing, random bytes, half a proof,
  // a frame that never ends, or closes at once.
  Strangers(int count, int port);
  ~Strangers();
  Strangers(const Strangers&) = delete;
  Strangers& operator=(const Strangers&) = delete;

  // The number of connections that they have had; in processes that are forked later, too.
  int64_t had() const { return *had_; }
  // Waits until they have had so many.
  void Await(int64_t connections) const;

 private:
  pid_t pid_ = -1;
  std::atomic<int64_t>* had_ = nullptr;  // in memory that the processes share
};

}  // namespace stringline
