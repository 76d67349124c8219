// An editor's text, and places in the language server protocol's units: lines and UTF-16 units,
// both from 0.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "schedlang/base/source.h"

namespace stringline {

struct EditorPosition {
  int64_t line = 0;
  int64_t character = 0;
};

// UTF-8, as all text in JSON. Lines end with \n, \r\n or \r.
class EditorText {
 public:
  explicit EditorText(std::string text);

  const std::string& text() const { return text_; }
  // Places outside the text are moved to the nearest place inside. The cost does not grow with the
  // length of the line: answers may hold very many positions.
  EditorPosition PositionAt(uint32_t offset) const;
  uint32_t OffsetAt(EditorPosition position) const;
  // Replaces the text between the two places by `text`.
  void Replace(EditorPosition begin, EditorPosition end, absl::string_view text);

 private:
  std::string text_;
  uint32_t UnitsBefore(uint32_t offset) const;
  void Index();

  std::vector<uint32_t> line_starts_;
  std::vector<uint32_t> units_;  // the number of UTF-16 units before every 64th byte
};

}  // namespace stringline
