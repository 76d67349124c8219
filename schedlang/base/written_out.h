// Whole numbers in notations that no reader here takes, such as 1e6 and 1_000.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace stringline {

// "1e3", "2.5E4" -> "1000", "25000"; "1_000" -> "1000". Empty for any other text, for a number that
// is not whole, and for one of more than 15 digits.
std::string WrittenOut(absl::string_view number);

}  // namespace stringline
