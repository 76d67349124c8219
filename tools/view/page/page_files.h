// The page's own text, style and program, embedded when the tool is built (embed.cmake).
#pragma once

#include "absl/strings/string_view.h"

namespace stringline {

extern const absl::string_view kPageMarkup;   // page.html, with {{NAMES}} to fill in
extern const absl::string_view kPageStyle;    // page.css
extern const absl::string_view kPageProgram;  // the .js files, concatenated

}  // namespace stringline
