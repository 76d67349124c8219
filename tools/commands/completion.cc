// stringline completion: a script that completes stringline's command lines in a shell.
#include "tools/answers/completion.h"

#include "tools/commands/command.h"

namespace stringline {

int RunCompletion(const Flags& flags, const Output& output) {
  for (const CompletionShell& shell : CompletionShells()) {
    if (flags.shell != shell.name) continue;
    output.out << shell.script(Commands());
    return kOk;
  }
  return Fail(output, "completion: there is no script for " + flags.shell);
}

}  // namespace stringline
