// The functions of functions.def by number, as attributes of `map` and `zip` name them.
#pragma once

#include <cstdint>

namespace stringline {

enum class MapFunction : uint8_t {
#define MAP(name, ...) name,
#define ZIP(...)
#include "stages/functions.def"
#undef MAP
#undef ZIP
};
enum class ZipFunction : uint8_t {
#define MAP(...)
#define ZIP(name, ...) name,
#include "stages/functions.def"
#undef MAP
#undef ZIP
};
inline constexpr int kMapFunctions = static_cast<int>(MapFunction::softsign) + 1;
inline constexpr int kZipFunctions = static_cast<int>(ZipFunction::where_not) + 1;

}  // namespace stringline
