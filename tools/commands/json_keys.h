// The keys of each command's JSON, in a table. tools/JSON.md is made from it, and a test holds it
// against what the commands print.
#pragma once

#include "absl/types/span.h"

namespace stringline {

// A key, or a list or an object of which there is something to say.
struct JsonKey {
  // From the object's top: `ranks[].busy_us` is in every entry of a list. `*` stands for keys that
  // are not always the same, as the names of parameters.
  const char* path;
  // A word of the table on the page, or the name of a shape. Behind " or null" the value may be
  // missing.
  const char* type;
  const char* meaning;
  // Why no test of this machine shows the value, or null.
  const char* unseen = "";
};

// Keys under a name: those of a command's answer, or of an object that several answers have.
struct JsonShape {
  const char* name;   // "check --for": the command, and what of it; or the name of a shape
  const char* about;  // sentences above the table
  absl::Span<const JsonKey> keys;
  // Names of shapes, or of answers, whose keys are here, too; nullptr behind the last.
  const char* also[2] = {nullptr, nullptr};
};

// The keys that every answer may have; the answers, in the order of Commands(); what they share.
const JsonShape& EveryAnswer();
absl::Span<const JsonShape> JsonAnswers();
absl::Span<const JsonShape> SharedShapes();

// The words for types, and what they mean.
struct JsonType {
  const char* name;
  const char* meaning;
};
absl::Span<const JsonType> JsonTypes();

}  // namespace stringline
