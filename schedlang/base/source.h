// A text the user wrote, and places in it.
//
// A `Span` is a half-open range of bytes [begin, end) of one Source. Lines and columns count from
// 1; columns count bytes, tabs are one column.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stringline {

struct Span {
  uint32_t begin = 0;
  uint32_t end = 0;
  friend bool operator==(const Span&, const Span&) = default;
};

struct LineColumn {
  int line = 1;
  int column = 1;
};

class Source {
 public:
  // `path` is only a name, shown in messages.
  Source(std::string path, std::string text);

  const std::string& path() const { return path_; }
  absl::string_view text() const { return text_; }

  LineColumn Locate(uint32_t offset) const;
  // The text of line `line` (from 1) without its line end.
  absl::string_view Line(int line) const;

 private:
  std::string path_;
  std::string text_;
  std::vector<uint32_t> line_starts_;
};

// As a file to read: standard input, once; as one to write: standard output.
inline constexpr char kStandardStream[] = "-";

// The bytes of a file, whatever they are. Errors, each naming the path: NotFound,
// PermissionDenied, InvalidArgument for a directory or for more than `most_bytes`.
absl::StatusOr<std::string> ReadBytes(const std::string& path, uint64_t most_bytes);

// The text that these bytes are, without a byte-order mark. InvalidArgument where one is NUL: that
// is no text.
absl::StatusOr<Source> TextOf(const std::string& path, std::string bytes);

// Reads a whole text. Errors: those of ReadBytes and TextOf, and InvalidArgument for a file over
// 64 MiB.
absl::StatusOr<Source> ReadSource(const std::string& path);

}  // namespace stringline
