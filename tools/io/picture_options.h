// The options of a picture, and the outputs that heed each option. `show` and `compare` refuse an
// option that one of their outputs would ignore, so no option is accepted and forgotten.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tools/io/flags.h"

namespace stringline {

// Forms in which a step can be asked for.
enum class PictureOutput : uint8_t {
  kTerminal,  // if no other output is requested
  kSvg,
  kPicture,
  kHtml,
  kPerfetto,
  kChrome,
  kJson,
};
inline constexpr int kPictureOutputs = 7;

// "the terminal", "--svg".
const char* NameOf(PictureOutput output);

// The outputs requested by a command line; at least one.
std::vector<PictureOutput> PictureOutputsOf(const Flags& flags);

struct PictureOption {
  const char* name;  // "--width"
  bool (*is_given)(const Flags& flags);
  unsigned outputs;  // a bit for each heeding PictureOutput

  bool GoesWith(PictureOutput output) const {
    return (outputs >> static_cast<unsigned>(output) & 1) != 0;
  }
};
absl::Span<const PictureOption> PictureOptions();

// Error: InvalidArgument for an option that one of the outputs ignores; names both, and the outputs
// that heed the option.
absl::Status CheckPictureOptions(const Flags& flags);

}  // namespace stringline
