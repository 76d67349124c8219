#include "executor/engine/device.h"

#include "absl/strings/str_cat.h"
#include "schedlang/base/sl_check.h"

namespace stringline {

std::string Print(const LazyName& name) {
  return name.print == nullptr ? absl::StrCat("#", name.index) : name.print(name.self, name.index);
}

absl::Status DeadlockError(absl::string_view stuck) {
  return absl::AbortedError(absl::StrCat("deadlock: nothing can run any more, and ", stuck));
}

bool Turns::Perform(TurnOp op, uint32_t number, StreamId stream) {
  if (op == TurnOp::kTake) return Take(number, stream);
  if (op == TurnOp::kBegin) Begin();
  if (op == TurnOp::kCome) Come(number);
  if (op == TurnOp::kEnd) End(number);
  return true;
}

void Device::Turn(StreamId /*stream*/, Turns* /*turns*/, TurnOp /*op*/, uint32_t /*number*/) {
  SL_CHECK(false) << "the device has no turns";
}

}  // namespace stringline
