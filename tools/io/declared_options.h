// The options of a command as CLI11 has them, for the files that parse and describe them.
#pragma once

#include <CLI/CLI.hpp>

#include "tools/io/flags.h"

namespace stringline {

// Values go into `flags`.
void DeclareOptions(const Command& command, CLI::App& app, Flags& flags);

}  // namespace stringline
