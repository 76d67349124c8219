// The manual page stringline(1), made from the tables of commands, options and costs.
#pragma once

#include <string>

#include "absl/types/span.h"
#include "tools/io/flags.h"

namespace stringline {

// As troff's `man` macros, for `man -l -`. `version`: "0.1.0".
std::string ManualPage(absl::Span<const Command> commands, const std::string& version);

}  // namespace stringline
