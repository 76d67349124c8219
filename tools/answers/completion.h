// Scripts that complete a command line in a shell, made from the tables of commands and options.
//
// They offer commands, the options of the typed command, the values of an option with a
// fixed list, files and folders for options that take them, and the library's schedules if a
// command reads schedules.
#pragma once

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "tools/io/flags.h"

namespace stringline {

struct CompletionShell {
  const char* name;  // "bash"
  std::string (*script)(absl::Span<const Command> commands);
};
absl::Span<const CompletionShell> CompletionShells();

}  // namespace stringline
