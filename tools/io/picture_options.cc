#include "tools/io/picture_options.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace stringline {
namespace {

struct OutputRow {
  const char* name;
  bool (*is_asked)(const Flags& flags);
  const char* why_not;  // the output's reason to heed no more options
};
// By PictureOutput. The terminal is asked for where no other output is.
constexpr OutputRow kOutputs[kPictureOutputs] = {
    {"the terminal", nullptr, "which shows letters in a window"},
    {"--svg", [](const Flags& flags) { return !flags.svg.empty(); }, "which has its own colours"},
    {"--picture", [](const Flags& flags) { return !flags.picture.empty(); },
     "which has its own colours"},
    {"--html", [](const Flags& flags) { return !flags.html.empty(); },
     "a page of the whole step, as wide as its window, with lanes and colours of its own"},
    {"--perfetto", [](const Flags& flags) { return !flags.perfetto.empty(); },
     "which holds the whole step"},
    {"--chrome", [](const Flags& flags) { return !flags.chrome.empty(); },
     "which holds the whole step"},
    {"--json", [](const Flags& flags) { return flags.json; }, "which holds the whole step"},
};

constexpr unsigned Bit(PictureOutput output) { return 1u << static_cast<unsigned>(output); }

constexpr unsigned kTerminal = Bit(PictureOutput::kTerminal);
constexpr unsigned kDrawn = Bit(PictureOutput::kSvg) | Bit(PictureOutput::kPicture);
constexpr unsigned kTraces = Bit(PictureOutput::kPerfetto) | Bit(PictureOutput::kChrome);

constexpr PictureOption kOptions[] = {
    {"--width", [](const Flags& flags) { return flags.width > 0; }, kTerminal | kDrawn},
    {"--fold", [](const Flags& flags) { return flags.fold; }, kTerminal | kDrawn},
    {"--lanes", [](const Flags& flags) { return flags.lanes; }, kTerminal | kDrawn},
    {"--ranks", [](const Flags& flags) { return !flags.shown_ranks.empty(); }, kTerminal | kDrawn},
    {"--time", [](const Flags& flags) { return !flags.shown_time.empty(); }, kTerminal | kDrawn},
    {"--microbatches", [](const Flags& flags) { return !flags.shown_microbatches.empty(); },
     kTerminal | kDrawn},
    {"--color", [](const Flags& flags) { return !flags.color.empty(); }, kTerminal},
    {"--no-title", [](const Flags& flags) { return flags.no_title; }, kDrawn},
    {"--palette", [](const Flags& flags) { return !flags.palette.empty(); }, kDrawn},
    // --force lifts no limit of drawings: they are written in any case.
    {"--force", [](const Flags& flags) { return flags.force; },
     kDrawn | kTraces | Bit(PictureOutput::kHtml)},
};

// "--svg and --picture"
std::string OutputsThatHeed(const PictureOption& option) {
  std::vector<const char*> names;
  for (int output = 0; output < kPictureOutputs; ++output) {
    if (option.GoesWith(static_cast<PictureOutput>(output))) names.push_back(kOutputs[output].name);
  }
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : i + 1 == names.size() ? " and " : ", ", names[i]);
  }
  return text;
}

}  // namespace

const char* NameOf(PictureOutput output) { return kOutputs[static_cast<size_t>(output)].name; }

std::vector<PictureOutput> PictureOutputsOf(const Flags& flags) {
  std::vector<PictureOutput> asked;
  for (int output = 1; output < kPictureOutputs; ++output) {
    if (kOutputs[output].is_asked(flags)) asked.push_back(static_cast<PictureOutput>(output));
  }
  if (asked.empty()) asked.push_back(PictureOutput::kTerminal);
  return asked;
}

absl::Span<const PictureOption> PictureOptions() { return kOptions; }

absl::Status CheckPictureOptions(const Flags& flags) {
  for (const PictureOutput output : PictureOutputsOf(flags)) {
    for (const PictureOption& option : kOptions) {
      if (!option.is_given(flags) || option.GoesWith(output)) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          option.name, " does not go with ", NameOf(output), ", ",
          kOutputs[static_cast<size_t>(output)].why_not, "; it is for ", OutputsThatHeed(option)));
    }
  }
  return absl::OkStatus();
}

}  // namespace stringline
