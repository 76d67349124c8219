// Operations enqueued on a stream, for devices with a dispatcher of their own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "executor/engine/device.h"
#include "schedlang/base/sl_check.h"

namespace stringline {

struct Outside;

enum class StreamOpKind : uint8_t {
  kLaunch,
  kCopy,
  kRecord,
  kWait,
  kMeet,
  kHold,
  kMark,
  kAwait,
  kTurn
};

// `Meeting` is the device's type for the meeting of streams in a call.
template <typename Meeting>
struct StreamOp {
  StreamOpKind kind = StreamOpKind::kLaunch;
  int32_t index = -1;   // for kRecord and kWait: the event; for kMeet: the side; for kTurn: a
                        // TurnOp
  uint32_t target = 0;  // for kWait: the number of the event's records to wait for
  void (*run)(const void* self, int64_t argument, NativeStream stream) = nullptr;  // for kLaunch
  const void* self = nullptr;  // for kLaunch and kMark, and kCopy's source; for kMeet and kAwait:
                               // the end
  int64_t argument = 0;  // for kLaunch; for kCopy the bytes, for kHold the duration; for kMark the
                         // name's index; for kTurn the number
  union {
    WorkTimes* times = nullptr;                             // for kLaunch and kHold
    void* to;                                               // for kCopy
    Meeting* meeting;                                       // for kMeet
    const Outside* outside;                                 // for kAwait
    Turns* turns;                                           // for kTurn
    std::string (*print)(const void* self, int64_t index);  // for kMark
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
  // `records` counts the event's enqueued records, on all streams.
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
  void Turn(Turns* turns, TurnOp turn, uint32_t number) {
    Op& op = Append(StreamOpKind::kTurn);
    op.index = static_cast<int32_t>(turn);
    op.turns = turns;
    op.argument = number;
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
