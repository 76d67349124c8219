// An editor's text, and places in it as the language server protocol counts them: lines and UTF-16
// units, both from 0.
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

// UTF-8, as every text that comes in JSON. Lines end with \n, \r\n or \r.
class EditorText {
 public:
  explicit EditorText(std::string text);

  const std::string& text() const { return text_; }
  // Places outside the text are moved to the nearest one inside. However long its line is, a
  // place's position is found at once: answers may hold very many of them.
  EditorPosition PositionAt(uint32_t offset) const;
  uint32_t OffsetAt(EditorPosition position) const;
  // Puts `text` in the place of what lies between the two.
  void Replace(EditorPosition begin, EditorPosition end, absl::string_view text);

 private:
  std::string text_;
  uint32_t UnitsBefore(uint32_t offset) const;
  void Index();

  std::vector<uint32_t> line_starts_;
  std::vector<uint32_t> units_;  // how many UTF-16 units stand before every 64th byte
};

}  // namespace stringline
