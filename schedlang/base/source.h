// A text of the user, and places in it.
//
// A `Span` is a half-open range of bytes [begin, end) of one Source. Lines and columns count from
// 1; columns count bytes, tabs are one column.
//
// A file may use other files. Their texts follow its own, so a single offset names both the file
// and the place in it.
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

  // The path and the text of the file itself, without the files used by it.
  const std::string& path() const { return texts_[0]->path; }
  absl::string_view text() const { return texts_[0]->text; }
  // The text of its line `line` (from 1) without its line end.
  absl::string_view Line(int line) const { return texts_[0]->Line(line); }

  // Appends the text of a used file; its places begin at the former next_offset().
  void Append(const Source& used);
  uint32_t next_offset() const { return texts_.back()->end() + 1; }

  // The file, the line number and the text of the line at a place in any of the texts.
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

  std::vector<std::shared_ptr<const Text>> texts_;  // the file's own text first
};

// A path that means standard input (readable only once), or standard output.
inline constexpr char kStandardStream[] = "-";

// The bytes of a file, whatever they are. Errors, each naming the path: NotFound,
// PermissionDenied, InvalidArgument for a directory or for more than `most_bytes`.
absl::StatusOr<std::string> ReadBytes(const std::string& path, uint64_t most_bytes);

// The bytes as a text, without a byte-order mark. InvalidArgument if any byte is NUL.
absl::StatusOr<Source> TextOf(const std::string& path, std::string bytes);

// Reads a whole text. Errors: those of ReadBytes and TextOf, and InvalidArgument for a file over
// 64 MiB.
absl::StatusOr<Source> ReadSource(const std::string& path);

// Resolves `name` in the file `user`: beside that file, unless `name` is absolute.
std::string PathBeside(const std::string& name, const std::string& user);
// Reads the text at PathBeside(name, user).
absl::StatusOr<Source> ReadBeside(const std::string& name, const std::string& user);

}  // namespace stringline
