#include "tools/lsp/document.h"

#include <algorithm>
#include <utility>

namespace stringline {
namespace {

constexpr size_t kUnitsEvery = 64;

// The number of UTF-16 units of the character that begins with this byte; 0 inside a character.
int UnitsOf(char c) {
  const auto byte = static_cast<unsigned char>(c);
  if ((byte & 0xc0) == 0x80) return 0;
  return byte >= 0xf0 ? 2 : 1;
}

std::vector<uint32_t> LineStarts(const std::string& text) {
  std::vector<uint32_t> starts = {0};
  for (size_t i = 0; i < text.size(); ++i) {
    const bool half_of_an_end = text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n';
    if (text[i] == '\n' || (text[i] == '\r' && !half_of_an_end)) {
      starts.push_back(static_cast<uint32_t>(i + 1));
    }
  }
  return starts;
}

}  // namespace

EditorText::EditorText(std::string text) : text_(std::move(text)) { Index(); }

void EditorText::Index() {
  line_starts_ = LineStarts(text_);
  units_.clear();
  uint32_t units = 0;
  for (size_t i = 0; i < text_.size(); ++i) {
    if (i % kUnitsEvery == 0) units_.push_back(units);
    units += static_cast<uint32_t>(UnitsOf(text_[i]));
  }
  units_.push_back(units);
}

uint32_t EditorText::UnitsBefore(uint32_t offset) const {
  const size_t known = offset / kUnitsEvery;
  uint32_t units = units_[known];
  for (size_t i = known * kUnitsEvery; i < offset; ++i) {
    units += static_cast<uint32_t>(UnitsOf(text_[i]));
  }
  return units;
}

EditorPosition EditorText::PositionAt(uint32_t offset) const {
  offset = std::min(offset, static_cast<uint32_t>(text_.size()));
  const auto next = std::upper_bound(line_starts_.begin(), line_starts_.end(), offset);
  return {next - line_starts_.begin() - 1, UnitsBefore(offset) - UnitsBefore(*(next - 1))};
}

uint32_t EditorText::OffsetAt(EditorPosition position) const {
  if (position.line < 0) return 0;
  if (position.line >= static_cast<int64_t>(line_starts_.size())) {
    return static_cast<uint32_t>(text_.size());
  }
  uint32_t offset = line_starts_[static_cast<size_t>(position.line)];
  int64_t units = 0;
  for (; offset < text_.size() && text_[offset] != '\n' && text_[offset] != '\r'; ++offset) {
    if (UnitsOf(text_[offset]) > 0 && units >= position.character) break;
    units += UnitsOf(text_[offset]);
  }
  return offset;
}

void EditorText::Replace(EditorPosition begin, EditorPosition end, absl::string_view text) {
  const uint32_t first = OffsetAt(begin);
  const uint32_t last = std::max(first, OffsetAt(end));
  text_.replace(first, last - first, text.data(), text.size());
  Index();
}

}  // namespace stringline
