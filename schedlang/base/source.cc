#include "schedlang/base/source.h"

#include <fcntl.h>
#include <unistd.h>

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

// True for a device such as /dev/zero, whose bytes never end. A terminal has an end.
bool IsEndless(const std::string& path, const std::filesystem::file_status& status) {
  if (!std::filesystem::is_character_file(status)) return false;
  const int file = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (file < 0) return false;
  const bool is_terminal = isatty(file) == 1;
  close(file);
  return !is_terminal;
}

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

Source::Text::Text(std::string its_path, std::string its_text, uint32_t its_begin)
    : path(std::move(its_path)), text(std::move(its_text)), begin(its_begin) {
  line_starts.push_back(0);
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') line_starts.push_back(static_cast<uint32_t>(i + 1));
  }
}

absl::string_view Source::Text::Line(int line) const {
  if (line < 1 || line > static_cast<int>(line_starts.size())) return "";
  const size_t first = line_starts[line - 1];
  size_t last = line < static_cast<int>(line_starts.size()) ? line_starts[line] - 1 : text.size();
  if (last > first && text[last - 1] == '\r') --last;
  return absl::string_view(text).substr(first, last - first);
}

Source::Source(std::string path, std::string text) {
  texts_.push_back(std::make_shared<const Text>(std::move(path), std::move(text), 0));
}

void Source::Append(const Source& used) {
  texts_.push_back(
      std::make_shared<const Text>(used.path(), std::string(used.text()), next_offset()));
}

const Source::Text& Source::TextAt(uint32_t offset) const {
  const auto behind =
      std::upper_bound(texts_.begin() + 1, texts_.end(), offset,
                       [](uint32_t o, const auto& text) { return o < text->begin; });
  return **(behind - 1);
}

LineColumn Source::Locate(uint32_t offset) const {
  const Text& text = TextAt(offset);
  offset = std::min(offset, text.end()) - text.begin;
  auto next = std::upper_bound(text.line_starts.begin(), text.line_starts.end(), offset);
  const int line = static_cast<int>(next - text.line_starts.begin());
  return {line, static_cast<int>(offset - text.line_starts[line - 1]) + 1};
}

absl::string_view Source::LineAt(uint32_t offset) const {
  return TextAt(offset).Line(Locate(offset).line);
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
  if (IsEndless(path, status)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is a device, not a file"));
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

std::string PathBeside(const std::string& name, const std::string& user) {
  return (std::filesystem::path(user).parent_path() / name).lexically_normal().string();
}

absl::StatusOr<Source> ReadBeside(const std::string& name, const std::string& user) {
  return ReadSource(PathBeside(name, user));
}

}  // namespace stringline
