// Writes messages in protobuf's wire format: tag, then a varint, eight bytes, or a length and
// bytes.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace stringline {

class ProtobufMessage {
 public:
  void AddVarint(int field, uint64_t value);
  void AddFixed64(int field, uint64_t value);
  void AddText(int field, absl::string_view text);
  void AddMessage(int field, const ProtobufMessage& message) { AddText(field, message.bytes_); }

  const std::string& bytes() const { return bytes_; }

 private:
  void AddTag(int field, int wire_type);
  void AddRawVarint(uint64_t value);

  std::string bytes_;
};

}  // namespace stringline
