#include "tools/check_options.h"

#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "executor/build_stages.h"
#include "schedlang/base/status.h"

namespace stringline {

CommLayout LayoutOf(const Flags& flags) {
  return ReadCommLayout(flags.layout).value_or(CommLayout::kEdge);
}

absl::StatusOr<int64_t> ParseBytes(absl::string_view text) {
  struct Unit {
    const char* name;
    double bytes;
  };
  constexpr Unit kUnits[] = {{"", 1},           {"B", 1},        {"KiB", 1024.},
                             {"MiB", 1048576.}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
  const size_t digits = text.find_first_not_of("0123456789.");
  const absl::string_view unit =
      digits == absl::string_view::npos ? "" : absl::StripAsciiWhitespace(text.substr(digits));
  double number = 0;
  if (absl::SimpleAtod(text.substr(0, digits), &number)) {
    for (const Unit& known : kUnits) {
      const double bytes = number * known.bytes;
      if (unit == known.name && bytes >= 0 && bytes < 0x1p62) return std::llround(bytes);
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--memory: '", text, "' is no number of bytes; write it as 80GiB"));
}

absl::StatusOr<CheckOptions> LoadCheckOptions(const Flags& flags, const Plan& plan) {
  CheckOptions options;
  options.layout = LayoutOf(flags);
  options.buffers = flags.buffers;
  options.lazy = flags.lazy;
  options.activations = flags.activations;
  if (flags.model.empty()) return options;
  SL_ASSIGN_OR_RETURN(const RunConfig config, ReadRunConfig(flags.model));
  SL_ASSIGN_OR_RETURN(const std::vector<StageProgram> programs, BuildStages(config, plan));
  options.sizes = SizesOf(programs);
  if (!flags.memory.empty()) {
    SL_ASSIGN_OR_RETURN(options.memory, ParseBytes(flags.memory));
  }
  return options;
}

}  // namespace stringline
