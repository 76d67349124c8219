#include "tools/io/picture_options.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace stringline {
namespace {

struct OutputRow {
  const char* name;
  bool (*is_asked)(const PictureQuestion& asked);
  const char* why_not;  // the output's reason to heed no more options
};
// By PictureOutput. The terminal is asked for where no other output is.
constexpr OutputRow kOutputs[kPictureOutputs] = {
    {"the terminal", nullptr, "which shows letters in a window"},
    {"`svg`", [](const PictureQuestion& asked) { return !asked.svg.empty(); },
     "which has its own colours"},
    {"`picture`", [](const PictureQuestion& asked) { return !asked.picture.empty(); },
     "which has its own colours"},
    {"`html`", [](const PictureQuestion& asked) { return !asked.html.empty(); },
     "a page of the whole step, as wide as its window, with lanes and colours of its own"},
    {"`perfetto`", [](const PictureQuestion& asked) { return !asked.perfetto.empty(); },
     "which holds the whole step"},
    {"`chrome`", [](const PictureQuestion& asked) { return !asked.chrome.empty(); },
     "which holds the whole step"},
    {"`json`", [](const PictureQuestion& asked) { return asked.json; },
     "which holds the whole step"},
};

constexpr unsigned Bit(PictureOutput output) { return 1u << static_cast<unsigned>(output); }

constexpr unsigned kTerminal = Bit(PictureOutput::kTerminal);
constexpr unsigned kDrawn = Bit(PictureOutput::kSvg) | Bit(PictureOutput::kPicture);
constexpr unsigned kTraces = Bit(PictureOutput::kPerfetto) | Bit(PictureOutput::kChrome);

constexpr PictureOption kOptions[] = {
    {"width", [](const PictureQuestion& asked) { return asked.width > 0; }, kTerminal | kDrawn},
    {"fold", [](const PictureQuestion& asked) { return asked.fold; }, kTerminal | kDrawn},
    {"lanes", [](const PictureQuestion& asked) { return asked.lanes; }, kTerminal | kDrawn},
    {"ranks", [](const PictureQuestion& asked) { return !asked.ranks.empty(); },
     kTerminal | kDrawn},
    {"time", [](const PictureQuestion& asked) { return !asked.time.empty(); }, kTerminal | kDrawn},
    {"microbatches", [](const PictureQuestion& asked) { return !asked.microbatches.empty(); },
     kTerminal | kDrawn},
    {"color", [](const PictureQuestion& asked) { return !asked.color.empty(); }, kTerminal},
    {"no_title", [](const PictureQuestion& asked) { return asked.no_title; }, kDrawn},
    {"palette", [](const PictureQuestion& asked) { return !asked.palette.empty(); }, kDrawn},
    // --force lifts no limit of drawings: they are written in any case.
    {"force", [](const PictureQuestion& asked) { return asked.force; },
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

std::vector<PictureOutput> PictureOutputsOf(const PictureQuestion& asked) {
  std::vector<PictureOutput> outputs;
  for (int output = 1; output < kPictureOutputs; ++output) {
    if (kOutputs[output].is_asked(asked)) outputs.push_back(static_cast<PictureOutput>(output));
  }
  if (outputs.empty()) outputs.push_back(PictureOutput::kTerminal);
  return outputs;
}

absl::Span<const PictureOption> PictureOptions() { return kOptions; }

absl::Status CheckPictureOptions(const PictureQuestion& asked) {
  for (const PictureOutput output : PictureOutputsOf(asked)) {
    for (const PictureOption& option : kOptions) {
      if (!option.is_given(asked) || option.GoesWith(output)) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "`", option.name, "` does not go with ", NameOf(output), ", ",
          kOutputs[static_cast<size_t>(output)].why_not, "; it is for ", OutputsThatHeed(option)));
    }
  }
  return absl::OkStatus();
}

}  // namespace stringline
