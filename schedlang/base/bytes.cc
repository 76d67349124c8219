#include "schedlang/base/bytes.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace stringline {

std::string PrintBytes(int64_t bytes, int digits) { return PrintBytesBeside(bytes, bytes, digits); }

std::string PrintBytesBeside(int64_t largest, int64_t bytes, int digits) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  constexpr double kStep = 1024;
  const double least = 0.5 * std::pow(10.0, -digits);
  double size = 1;
  int unit = 0;
  for (; static_cast<double>(largest) >= size * kStep && unit < 4; ++unit) size *= kStep;
  for (; bytes > 0 && static_cast<double>(bytes) < least * size && unit > 0; --unit) size /= kStep;
  if (unit == 0) return absl::StrCat(bytes, " B");
  return absl::StrFormat("%.*f %s", digits, static_cast<double>(bytes) / size, kUnits[unit]);
}

}  // namespace stringline
