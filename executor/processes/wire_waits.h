// The streams that wait for messages. A stream goes on when all its messages are done, and then,
// if messages are slow, when it has been held for their time.
#pragma once

#include <cstdint>
#include <vector>

#include "executor/cpu/device.h"
#include "executor/processes/wake_event.h"

namespace stringline {

class WireWaits {
 public:
  // `wake` wakes the thread that calls EndHolds.
  WireWaits(CpuDevice* device, WakeEvent* wake) : device_(device), wake_(wake) {}

  // A stream that waits (CpuDevice::Await), and when it goes on.
  struct Onward {
    StreamId stream;
    int64_t held_ns = 0;          // hold after the last message
    int64_t* ended_ns = nullptr;  // the destination of that moment, or null
  };
  // A number for a stream that waits for `count` messages.
  int Add(const Onward& onward, int count);
  // One of its messages is done.
  void Done(int waiting);
  // Lets streams go on that have been held long enough. Returns when the next one is due; 0: none.
  int64_t EndHolds();

 private:
  struct Waiting {
    Onward onward;
    int left = 0;
  };
  struct Hold {
    int64_t due_ns = 0;
    int waiting = -1;
    friend bool operator>(const Hold& a, const Hold& b) { return a.due_ns > b.due_ns; }
  };
  void GoOn(int waiting);

  CpuDevice* const device_;
  WakeEvent* const wake_;
  std::vector<Waiting> waiting_;
  std::vector<int> free_;    // numbers not in use
  std::vector<Hold> holds_;  // a heap, the first due on top
};

}  // namespace stringline
