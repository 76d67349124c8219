// stringline man: the manual page.
#include "tools/answers/manual.h"
#include "tools/commands/command.h"

namespace stringline {

int RunManual(const Flags&, const Output& output) {
  output.out << ManualPage(Commands(), STRINGLINE_VERSION);
  return kOk;
}

}  // namespace stringline
