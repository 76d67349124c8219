// Columns of numbers as bytes, and bytes as text: the form of a million events in a page.
//
// A column is a row of varints, seven bits a byte, the lowest first, the top bit set on all bytes
// but the last; negative numbers are folded in between (0 -1 1 -2 … become 0 1 2 3 …). Columns hold
// differences from a reader's guess, so most numbers take a single byte.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace stringline {

class ColumnWriter {
 public:
  // The next numbers belong to the column `name`, a literal.
  void Begin(const char* name);
  void Add(int64_t number);

  struct Column {
    const char* name;
    size_t begin = 0;  // place of its first byte
    size_t count = 0;  // numbers in the column
  };
  const std::vector<Column>& columns() const { return columns_; }
  const std::string& bytes() const { return bytes_; }

 private:
  std::vector<Column> columns_;
  std::string bytes_;
};

// RFC 4648, with padding.
std::string Base64(absl::string_view bytes);

}  // namespace stringline
