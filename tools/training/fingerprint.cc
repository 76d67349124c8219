#include "tools/training/fingerprint.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "schedlang/base/fnv.h"

namespace stringline {
namespace {

constexpr int64_t kPiece = 1 << 16, kPieces = 1024;

// Pieces of a file `step` bytes apart.
void AddFile(const std::string& path, int64_t size, int64_t step, Fnv* hash) {
  std::ifstream file(path, std::ios::binary);
  std::string piece(kPiece, 0);
  for (int64_t at = 0; at < size; at += step) {
    file.clear();
    file.seekg(at);
    file.read(piece.data(), kPiece);
    for (int64_t i = 0; i < file.gcount(); ++i) hash->Add(static_cast<uint8_t>(piece[i]));
  }
}

// -1 for an unreadable file.
int64_t SizeOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  return file ? static_cast<int64_t>(file.tellg()) : -1;
}

}  // namespace

std::string FingerprintOf(const std::string& path) {
  const int64_t size = SizeOf(path);
  if (size < 0) return "none";
  Fnv hash;
  AddFile(path, size, std::max(kPiece, size / kPieces), &hash);
  return absl::StrCat(size, " bytes, ", absl::Hex(hash.value()));
}

std::string FingerprintOf(const std::vector<std::string>& paths) {
  int64_t all = 0;
  for (const std::string& path : paths) all += std::max<int64_t>(0, SizeOf(path));
  Fnv hash;
  for (const std::string& path : paths) {
    for (const unsigned char c : std::filesystem::path(path).filename().string()) hash.Add(c);
    const int64_t size = SizeOf(path);
    hash.Add(static_cast<uint64_t>(size));
    AddFile(path, size, std::max(kPiece, all / kPieces), &hash);
  }
  return absl::StrCat(paths.size(), paths.size() == 1 ? " file" : " files", " of ", all, " bytes, ",
                      absl::Hex(hash.value()));
}

}  // namespace stringline
