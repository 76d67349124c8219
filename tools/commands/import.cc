// stringline import: a schedule of another notation as a plan.
#include "tools/command.h"
#include "tools/load.h"

namespace stringline {

int RunImport(const Flags& flags, const Output& output) {
  if (!HasExtension(flags.file, ".csv")) {
    return Fail(output, flags.file + ": only a schedule of torch's (.csv) can be imported");
  }
  const absl::StatusOr<LoadedPlan> loaded = LoadPlan(flags);
  if (!loaded.ok()) return Fail(output, loaded.status().message());
  if (!loaded->plan) return ShowFindings(output, output.err, loaded->diagnostics, loaded->source);
  return Deliver(Print(*loaded->plan), flags.out, output);
}

}  // namespace stringline
