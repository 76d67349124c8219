// Ends of messages that wait, each on a queue, of its lane and side. All are also in one list, the
// oldest first: which is late, and what waits, is found without a look at queues on which nothing
// does.
#pragma once

#include <cstdint>

#include "executor/engine/group.h"
#include "executor/processes/pooled_queues.h"
#include "schedlang/base/clock.h"

namespace stringline {

// A member's message to another.
struct Transfer {
  int from = 0, to = 0;  // members
  const void* source = nullptr;
  void* target = nullptr;
  int64_t bytes = 0;
  const Call* call = nullptr;
  bool at_most = false;  // the receiver has room for `bytes`, and takes fewer too
  bool mutual = false;   // the receiver sends the sender as many messages in the same call

  // True if its receiver takes a message of so many bytes.
  bool Takes(int64_t sent) const { return at_most ? sent <= bytes : sent == bytes; }
};

struct WireEnd {
  Transfer transfer;
  int group = 0;
  bool sends = false;
  bool asks = false;  // a receive that was reported as ready, or is of this process
  int64_t turn = 0;   // of a receive: those before it on its lane
  int waiting = -1;   // WireWaits
  // Set by WireEnds.
  int64_t since_ns = 0;
  bool first = false;          // of its queue
  int older = -1, newer = -1;  // places
};

class WireEnds {
 public:
  using Queue = PooledQueues<WireEnd>::Queue;

  // Begins to wait. Returns its place.
  int Append(Queue* queue, WireEnd end) {
    end.since_ns = NowNs();
    end.first = queue->empty();
    end.older = newest_;
    const int at = ends_.Push(queue, end);
    (newest_ < 0 ? oldest_ : ends_.at(newest_).newer) = at;
    newest_ = at;
    return at;
  }
  // The first of the queue waits no more.
  void Take(Queue* queue) {
    const WireEnd end = ends_.Pop(queue);
    (end.older < 0 ? oldest_ : ends_.at(end.older).newer) = end.newer;
    (end.newer < 0 ? newest_ : ends_.at(end.newer).older) = end.older;
    if (!queue->empty()) ends_.at(queue->first).first = true;
  }
  const WireEnd& Front(const Queue& queue) const { return ends_.Front(queue); }
  WireEnd& at(int place) { return ends_.at(place); }
  const WireEnd& at(int place) const { return ends_.at(place); }
  // The place of the one that waits longest, or -1; WireEnd::newer is the next.
  int oldest() const { return oldest_; }

 private:
  PooledQueues<WireEnd> ends_;
  int oldest_ = -1, newest_ = -1;
};

}  // namespace stringline
