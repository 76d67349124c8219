#include "tools/view/page/columns.h"

namespace stringline {

void ColumnWriter::Begin(const char* name) { columns_.push_back({name, bytes_.size(), 0}); }

void ColumnWriter::Add(int64_t number) {
  ++columns_.back().count;
  uint64_t folded = (static_cast<uint64_t>(number) << 1) ^ static_cast<uint64_t>(number >> 63);
  while (folded >= 0x80) {
    bytes_.push_back(static_cast<char>(folded | 0x80));
    folded >>= 7;
  }
  bytes_.push_back(static_cast<char>(folded));
}

std::string Base64(absl::string_view bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t left = bytes.size() - i;
    uint32_t three = 0;
    for (size_t k = 0; k < 3; ++k) {
      three = three << 8 | (k < left ? static_cast<uint8_t>(bytes[i + k]) : 0u);
    }
    for (size_t k = 0; k < 4; ++k) {
      text.push_back(k <= left ? kDigits[three >> (18 - 6 * k) & 63] : '=');
    }
  }
  return text;
}

}  // namespace stringline
