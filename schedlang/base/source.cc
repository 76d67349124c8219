#include "schedlang/base/source.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace stringline {
namespace {

// In pieces: a pipe does not say how much will come.
absl::StatusOr<std::string> ReadAll(std::istream& in, const std::string& name, uint64_t most_bytes,
                                    uint64_t likely_bytes) {
  std::string bytes;
  bytes.reserve(std::min(likely_bytes, most_bytes));
  std::vector<char> piece(1 << 20);
  while (in.read(piece.data(), static_cast<std::streamsize>(piece.size())), in.gcount() > 0) {
    bytes.append(piece.data(), static_cast<size_t>(in.gcount()));
    if (bytes.size() > most_bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": larger than ", most_bytes >> 20, " MiB"));
    }
  }
  return bytes;
}

}  // namespace

Source::Source(std::string path, std::string text)
    : path_(std::move(path)), text_(std::move(text)) {
  line_starts_.push_back(0);
  for (size_t i = 0; i < text_.size(); ++i) {
    if (text_[i] == '\n') line_starts_.push_back(static_cast<uint32_t>(i + 1));
  }
}

LineColumn Source::Locate(uint32_t offset) const {
  offset = std::min<uint32_t>(offset, static_cast<uint32_t>(text_.size()));
  auto next = std::upper_bound(line_starts_.begin(), line_starts_.end(), offset);
  const int line = static_cast<int>(next - line_starts_.begin());
  return {line, static_cast<int>(offset - line_starts_[line - 1]) + 1};
}

absl::string_view Source::Line(int line) const {
  if (line < 1 || line > static_cast<int>(line_starts_.size())) return "";
  const size_t begin = line_starts_[line - 1];
  size_t end = line < static_cast<int>(line_starts_.size()) ? line_starts_[line] - 1 : text_.size();
  if (end > begin && text_[end - 1] == '\r') --end;
  return absl::string_view(text_).substr(begin, end - begin);
}

absl::StatusOr<std::string> ReadBytes(const std::string& path, uint64_t most_bytes) {
  if (path == kStandardStream) {
    auto bytes = ReadAll(std::cin, "standard input", most_bytes, /*likely_bytes=*/0);
    if (!bytes.ok() || !bytes->empty()) return bytes;
    return absl::InvalidArgumentError("standard input is empty, or was read already");
  }
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) {
    return absl::NotFoundError(absl::StrCat(path, ": no such file"));
  }
  if (std::filesystem::is_directory(status)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is a directory, not a file"));
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) return absl::PermissionDeniedError(absl::StrCat(path, ": ", std::strerror(errno)));
  const uintmax_t size = std::filesystem::file_size(path, error);
  return ReadAll(in, path, most_bytes, error ? 0 : size);
}

absl::StatusOr<Source> TextOf(const std::string& path, std::string bytes) {
  const size_t nul = bytes.find('\0');
  if (nul != std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": not a text file (a NUL byte at offset ", nul, ")"));
  }
  constexpr absl::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (absl::StartsWith(bytes, kByteOrderMark)) bytes.erase(0, kByteOrderMark.size());
  return Source(path, std::move(bytes));
}

absl::StatusOr<Source> ReadSource(const std::string& path) {
  auto bytes = ReadBytes(path, 64u << 20);
  if (!bytes.ok()) return bytes.status();
  return TextOf(path == kStandardStream ? "<stdin>" : path, *std::move(bytes));
}

}  // namespace stringline
