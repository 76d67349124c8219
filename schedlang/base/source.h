// A text the user wrote, and places in it.
//
// A `Span` is a half-open range of bytes [begin, end) of one Source. Lines and columns count from
// 1; columns count bytes, tabs are one column.
//
// A file may use others. Their texts follow its own one after the other, so that one number says
// both the file and the place in it.
#pragma once

#include <cstdint>
#include <memory>
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

  // Of the file itself, without those that it uses.
  const std::string& path() const { return texts_[0]->path; }
  absl::string_view text() const { return texts_[0]->text; }
  // The text of its line `line` (from 1) without its line end.
  absl::string_view Line(int line) const { return texts_[0]->Line(line); }

  // Takes in the text of a file that is used; its places begin at next_offset() as it was before.
  void Append(const Source& used);
  uint32_t next_offset() const { return texts_.back()->end() + 1; }

  // The file, the line in it, and the text of that line, of a place in any of the texts.
  const std::string& PathAt(uint32_t offset) const { return TextAt(offset).path; }
  LineColumn Locate(uint32_t offset) const;
  absl::string_view LineAt(uint32_t offset) const;

 private:
  struct Text {
    Text(std::string its_path, std::string its_text, uint32_t its_begin);
    absl::string_view Line(int line) const;
    uint32_t end() const { return begin + static_cast<uint32_t>(text.size()); }

    const std::string path;
    const std::string text;
    const uint32_t begin;               // the place of its first byte
    std::vector<uint32_t> line_starts;  // from `begin` on
  };

  const Text& TextAt(uint32_t offset) const;

  std::vector<std::shared_ptr<const Text>> texts_;  // its own first
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

// The path of `name` as the file at `user` means it: beside that file, unless it is absolute.
std::string PathBeside(const std::string& name, const std::string& user);
// Reads the text there.
absl::StatusOr<Source> ReadBeside(const std::string& name, const std::string& user);

}  // namespace stringline
