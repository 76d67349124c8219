// What is enqueued on one stream, as a device keeps it that gives it on itself, op by op.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "executor/device.h"
#include "schedlang/base/sl_check.h"

namespace stringline {

struct Outside;

enum class StreamOpKind : uint8_t { kLaunch, kCopy, kRecord, kWait, kMeet, kHold, kMark, kAwait };

// `Meeting` is where streams of that device meet.
template <typename Meeting>
struct StreamOp {
  StreamOpKind kind = StreamOpKind::kLaunch;
  int32_t index = -1;   // of kRecord and kWait: the event; of kMeet: the side
  uint32_t target = 0;  // of kWait: how many records of the event must have happened
  void (*run)(const void* self, int64_t argument, NativeStream stream) = nullptr;  // of kLaunch
  const void* self = nullptr;  // of kLaunch and kMark, and what kCopy reads; of kMeet
                               // and kAwait: the end
  int64_t argument = 0;  // of kLaunch; of kCopy the bytes, of kHold the duration; of kMark the
                         // name's index
  union {
    WorkTimes* times = nullptr;                             // of kLaunch and kHold
    void* to;                                               // of kCopy
    Meeting* meeting;                                       // of kMeet
    const Outside* outside;                                 // of kAwait
    std::string (*print)(const void* self, int64_t index);  // of kMark
  };
};

// A stream's ops, from the first that a step enqueued. The capacity is fixed.
template <typename Meeting>
struct StreamOps {
  using Op = StreamOp<Meeting>;
  LazyName name;
  std::vector<Op> ops;
  uint32_t enqueued = 0;

  void Launch(const Work& work, WorkTimes* times) {
    Op& op = Append(StreamOpKind::kLaunch);
    op.run = work.run;
    op.self = work.self;
    op.argument = work.argument;
    op.times = times;
  }
  void Copy(void* to, const void* from, int64_t bytes) {
    Op& op = Append(StreamOpKind::kCopy);
    op.self = from;
    op.to = to;
    op.argument = bytes;
  }
  // `records` counts those of the event that are enqueued, on any stream.
  void Record(EventId event, uint32_t* records) {
    Append(StreamOpKind::kRecord).index = event.value;
    ++*records;
  }
  void Wait(EventId event, uint32_t records) {
    Op& op = Append(StreamOpKind::kWait);
    op.index = event.value;
    op.target = records;
  }
  void Meet(Meeting* meeting, int side, const void* end) {
    Op& op = Append(StreamOpKind::kMeet);
    op.index = side;
    op.meeting = meeting;
    op.self = end;
  }
  void Await(const Outside* outside, const void* end) {
    Op& op = Append(StreamOpKind::kAwait);
    op.outside = outside;
    op.self = end;
  }
  void Mark(const LazyName& of) {
    Op& op = Append(StreamOpKind::kMark);
    op.print = of.print;
    op.self = of.self;
    op.argument = of.index;
  }
  void Hold(int64_t duration_ns, WorkTimes* times) {
    Op& op = Append(StreamOpKind::kHold);
    op.argument = duration_ns;
    op.times = times;
  }

 private:
  Op& Append(StreamOpKind kind) {
    SL_CHECK(enqueued < ops.size()) << Print(name) << " is full";
    Op& op = ops[enqueued++];
    op.kind = kind;
    return op;
  }
};

}  // namespace stringline
