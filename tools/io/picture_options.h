// The options of a picture, and the outputs that heed each option. `show` and `compare` refuse an
// option that one of their outputs would ignore, so no option is accepted and forgotten.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace stringline {

// A picture, page or trace of a step, as it is asked for.
struct PictureQuestion {
  // Files; "": not asked for.
  std::string svg;
  std::string picture;
  std::string html;
  std::string perfetto;
  std::string chrome;
  bool json = false;
  int width = 0;  // columns, or points; 0: as wide as usual
  bool fold = false;
  bool lanes = false;
  std::string ranks;         // "0..15"; "": all, like the next two
  std::string time;          // "0..200ms"
  std::string microbatches;  // "0..7"
  std::string color;         // auto, always or never; "": auto
  bool no_title = false;
  std::string palette;  // color or grey; "": color
  bool force = false;   // also files of more than 100 MB
};

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

// "the terminal", and others as fields: "`svg`".
const char* NameOf(PictureOutput output);

// The outputs that are asked for; at least one.
std::vector<PictureOutput> PictureOutputsOf(const PictureQuestion& asked);

struct PictureOption {
  const char* name;  // of its field: "width"
  bool (*is_given)(const PictureQuestion& asked);
  unsigned outputs;  // a bit for each heeding PictureOutput

  bool GoesWith(PictureOutput output) const {
    return (outputs >> static_cast<unsigned>(output) & 1) != 0;
  }
};
absl::Span<const PictureOption> PictureOptions();

// Error: InvalidArgument for an option that one of the outputs ignores; names both, and the outputs
// that heed the option.
absl::Status CheckPictureOptions(const PictureQuestion& asked);

}  // namespace stringline
