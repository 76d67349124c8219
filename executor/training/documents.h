// The documents of packed data: a text, or a file of tokens, holds them one behind the other.
//
// A sequence is a window of the data. Positions begin anew at its first token and at every document
// that begins inside, and so does attention. The last token of a document has no target: what comes
// next belongs to another one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace stringline {

// The ends of documents in the data: `packed` of a run file.
struct PackedWish {
  std::string lengths;  // a file with the tokens of a document a line; ""
  int end = -1;         // or the last token of every document; -1: none
  bool wanted() const { return !lengths.empty() || end >= 0; }
};

class Documents {
 public:
  // A file of lengths, whole numbers from 1 on, one a line, which add up to `size`, the tokens of
  // the data. Errors name file and line: those of ReadBytes (base/source.h), InvalidArgument.
  static absl::StatusOr<Documents> Read(const std::string& path, int64_t size);
  static Documents EndingWith(int32_t token);

  // True if a document begins with token `i` of the data, from 1 on; `before`: the token before it.
  bool BeginsAt(int64_t i, int32_t before) const;
  // "12 documents"; "documents that end with token 10".
  std::string Describe() const;
  // The same, with a hash of their lengths.
  std::string Identity() const;

 private:
  int32_t end_ = -1;
  std::vector<int64_t> starts_;  // of all documents but the first, ascending
};

}  // namespace stringline
