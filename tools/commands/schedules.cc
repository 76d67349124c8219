// stringline schedules: the library, by name.
#include "tools/answers/library_table.h"
#include "tools/commands/command.h"

namespace stringline {

int RunSchedules(const Flags&, const Output& output) {
  if (output.json) {
    WriteJson(output.out, LibraryAsJson());
  } else {
    PrintLibrary(output.out);
  }
  return kOk;
}

}  // namespace stringline
