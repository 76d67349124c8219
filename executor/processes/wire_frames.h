// The frames that two processes exchange over their connection: a header, then as many bytes as its
// `length` says.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "executor/engine/group.h"

namespace stringline {

inline constexpr uint32_t kWireMark = 0x31525753;  // "SWR1"
inline constexpr int64_t kMostWireText = 1 << 16;

enum class WireFrame : uint8_t {
  kReady = 1,  // a receiver can take a message
  kData,       // the message
  kUnasked,    // a message of a collective, sent before its receiver was known to be ready
  kDiffers,    // the call of `from` does not match that of `to`
  kNoticed,    // a failure, for the process that decides
  kFail,       // the failure of the run
  kAsk,        // for the receiver's waits, messages and states
  kAnswer,
  kBye,
  kRecord  // a wish for records of the run; `index` is its number
};

// Failures use fields of the call. In kNoticed `peer` is the process that died, `from` the one
// whose connection to it closed, and `to` a process that is late, or -1. In kAsk `peer` is a
// process that seems dead, and `from` the process for which another asks, or -1; kAnswer gives
// `from` and `index` back, and in `peer` the process that lives, or -1.
struct WireHeader {
  uint32_t mark = 0;
  WireFrame kind = WireFrame::kBye;
  CallKind call = CallKind::kSend;
  int32_t group = 0, from = 0, to = 0;
  int32_t peer = 0;              // of the call
  int64_t bytes = 0, index = 0;  // of the call; `index` of a failure: its code
  uint64_t shape = 0;            // ShapeOfRows of the call
  // The bytes that the receiver takes in kReady, and that the sender has in kUnasked; -1: nothing
  // moves.
  int64_t room = 0;
  int64_t turn = 0;  // of kReady: the number of receives before it on the lane
  int64_t length = 0;
  // Over MPI: the bytes are a message of their own with this tag; 0: they are behind the header.
  int32_t tag = 0;
};

// A frame to be written to another process.
struct Outgoing {
  WireHeader header;
  const char* bytes = nullptr;
  std::string text;  // instead of bytes
  int waiting = -1;  // done when the frame is written (WireWaits); -1: none
};

}  // namespace stringline
