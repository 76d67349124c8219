// stringline import: a schedule of another notation as a plan.
#include "schedlang/formats/torch_csv.h"
#include "tools/command.h"
#include "tools/json.h"
#include "tools/load.h"
#include "tools/write_file.h"

namespace stringline {

int RunImport(const Flags& flags, const Output& output) {
  if (!HasExtension(flags.file, ".csv")) {
    return Fail(output, flags.file + ": only a schedule of torch's (.csv) can be imported");
  }
  const absl::StatusOr<LoadedPlan> loaded = LoadPlan(flags);
  if (!loaded.ok()) return Fail(output, loaded.status().message());
  if (!loaded->plan) return ShowFindings(output, output.err, loaded->diagnostics, loaded->source);
  const std::string text = Print(*loaded->plan);
  if (!flags.out.empty()) {
    const absl::Status written = WriteFileAtomically(flags.out, text);
    if (!written.ok()) return Fail(output, written.message());
  }
  if (output.json) {
    WriteJson(output.out, {{"ok", true}, {"text", text}});
  } else if (flags.out.empty()) {
    output.out << text;
  }
  return kOk;
}

}  // namespace stringline
