#include "schedlang/diagnose/dump_value.h"

#include "absl/strings/str_cat.h"

namespace stringline {

DumpNode DumpValues::AddNumber(double value) {
  // Whole milliseconds are all that a dump gives as a number with a fraction.
  const bool fits = value > -9e15 && value < 9e15;
  return Add({.kind = Kind::kNumber, .integer = fits ? static_cast<int64_t>(value) : 0});
}

DumpNode DumpValues::AddText(absl::string_view text) {
  return Add(
      {.kind = Kind::kText, .integer = static_cast<int64_t>(text.size()), .text = text.data()});
}

DumpNode DumpValues::AddList() {
  lists_.emplace_back();
  return Add({.kind = Kind::kList, .integer = static_cast<int64_t>(lists_.size() - 1)});
}

DumpNode DumpValues::AddDict() {
  lists_.emplace_back();
  return Add({.kind = Kind::kDict, .integer = static_cast<int64_t>(lists_.size() - 1)});
}

absl::Status CutShort(size_t bytes) {
  return absl::OutOfRangeError(
      absl::StrCat("ends in the middle, behind byte ", bytes,
                   ": its rank died while it wrote the file, or the file was cut"));
}

bool IsCutShort(const absl::Status& status) { return absl::IsOutOfRange(status); }

}  // namespace stringline
