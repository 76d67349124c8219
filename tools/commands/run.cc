// stringline run: trains a model with a schedule, and compares what happened with the simulation.
#include "tools/command.h"

namespace stringline {

int RunTraining(const Flags& flags, const Output& output) {
  return Fail(output, flags.file + ": not built in");
}

}  // namespace stringline
