// What the interpreter runs, without knowing what it is: the work of every action, and where the
// bytes of every message lie. Real training, programs that do nothing and programs that only take
// time all stand behind this interface.
#pragma once

#include <cstdint>

#include "executor/device.h"
#include "schedlang/plan.h"

namespace stringline {

struct Bytes {
  void* data = nullptr;
  int64_t bytes = 0;
};

class StageWork {
 public:
  virtual ~StageWork() = default;

  // Asked once per action, when the step is put together. What is returned runs in every step, on
  // the rank's compute stream `lane`.
  virtual Work Compute(const Action& action, int lane) = 0;
  // Asked right after Compute: for how long the stream is held after that work has run.
  virtual int64_t HoldNs(const Action& /*action*/, int /*lane*/) { return 0; }
  // What a send reads, or where a receive writes. Without `data` nothing is copied, and the bytes
  // only tell how long the message is.
  virtual Bytes Payload(const Action& send_or_recv) const = 0;
};

// Actions that do nothing and messages without bytes: for tests of orders, and to measure overhead.
class NoWork final : public StageWork {
 public:
  Work Compute(const Action& /*action*/, int /*lane*/) override {
    return {[](const void*, int64_t) {}, nullptr, 0};
  }
  Bytes Payload(const Action& /*send_or_recv*/) const override { return {}; }
};

}  // namespace stringline
