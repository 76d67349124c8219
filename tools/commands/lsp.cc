// stringline lsp: the language server, over standard input and output.
#include <iostream>

#include "tools/commands/command.h"
#include "tools/lsp/server.h"

namespace stringline {

int RunLanguageServer(const Flags&, const Output& output) {
  return ServeEditor(std::cin, output.out);
}

}  // namespace stringline
