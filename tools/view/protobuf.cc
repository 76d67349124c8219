#include "tools/view/protobuf.h"

namespace stringline {

void ProtobufMessage::AddRawVarint(uint64_t value) {
  while (value >= 0x80) {
    bytes_.push_back(static_cast<char>((value & 0x7f) | 0x80));
    value >>= 7;
  }
  bytes_.push_back(static_cast<char>(value));
}

void ProtobufMessage::AddTag(int field, int wire_type) {
  AddRawVarint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(wire_type));
}

void ProtobufMessage::AddVarint(int field, uint64_t value) {
  AddTag(field, 0);
  AddRawVarint(value);
}

void ProtobufMessage::AddFixed64(int field, uint64_t value) {
  AddTag(field, 1);
  for (int byte = 0; byte < 8; ++byte) bytes_.push_back(static_cast<char>(value >> (8 * byte)));
}

void ProtobufMessage::AddText(int field, absl::string_view text) {
  AddTag(field, 2);
  AddRawVarint(text.size());
  bytes_.append(text.data(), text.size());
}

}  // namespace stringline
