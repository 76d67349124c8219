#include "executor/channel.h"

#include "absl/strings/str_cat.h"

namespace stringline {

std::string Describe(const Message& message) {
  return absl::StrCat("the ", message.gradient ? "gradient" : "activation", " of stage ",
                      message.producer.value, ", microbatch ", message.microbatch.value, " (",
                      message.bytes, " bytes)");
}

absl::Status MatchMessages(const Message& send, const Message& recv) {
  if (send.gradient == recv.gradient && send.producer == recv.producer &&
      send.microbatch == recv.microbatch && send.bytes == recv.bytes) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("a send of ", Describe(send), " met a receive of ", Describe(recv)));
}

}  // namespace stringline
