// tools/JSON.md, made from the table of keys.
#pragma once

#include <string>
#include <vector>

#include "tools/commands/json_keys.h"

namespace stringline {

// A row under its whole path: those of a shape with the rows of all shapes that it names. A row
// whose type is a shape remains, as an object.
struct WholeKey {
  std::string path;
  std::string type;  // a word of JsonTypes()
  bool or_null = false;
  const JsonKey* row = nullptr;
};
std::vector<WholeKey> WholeKeysOf(const JsonShape& shape);

std::string JsonPage();

}  // namespace stringline
