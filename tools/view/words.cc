#include "tools/view/words.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "schedlang/base/threads.h"

namespace stringline {

std::string PrintTime(int64_t ns) {
  struct Unit {
    int64_t from_ns;
    int64_t ns;
    const char* name;
  };
  constexpr Unit kUnits[] = {{10'000'000'000, 1'000'000'000, "s"},
                             {1'000'000, 1'000'000, "ms"},
                             {1'000, 1'000, "us"},
                             {1, 1, "ns"}};
  if (ns == 0) return "0";
  for (const Unit& unit : kUnits) {
    if (std::llabs(ns) < unit.from_ns) continue;
    std::string number = absl::StrFormat("%.3f", static_cast<double>(ns) / unit.ns);
    number.erase(number.find_last_not_of('0') + 1);
    if (number.back() == '.') number.pop_back();
    return absl::StrCat(number, " ", unit.name);
  }
  return absl::StrCat(ns, " ns");
}

std::string PrintShare(double share) { return absl::StrFormat("%.2f %%", 100 * share); }

std::string PrintBubble(const Bubbles& bubbles) {
  std::string text = absl::StrCat("bubble ", PrintShare(bubbles.rate));
  const std::string least = absl::StrFormat("%.2f", 100 * bubbles.busiest_rate);
  const std::string most = absl::StrFormat("%.2f", 100 * bubbles.idlest_rate);
  if (least != most) absl::StrAppend(&text, " (ranks ", least, " to ", most, " %)");
  return text;
}

std::string PrintUnequalWork(const std::string& first, int first_stages, const std::string& second,
                             int second_stages) {
  return absl::StrCat(
      "note: ", first, " has ", first_stages, " stages and ", second, " ", second_stages,
      ", and costs are for a stage: ", second_stages > first_stages ? "the second" : "the first",
      " trains a larger model. With --work rank or --work model both do the same "
      "work.\n");
}

const char kBubbleMeaning[] =
    "The bubble is how long a rank is idle on average, as a share of the makespan, which goes\n"
    "from the start of the step to the last end of anything, of a trailing reduction too. A rank\n"
    "is busy while a forward or backward runs, with the communication inside it; sends, receives,\n"
    "collectives, copies to the host and back, and waiting are idle time. Beside the mean stand\n"
    "the busiest rank, which many papers give, and the idlest. The span is the longest time from\n"
    "a rank's own first start to its own last end, of computations and collectives; what the\n"
    "busiest rank idles of it is the bubble of the Zero Bubble papers, whose ranks need not end\n"
    "together.\n";

std::string PrintBar(double share, int width) {
  constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * width * 8));
  std::string bar;
  for (int i = 0; i < eighths / 8; ++i) bar += "█";
  bar += kEighths[eighths % 8];
  for (int i = (eighths + 7) / 8; i < width; ++i) bar += "·";
  return bar;
}

std::string PrintColumns(const std::vector<std::vector<std::string>>& rows,
                         const ColumnStyle& style) {
  std::vector<size_t> widths(rows.empty() ? 0 : rows[0].size(), 0);
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - row[i].size(), ' ');
      const bool left = i == 0 && style.first_left;
      absl::StrAppend(&text, i == 0 ? style.before : style.between, left ? row[i] : space,
                      left ? space : row[i]);
    }
    text += "\n";
  }
  return text;
}

std::string EscapeMarkup(const std::string& text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}});
}

double NiceStep(double range, int steps) {
  const double raw = std::max(range, 1e-6) / steps;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (raw <= factor * power) return factor * power;
  }
  return 10 * power;
}

std::string TitleOf(const Timeline& timeline) {
  std::string title = timeline.schedule;
  for (const Parameter& parameter : timeline.parameters) {
    absl::StrAppend(&title, " ", parameter.name, "=", parameter.value);
  }
  return title;
}

std::vector<std::string> PrintUnfinished(const Timeline& timeline, size_t most) {
  struct Open {
    int64_t length_ns;
    std::string text;
  };
  std::vector<Open> open;
  int64_t last_ns = 0;
  for (int r = 0; r < timeline.ranks(); ++r) {
    for (const Event& event : timeline.of(RankId(r))) {
      const int64_t length_ns = event.end_ns - event.start_ns;
      if (!event.unfinished) {
        last_ns = std::max(last_ns, event.end_ns);
        continue;
      }
      open.push_back({length_ns, absl::StrCat("not ended: ", PrintAction(timeline, event),
                                              " on rank ", r, ", for ", PrintTime(length_ns))});
    }
  }
  std::stable_sort(open.begin(), open.end(),
                   [](const Open& a, const Open& b) { return a.length_ns > b.length_ns; });
  std::vector<std::string> lines;
  for (size_t i = 0; i < std::min(most, open.size()); ++i) lines.push_back(open[i].text);
  if (open.size() > most) lines.push_back(absl::StrCat("and ", open.size() - most, " more"));
  if (!open.empty()) lines.push_back(absl::StrCat("all else had ended at ", PrintTime(last_ns)));
  return lines;
}

std::string PrintReconstruction(const Timeline& timeline) {
  const std::optional<Reconstruction> all = ReconstructionOf(timeline);
  if (!all) return "";
  std::string text = absl::StrCat(all->moved, " of ", all->seen, " starts reconstructed");
  if (all->moved > 0) absl::StrAppend(&text, ", by at most ", PrintTime(all->most_ns));
  if (all->unseen > 0) {
    absl::StrAppend(&text, "; of ", all->unseen,
                    " messages and reductions only the end was observed");
  }
  return text;
}

int64_t ComputeEvents(const Timeline& timeline) {
  std::atomic<int64_t> count = 0;
  ForEachOnCores(timeline.ranks(), timeline.events.size(), [&](int rank) {
    int64_t of_rank = 0;
    for (const Event& event : timeline.of(RankId(rank))) of_rank += IsCompute(event.kind) ? 1 : 0;
    count += of_rank;
  });
  return count;
}

}  // namespace stringline
