#include "tools/fingerprint.h"

#include <algorithm>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace stringline {

std::string FingerprintOf(const std::string& path) {
  constexpr int64_t kPiece = 1 << 16, kPieces = 64;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return "none";
  const auto size = static_cast<int64_t>(file.tellg());
  Fnv hash;
  std::string piece(kPiece, 0);
  for (int64_t at = 0; at < size; at += std::max(kPiece, size / kPieces)) {
    file.clear();
    file.seekg(at);
    file.read(piece.data(), kPiece);
    for (int64_t i = 0; i < file.gcount(); ++i) hash.Add(static_cast<uint8_t>(piece[i]));
  }
  return absl::StrCat(size, " bytes, ", absl::Hex(hash.value()));
}

}  // namespace stringline
