#include "schedlang/base/written_out.h"

#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace stringline {

std::string WrittenOut(absl::string_view number) {
  constexpr double kMost = 1e15;
  const bool has_other_signs = number.find_first_of("eE_") != absl::string_view::npos;
  const bool begins_with_digit = !number.empty() && absl::ascii_isdigit(number.front());
  const bool has_only_signs =
      number.find_first_not_of("0123456789.eE_+") == absl::string_view::npos;
  double value = 0;
  if (!has_other_signs || !begins_with_digit || !has_only_signs ||
      !absl::SimpleAtod(absl::StrReplaceAll(number, {{"_", ""}}), &value) || value >= kMost ||
      value != std::floor(value)) {
    return "";
  }
  return absl::StrFormat("%.0f", value);
}

}  // namespace stringline
