#include "tools/view/terminal_legend.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace stringline {
namespace {

constexpr ActionKind kComputations[] = {ActionKind::kForward,       ActionKind::kBackward,
                                        ActionKind::kInputGradient, ActionKind::kWeightGradient,
                                        ActionKind::kRecompute,     ActionKind::kUpdate};
constexpr const char* kKindWords[] = {"forward",         "backward",      "input gradient",
                                      "weight gradient", "forward again", "optimizer's step"};

std::string KindsLine(const TerminalLegend& legend, Colors colors) {
  const bool colored = colors != Colors::kNone;
  std::string text;
  for (size_t i = 0; i < std::size(kComputations); ++i) {
    if (!legend.kinds.contains(kComputations[i])) continue;
    const Rgb paint = PaintOf(kComputations[i], 0, 0, 0.5);
    const std::string letter(1, PrintedKind(kComputations[i])[0]);
    absl::StrAppend(&text, Background(paint, colors), Foreground(TextOn(paint), colors),
                    colored ? absl::StrCat(" ", letter, " ") : letter, Plain(colors), " ",
                    kKindWords[i], "   ");
  }
  for (const auto& [kind, name] : legend.own) {
    if (!legend.kinds.contains(kind)) continue;
    const Rgb paint = PaintOf(kind, 0, 0, 0.5);
    absl::StrAppend(&text, Background(paint, colors), Foreground(TextOn(paint), colors),
                    colored ? absl::StrCat(" ", name, " ") : name.substr(0, 1), Plain(colors),
                    colored || name.size() == 1 ? "" : absl::StrCat(" ", name), "   ");
  }
  absl::StrAppend(&text, Dim(colors), "·", Plain(colors), " idle",
                  legend.hides_microbatches ? "   blank: other microbatches" : "",
                  legend.has_numbers ? "   numbers: microbatch" : "",
                  legend.has_numbers && legend.has_slices ? ", and slice" : "",
                  legend.has_numbers && legend.kinds.contains(ActionKind::kUpdate)
                      ? ", or the optimizer's step"
                      : "",
                  legend.has_last_digits ? ", or its last digit" : "");
  return text;
}

std::vector<std::string> ShadeLines(const TerminalLegend& legend, Colors colors) {
  constexpr const char* kLetters[kShades] = {"capital letters", "small letters", "dotted letters",
                                             "small dotted letters"};
  constexpr const char* kColors[kShades] = {"light", "dark", "underlined", "dark and underlined"};
  std::vector<std::string> lines;
  for (int shade = 1; shade < kShades; ++shade) {
    const std::string name = legend.shades.Of(shade);
    if (name.empty()) continue;
    lines.push_back(
        absl::StrCat((colors == Colors::kNone ? kLetters : kColors)[shade], ": ", name));
  }
  return lines;
}

// The names of the drawn ones among two kinds of lanes: "activations, gradients"; "" for none.
std::string NamesOf(const TerminalLegend& legend, std::pair<LaneKind, const char*> one,
                    std::pair<LaneKind, const char*> other) {
  const bool first = legend.lanes.contains(one.first), second = legend.lanes.contains(other.first);
  return absl::StrCat(first ? one.second : "", first && second ? ", " : "",
                      second ? other.second : "");
}

// The rows below a rank's computation.
std::vector<std::string> LaneLines(const TerminalLegend& legend, Colors colors) {
  const bool colored = colors != Colors::kNone;
  std::vector<std::string> lines;
  if (legend.lanes.contains(LaneKind::kNetwork)) {
    lines.push_back("network: dispatch and combine; above it the other parts");
  }
  const std::string messages =
      NamesOf(legend, {LaneKind::kActivations, "activations"}, {LaneKind::kGradients, "gradients"});
  if (!messages.empty()) {
    lines.push_back(absl::StrCat(messages, legend.is_flight
                                               ? ": messages that the rank waits for"
                                               : ": messages on their way to the rank"));
  }
  if (legend.lanes.contains(LaneKind::kCollectives)) {
    lines.push_back(absl::StrCat("collectives: ", colored ? "light" : "U", " gathers parameters, ",
                                 colored ? "dark" : "R",
                                 " sums gradients; the number is the stage"));
  }
  if (legend.lanes.contains(LaneKind::kOwn)) {
    lines.push_back("own: the schedule's own actions on the network");
  }
  const std::string copies =
      NamesOf(legend, {LaneKind::kToHost, "to host"}, {LaneKind::kFromHost, "from host"});
  if (!copies.empty()) {
    lines.push_back(legend.CopiesToOthers()
                        ? "copies out, copies in: copies from and to the rank's device"
                        : absl::StrCat(copies, ": copies to and from the host"));
  }
  return lines;
}

}  // namespace

std::string Print(const TerminalLegend& legend, int margin, Colors colors) {
  const std::string indent(static_cast<size_t>(margin), ' ');
  std::string text = absl::StrCat(indent, KindsLine(legend, colors), "\n");
  for (const auto& lines : {ShadeLines(legend, colors), LaneLines(legend, colors)}) {
    for (const std::string& line : lines) {
      absl::StrAppend(&text, indent, Dim(colors), line, Plain(colors), "\n");
    }
  }
  return text;
}

}  // namespace stringline
